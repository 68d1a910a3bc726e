// Products of whole batches, cut into chunks for the threads. A chunk is a tile of 32 rows of one part of the
// matrix and some rows of the batch. Each output is computed whole inside one chunk.
#pragma once

#include <cstdint>
#include <span>

#include "cpu-runner/kernels/kernels.h"
#include "cpu-runner/matrix/activation.h"
#include "cpu-runner/matrix/matrix.h"
#include "cpu-runner/thread_pool.h"
#include "runner/backend/activation_type.h"
#include "runner/backend/nonlinearity.h"

namespace runnel {

struct Executor {
  const Kernels& kernels;
  ThreadPool& threads;
  ActivationType activations = ActivationType::kI8;  // what products read
};

// Makes a row whose values are complete ready for a product.
void make_ready(const Executor& executor, Activation& activation, uint32_t row);

// out[row * out_stride + r] = matrix row r . in row (+ bias[r]) (+ the value that out has, if add). bias has
// matrix.rows() values or none.
void multiply_rows(const Executor& executor, const StackedMatrix& matrix, const Activation& in,
                   uint32_t num_rows, std::span<const float> bias, bool add, float* out, size_t out_stride);

// What a feed-forward part multiplies before its nonlinearity f.
struct GatedMatrices {
  const TiledMatrix* gate;           // nullptr: there is no gate
  const TiledMatrix& up;             // as many rows as gate
  std::span<const float> gate_bias;  // one value for each row; may be empty
  std::span<const float> up_bias;    // the same
  Nonlinearity nonlinearity;
};

// out = f(gate . in) x (up . in), or f(up . in) without a gate, made ready for a product. The biases are
// added to the products.
void gated_multiply_rows(const Executor& executor, const GatedMatrices& matrices, const Activation& in,
                         uint32_t num_rows, Activation& out);

}  // namespace runnel

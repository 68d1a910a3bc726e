// Products of whole batches, cut into chunks for the threads. A chunk is a few tiles of one part of the
// matrix and at most kMaxColumns rows of the batch; each output is computed whole inside one chunk.
#pragma once

#include <cstdint>
#include <span>

#include "cpu-runner/activation.h"
#include "cpu-runner/kernels/kernels.h"
#include "cpu-runner/matrix.h"
#include "cpu-runner/thread_pool.h"

namespace runnel {

struct Executor {
  const Kernels& kernels;
  ThreadPool& threads;
};

// out[row * out_stride + r] = matrix row r . in row (+ bias[r]) (+ what out holds, if add). bias:
// matrix.rows() values or none.
void multiply_rows(const Executor& executor, const StackedMatrix& matrix, const Activation& in,
                   uint32_t num_rows, std::span<const float> bias, bool add, float* out, size_t out_stride);

// out = silu(gate . in) x (up . in), with its block sums; gate_up has two parts of equal rows.
void gated_multiply_rows(const Executor& executor, const StackedMatrix& gate_up, const Activation& in,
                         uint32_t num_rows, Activation& out);

}  // namespace runnel

// The products of one type of weights. They are compiled a few types a file, since their kernels are most of
// the code.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "cuda-runner/kernels/product.h"

namespace runnel {

// What becomes of a product y: the floats or the ready rows of `product.h`.
struct ProductOutput {
  enum class Kind {
    kReplace,  // floats = y
    kAdd,      // floats = y + floats
    kReady,    // ready = f(y), or f(what ready.values has) * y if has_gates
  };
  Kind kind;
  Global<const float> bias;
  bool has_bias;
  uint32_t num_outputs;  // rows of the matrix
  FloatRows floats;
  uint32_t first_output;  // in floats and bias
  ReadyRows ready;
  Nonlinearity nonlinearity;
  bool has_gates;
};

// The tiles that a block of threads multiplies together: half of them, or the only one, are of the first
// matrix, the others of the second, which may be the same one. Beyond the last tile of a matrix they are its
// last, and their results have no meaning.
struct BlockTiles {
  const DeviceMatrix& first;
  const DeviceMatrix& second;
  uint32_t first_tile;
  uint32_t second_tile;
};

// What a block of threads multiplies: a tile and a few rows, each lane a row of the tile (kVectors); the same
// through rings of each warp (kSegments); several tiles and many rows (kTiles).
enum class ProductKind { kVectors, kSegments, kTiles };

// In: ReadyRows, or NormedRows, which are multiplied if computes_norms; then form is kBest.
template <TensorType kType, typename In>
cudaError_t multiply_of(const DeviceMatrix& matrix, const In& in, uint32_t num_rows, const ProductOutput& to,
                        cudaStream_t stream, ProductForm form);
// gate and up must be of the type.
template <TensorType kType, typename In>
cudaError_t gated_multiply_of(const DeviceMatrix& gate, const DeviceMatrix& up, Nonlinearity nonlinearity,
                              const In& in, uint32_t num_rows, const ReadyRows& out, cudaStream_t stream,
                              ProductForm form);
template <TensorType kType>
cudaError_t load_multiply_of();
template <TensorType kType>
cudaError_t load_gated_multiply_of();

}  // namespace runnel

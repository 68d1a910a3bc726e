#include <bit>
#include <cmath>

#include "cuda-runner/kernels/launch.h"
#include "cuda-runner/kernels/product.h"
#include "cuda-runner/kernels/ready_rows-inl.h"
#include "cuda-runner/kernels/tensor_product-inl.h"
#include "cuda-runner/kernels/vector_product-inl.h"
#include "runner/numerics.h"

namespace runnel {
namespace {

// x: tiles of the matrix; y: groups of rows of the batch.
template <typename Product>
__global__ void __launch_bounds__(Product::kMaxThreads)
    multiply_kernel(DeviceMatrix matrix, ReadyRows in, uint32_t num_rows, Global<const float> bias,
                    bool has_bias, Epilogue epilogue, FloatRows out, uint32_t first_output) {
  __shared__ Shared<float, Product::kScratch> scratch;
  __shared__ Shared<float, Product::kColumns * kWarpTileRows> products;
  const uint32_t tile = blockIdx.x;
  const uint32_t first_row = blockIdx.y * Product::kColumns;
  Product::compute(matrix, tile, in, first_row, num_rows, scratch, products);

  const uint32_t output = tile * kWarpTileRows + lane();
  if (output >= matrix.rows) return;
  const uint32_t num_rows_left = num_rows - first_row;
  const uint32_t num_columns = num_rows_left < Product::kColumns ? num_rows_left : Product::kColumns;
  for (uint32_t column = warp(); column < num_columns; column += blockDim.x / kWarpSize) {
    float y = products[column * kWarpTileRows + lane()];
    if (has_bias) y = y + bias[first_output + output];
    const size_t index = static_cast<size_t>(first_row + column) * out.stride + first_output + output;
    if (epilogue == Epilogue::kAdd) y = y + out.values[index];
    out.values[index] = y;
  }
}

// A tile's 32 rows are a block of out's columns.
template <typename Product>
__global__ void __launch_bounds__(Product::kMaxThreads)
    gated_multiply_kernel(DeviceMatrix gate, DeviceMatrix up, ReadyRows in, uint32_t num_rows,
                          ReadyRows out) {
  static_assert(kWarpTileRows == kBlockColumns);
  __shared__ Shared<float, Product::kScratch> scratch;
  __shared__ Shared<float, Product::kColumns * kWarpTileRows> gates;
  __shared__ Shared<float, Product::kColumns * kWarpTileRows> ups;
  const uint32_t tile = blockIdx.x;
  const uint32_t first_row = blockIdx.y * Product::kColumns;
  Product::compute(gate, tile, in, first_row, num_rows, scratch, gates);
  Product::compute(up, tile, in, first_row, num_rows, scratch, ups);

  const bool is_there = tile * kWarpTileRows + lane() < out.width;
  const uint32_t num_rows_left = num_rows - first_row;
  const uint32_t num_columns = num_rows_left < Product::kColumns ? num_rows_left : Product::kColumns;
  for (uint32_t column = warp(); column < num_columns; column += blockDim.x / kWarpSize) {
    const uint32_t index = column * kWarpTileRows + lane();
    const float g = gates[index];
    const float silu = g / (1.0f + exp_f32(-g));
    store_ready_block(out, first_row + column, tile * kWarpTileRows, is_there ? silu * ups[index] : 0.0f);
  }
}

template <typename Product>
cudaLaunchConfig_t product_config(const DeviceMatrix& matrix, uint32_t num_rows, cudaStream_t stream) {
  const dim3 grid(divide_up(matrix.rows, kWarpTileRows), divide_up(num_rows, Product::kColumns));
  return config_of(grid, Product::num_threads(divide_up(matrix.columns, kSegmentColumns)), stream);
}

// Calls launch with the product for so many rows, a type.
template <typename Launch>
void with_product(bool is_quantised, uint32_t num_rows, const Launch& launch) {
  if (num_rows == 1) {
    launch(VectorProduct<1>());
  } else if (num_rows == 2) {
    launch(VectorProduct<2>());
  } else if (num_rows <= 4) {
    launch(VectorProduct<4>());
  } else if (num_rows <= 8 || !is_quantised) {
    launch(VectorProduct<8>());
  } else {
    launch(TensorProduct());
  }
}

}  // namespace

cudaError_t multiply(const DeviceMatrix& matrix, const ReadyRows& in, uint32_t num_rows,
                     Global<const float> bias, bool has_bias, Epilogue epilogue, const FloatRows& out,
                     uint32_t first_output, cudaStream_t stream) {
  cudaError_t status = cudaSuccess;
  with_product(is_quantised(matrix.type), num_rows, [&]<typename Product>(Product) {
    const cudaLaunchConfig_t config = product_config<Product>(matrix, num_rows, stream);
    status = cudaLaunchKernelEx(&config, multiply_kernel<Product>, matrix, in, num_rows, bias, has_bias,
                                epilogue, out, first_output);
  });
  return status;
}

cudaError_t gated_multiply(const DeviceMatrix& gate, const DeviceMatrix& up, const ReadyRows& in,
                           uint32_t num_rows, const ReadyRows& out, cudaStream_t stream) {
  cudaError_t status = cudaSuccess;
  with_product(is_quantised(gate.type) && is_quantised(up.type), num_rows, [&]<typename Product>(Product) {
    const cudaLaunchConfig_t config = product_config<Product>(gate, num_rows, stream);
    status = cudaLaunchKernelEx(&config, gated_multiply_kernel<Product>, gate, up, in, num_rows, out);
  });
  return status;
}

}  // namespace runnel

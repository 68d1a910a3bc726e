#include <cmath>

#include "cuda-runner/kernels/launch.h"
#include "cuda-runner/kernels/load.h"
#include "cuda-runner/kernels/product-inl.h"
#include "cuda-runner/kernels/ready_rows-inl.h"

namespace runnel {
namespace {

// Grid x: tiles of the matrix, whose 32 rows are a block of out's columns; y: groups of rows of the batch.
template <typename Product>
__global__ void __launch_bounds__(Product::kMaxThreads, Product::kMinBlocks)
    activated_multiply_kernel(DeviceMatrix matrix, Global<const float> bias, bool has_bias,
                              Nonlinearity nonlinearity, ReadyRows in, uint32_t num_rows, ReadyRows out) {
  let_next_begin();
  wait_for_previous();
  static_assert(kWarpTileRows == kBlockColumns);
  __shared__ Shared<float, Product::kScratch> scratch;
  __shared__ Shared<float, Product::kColumns * kWarpTileRows> products;
  const uint32_t tile = blockIdx.x;
  const uint32_t first_row = blockIdx.y * Product::kColumns;
  Product::compute(matrix, tile, in, first_row, num_rows, scratch, products);

  const uint32_t output = tile * kWarpTileRows + lane();
  const bool is_there = output < out.width;
  const uint32_t num_rows_left = num_rows - first_row;
  const uint32_t num_columns = num_rows_left < Product::kColumns ? num_rows_left : Product::kColumns;
  for (uint32_t column = warp(); column < num_columns; column += blockDim.x / kWarpSize) {
    float y = products[column * kWarpTileRows + lane()];
    if (has_bias && is_there) y = y + bias[output];
    y = is_there ? apply(nonlinearity, y) : 0.0f;
    store_ready_block(out, first_row + column, tile * kWarpTileRows, y);
  }
}

}  // namespace

cudaError_t activated_multiply(const DeviceMatrix& matrix, Global<const float> bias, bool has_bias,
                               Nonlinearity nonlinearity, const ReadyRows& in, uint32_t num_rows,
                               const ReadyRows& out, cudaStream_t stream) {
  cudaError_t status = cudaSuccess;
  with_product(is_quantised(matrix.type), num_rows, [&]<typename Product>(Product) {
    const cudaLaunchConfig_t config = product_config<Product>(matrix, num_rows, stream);
    status = cudaLaunchKernelEx(&config, activated_multiply_kernel<Product>, matrix, bias, has_bias,
                                nonlinearity, in, num_rows, out);
  });
  return status;
}

cudaError_t load_activated_multiply() {
  return load_all(activated_multiply_kernel<VectorProduct<1>>, activated_multiply_kernel<VectorProduct<2>>,
                  activated_multiply_kernel<VectorProduct<4>>, activated_multiply_kernel<VectorProduct<8>>,
                  activated_multiply_kernel<TensorProduct>);
}

}  // namespace runnel

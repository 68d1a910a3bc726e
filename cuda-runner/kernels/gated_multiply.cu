#include <cmath>

#include "cuda-runner/kernels/launch.h"
#include "cuda-runner/kernels/load.h"
#include "cuda-runner/kernels/product-inl.h"
#include "cuda-runner/kernels/ready_rows-inl.h"

namespace runnel {
namespace {

// Grid x: tiles of the matrices, whose 32 rows are a block of out's columns; y: groups of rows of the batch.
template <typename Product>
__global__ void __launch_bounds__(Product::kMaxThreads, Product::kMinBlocks)
    gated_multiply_kernel(DeviceMatrix gate, DeviceMatrix up, Nonlinearity nonlinearity, ReadyRows in,
                          uint32_t num_rows, ReadyRows out) {
  let_next_begin();
  wait_for_previous();
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
    const float y = apply(nonlinearity, gates[index]) * ups[index];
    store_ready_block(out, first_row + column, tile * kWarpTileRows, is_there ? y : 0.0f);
  }
}

}  // namespace

cudaError_t gated_multiply(const DeviceMatrix& gate, const DeviceMatrix& up, Nonlinearity nonlinearity,
                           const ReadyRows& in, uint32_t num_rows, const ReadyRows& out,
                           cudaStream_t stream) {
  cudaError_t status = cudaSuccess;
  with_product(is_quantised(gate.type) && is_quantised(up.type), num_rows, [&]<typename Product>(Product) {
    const cudaLaunchConfig_t config = product_config<Product>(gate, num_rows, stream);
    status = cudaLaunchKernelEx(&config, gated_multiply_kernel<Product>, gate, up, nonlinearity, in, num_rows,
                                out);
  });
  return status;
}

cudaError_t load_gated_multiply() {
  return load_all(gated_multiply_kernel<VectorProduct<1>>, gated_multiply_kernel<VectorProduct<2>>,
                  gated_multiply_kernel<VectorProduct<4>>, gated_multiply_kernel<VectorProduct<8>>,
                  gated_multiply_kernel<TensorProduct>);
}

}  // namespace runnel

#include <cmath>

#include "cuda-runner/kernels/launch.h"
#include "cuda-runner/kernels/load.h"
#include "cuda-runner/kernels/product-inl.h"
#include "cuda-runner/kernels/ready_rows-inl.h"

namespace runnel {
namespace {

// A tile's 32 rows are a block of out's columns.
template <typename Product>
__global__ void __launch_bounds__(Product::kMaxThreads, Product::kMinBlocks)
    gated_multiply_kernel(GatedMatrices matrices, ReadyRows in, uint32_t num_rows, ReadyRows out) {
  static_assert(kWarpTileRows == kBlockColumns);
  __shared__ Shared<float, Product::kScratch> scratch;
  __shared__ Shared<float, Product::kColumns * kWarpTileRows> gates;
  __shared__ Shared<float, Product::kColumns * kWarpTileRows> ups;
  const uint32_t tile = blockIdx.x;
  const uint32_t first_row = blockIdx.y * Product::kColumns;
  if (matrices.has_gate) Product::compute(matrices.gate, tile, in, first_row, num_rows, scratch, gates);
  Product::compute(matrices.up, tile, in, first_row, num_rows, scratch, ups);

  const uint32_t output = tile * kWarpTileRows + lane();
  const bool is_there = output < out.width;
  const float bias = matrices.has_bias && is_there ? matrices.bias[output] : 0.0f;
  const uint32_t num_rows_left = num_rows - first_row;
  const uint32_t num_columns = num_rows_left < Product::kColumns ? num_rows_left : Product::kColumns;
  for (uint32_t column = warp(); column < num_columns; column += blockDim.x / kWarpSize) {
    const uint32_t index = column * kWarpTileRows + lane();
    const float up = matrices.has_bias ? ups[index] + bias : ups[index];
    const float y = matrices.has_gate ? apply(matrices.nonlinearity, gates[index]) * up
                                      : apply(matrices.nonlinearity, up);
    store_ready_block(out, first_row + column, tile * kWarpTileRows, is_there ? y : 0.0f);
  }
}

}  // namespace

cudaError_t gated_multiply(const GatedMatrices& matrices, const ReadyRows& in, uint32_t num_rows,
                           const ReadyRows& out, cudaStream_t stream) {
  const DeviceMatrix& up = matrices.up;
  const bool has_float_gate = matrices.has_gate && !is_quantised(matrices.gate.type);
  cudaError_t status = cudaSuccess;
  with_product(is_quantised(up.type) && !has_float_gate, num_rows, [&]<typename Product>(Product) {
    const cudaLaunchConfig_t config = product_config<Product>(up, num_rows, stream);
    status = cudaLaunchKernelEx(&config, gated_multiply_kernel<Product>, matrices, in, num_rows, out);
  });
  return status;
}

cudaError_t load_gated_multiply() {
  return load_all(gated_multiply_kernel<VectorProduct<1>>, gated_multiply_kernel<VectorProduct<2>>,
                  gated_multiply_kernel<VectorProduct<4>>, gated_multiply_kernel<VectorProduct<8>>,
                  gated_multiply_kernel<TensorProduct>);
}

}  // namespace runnel

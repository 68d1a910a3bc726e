#include "cuda-runner/kernels/launch.h"
#include "cuda-runner/kernels/load.h"
#include "cuda-runner/kernels/product-inl.h"

namespace runnel {
namespace {

// Grid x: tiles of the matrix; y: groups of rows of the batch.
template <typename Product>
__global__ void __launch_bounds__(Product::kMaxThreads, Product::kMinBlocks)
    multiply_kernel(DeviceMatrix matrix, ReadyRows in, uint32_t num_rows, Global<const float> bias,
                    bool has_bias, Epilogue epilogue, FloatRows out, uint32_t first_output) {
  let_next_begin();
  wait_for_previous();
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

cudaError_t load_multiply() {
  return load_all(multiply_kernel<VectorProduct<1>>, multiply_kernel<VectorProduct<2>>,
                  multiply_kernel<VectorProduct<4>>, multiply_kernel<VectorProduct<8>>,
                  multiply_kernel<TensorProduct>);
}

}  // namespace runnel

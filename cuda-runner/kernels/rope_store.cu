#include "cuda-runner/kernels/head_columns-inl.h"
#include "cuda-runner/kernels/launch.h"
#include "cuda-runner/kernels/load.h"
#include "cuda-runner/kernels/rope_store.h"

namespace runnel {
namespace {

constexpr uint32_t kWarps = 8;

// Grid x: rows of the batch; y: groups of 8 heads of queries, keys and values, one warp for each head.
template <uint32_t kGroups>
__global__ void __launch_bounds__(kWarps* kWarpSize)
    rope_store_kernel(AttentionShape shape, Rotation rotation, StepRows rows, FloatRows qkv, DeviceKv kv,
                      uint32_t layer) {
  let_next_begin();
  wait_for_previous();
  const uint32_t row = blockIdx.x;
  const uint32_t index = blockIdx.y * kWarps + warp();
  if (index >= shape.num_heads + 2 * shape.num_kv_heads) return;
  const bool is_query = index < shape.num_heads;
  const bool is_key = !is_query && index < shape.num_heads + shape.num_kv_heads;
  const uint32_t first_column = index * shape.head_dim;
  const size_t first = static_cast<size_t>(row) * qkv.stride + first_column;
  const uint32_t position = rows.positions[row];
  const uint32_t block = rows.block_of(row, position, kv.block_shift);

  HeadColumns<kGroups> head;
  const HeadNorms& norms = rotation.norms;
  const bool is_normed = is_query ? norms.of_queries.is_there : is_key && norms.of_keys.is_there;
  head.load(qkv, row, first_column, shape.head_dim, rotation, is_query || is_key,
            {is_normed, is_query ? norms.of_queries.gain : norms.of_keys.gain,
             is_query ? norms.of_queries.epsilon : norms.of_keys.epsilon});
  sync_warp();  // all lanes have read what they rotate with
  for (uint32_t group = 0; group < kGroups; ++group) {
    const uint32_t column = head.column_of(group);
    if (column < shape.head_dim && (is_query || is_normed))
      qkv.values[first + column] = is_query ? head.turned[group] : head.normed[group];
  }
  if (is_query) return;

  const uint32_t kv_head = (index - shape.num_heads) % shape.num_kv_heads;
  const CachePlace place{kv.keys_of(layer, block, kv_head), kv.position_in_block(position)};
  for (uint32_t group = 0; group < kGroups; ++group) {
    const float x = head.turned[group];
    place.store(kv, kv.type, is_key, head.column_of(group), x, rounded(kv.type, x));
  }
}

}  // namespace

cudaError_t rope_store(const AttentionShape& shape, const Rotation& rotation, const StepRows& rows,
                       uint32_t num_rows, const FloatRows& qkv, const DeviceKv& kv, uint32_t layer,
                       cudaStream_t stream) {
  const uint32_t num_heads = shape.num_heads + 2 * shape.num_kv_heads;
  const cudaLaunchConfig_t config =
      config_of(dim3(num_rows, divide_up(num_heads, kWarps)), kWarps * kWarpSize, stream);
  const auto launch = [&](auto kernel) {
    return cudaLaunchKernelEx(&config, kernel, shape, rotation, rows, qkv, kv, layer);
  };
  return shape.head_dim <= 128 ? launch(rope_store_kernel<4>) : launch(rope_store_kernel<8>);
}

cudaError_t load_rope_store() {
  return load_all(rope_store_kernel<4>, rope_store_kernel<8>);
}

}  // namespace runnel

#include <cmath>

#include "cuda-runner/kernels/launch.h"
#include "cuda-runner/kernels/load.h"
#include "cuda-runner/kernels/rope_store.h"
#include "cuda-runner/kernels/warp_sums-inl.h"

namespace runnel {
namespace {

constexpr uint32_t kWarps = 8;

// One head of a row.
struct Head {
  Global<float> values;
  size_t first;
  Global<const float> angles;
  size_t first_angle;
  uint32_t rotary_dim;
  bool interleaved;
};

// The two columns of a head that are rotated together.
struct Pair {
  uint32_t first;
  uint32_t second;
};

__device__ inline Pair columns_of(const Head& head, uint32_t pair) {
  if (head.interleaved) return {2 * pair, 2 * pair + 1};
  return {pair, pair + head.rotary_dim / 2};
}

struct Turned {
  float first;
  float second;
};

__device__ inline Turned turn(const Head& head, uint32_t pair) {
  const Pair columns = columns_of(head, pair);
  const float a = head.values[head.first + columns.first];
  const float b = head.values[head.first + columns.second];
  const float cosine = head.angles[head.first_angle + 2 * pair];
  const float sine = head.angles[head.first_angle + 2 * pair + 1];
  return {std::fma(a, cosine, -(b * sine)), std::fma(b, cosine, a * sine)};
}

__device__ inline void turn_in_place(const Head& head) {
  for (uint32_t pair = lane(); pair < head.rotary_dim / 2; pair += kWarpSize) {
    const Turned turned = turn(head, pair);
    const Pair columns = columns_of(head, pair);
    head.values[head.first + columns.first] = turned.first;
    head.values[head.first + columns.second] = turned.second;
  }
}

__device__ inline float turned_column(const Head& head, uint32_t column) {
  if (column >= head.rotary_dim) return head.values[head.first + column];
  const uint32_t half = head.rotary_dim / 2;
  const bool is_second = head.interleaved ? column % 2 == 1 : column >= half;
  const uint32_t pair = head.interleaved ? column / 2 : column % half;
  const Turned turned = turn(head, pair);
  return is_second ? turned.second : turned.first;
}

constexpr uint32_t kMaxHeadDim = 256;
constexpr uint32_t kMaxGroups = kMaxHeadDim / kWarpSize;

// Norms a head. All lanes of a warp must call it; when it returns, all of them see the result.
__device__ inline void norm_in_place(const Head& head, uint32_t head_dim, const HeadNorm& norm) {
  float sums[kMaxGroups];
  for (uint32_t group = 0; group < kMaxGroups; ++group) {
    const uint32_t column = group * kWarpSize + lane();
    const float x = column < head_dim ? head.values[head.first + column] : 0.0f;
    sums[group] = tree_sum(std::fma(x, x, 0.0f));
  }
  for (uint32_t half = kMaxGroups / 2; half > 0; half /= 2) {
    for (uint32_t i = 0; i < half; ++i) sums[i] = sums[i] + sums[i + half];
  }
  const float scale = 1.0f / std::sqrt(sums[0] / static_cast<float>(head_dim) + norm.epsilon);
  for (uint32_t column = lane(); column < head_dim; column += kWarpSize)
    head.values[head.first + column] = (head.values[head.first + column] * scale) * norm.gain[column];
  sync_warp();
}

// Rounds 32 columns of a key or value to the cache's type and stores them. All lanes of a warp must call it,
// each with the value x of its column. value: the index of the column's value in the run. scale: the offset
// of the scale in the run, in bytes.
__device__ inline void store_columns(const DeviceKv& kv, size_t run, uint32_t value, uint32_t scale,
                                     uint32_t column, float x) {
  const bool is_there = column < kv.num_octets() * kOctet;
  switch (kv.type) {
    case KvType::kF32:
      if (is_there) kv.bytes.store<float>(run + 4 * value, x);
      break;
    case KvType::kF16:
      if (is_there) kv.bytes.store<uint16_t>(run + 2 * value, to_half(x));
      break;
    case KvType::kQ8_0: {
      const uint16_t scale_bits = to_half(largest_magnitude(x) / 127.0f);
      const float d = from_half(scale_bits);
      // The bounds are needed because a scale that is rounded to a half may be too small.
      const float quotient = d == 0.0f ? 0.0f : std::fmin(std::fmax(std::rint(x / d), -127.0f), 127.0f);
      kv.bytes.store<int8_t>(run + value, static_cast<int8_t>(quotient));
      if (lane() == 0) kv.bytes.store<uint16_t>(run + scale, scale_bits);
      break;
    }
  }
}

// Grid x: rows of the batch; y: groups of 8 heads of queries, keys and values, one warp for each head.
__global__ void __launch_bounds__(kWarps* kWarpSize)
    rope_store_kernel(AttentionShape shape, Rope rope, HeadNorms norms, Global<const float> angles,
                      StepRows rows, FloatRows qkv, DeviceKv kv, uint32_t layer) {
  let_next_begin();
  wait_for_previous();
  const uint32_t row = blockIdx.x;
  const uint32_t index = blockIdx.y * kWarps + warp();
  if (index >= shape.num_heads + 2 * shape.num_kv_heads) return;
  const Head head{qkv.values,      static_cast<size_t>(row) * qkv.stride + index * shape.head_dim,
                  angles,          static_cast<size_t>(row) * rope.rotary_dim,
                  rope.rotary_dim, rope.interleaved};
  if (index < shape.num_heads) {
    if (norms.of_queries.is_there) norm_in_place(head, shape.head_dim, norms.of_queries);
    turn_in_place(head);
    return;
  }

  const bool is_key = index < shape.num_heads + shape.num_kv_heads;
  if (is_key && norms.of_keys.is_there) norm_in_place(head, shape.head_dim, norms.of_keys);
  const uint32_t kv_head = (index - shape.num_heads) % shape.num_kv_heads;
  const uint32_t position = rows.positions[row];
  const uint32_t block = rows.block_of(row, position, kv.block_shift);
  const uint32_t in_block = kv.position_in_block(position);
  const size_t run = kv.keys_of(layer, block, kv_head) + (is_key ? 0 : kv.run_bytes());
  for (uint32_t first = 0; first < kv.head_dim; first += kWarpSize) {
    const uint32_t column = first + lane();
    float x = 0.0f;
    if (column < kv.head_dim) x = is_key ? turned_column(head, column) : head.values[head.first + column];
    if (is_key) {
      const uint32_t value = kv.key_octet(column / kOctet, in_block) * kOctet + column % kOctet;
      store_columns(kv, run, value, kv.key_scale(first, in_block), column, x);
    } else {
      const uint32_t value = kv.value_octet(in_block / kOctet, column) * kOctet + in_block % kOctet;
      const uint32_t scale = kv.value_scales(in_block / kOctet, first) + 2 * (in_block % kOctet);
      store_columns(kv, run, value, scale, column, x);
    }
  }
}

}  // namespace

cudaError_t rope_store(const AttentionShape& shape, const Rope& rope, const HeadNorms& norms,
                       Global<const float> angles, const StepRows& rows, uint32_t num_rows,
                       const FloatRows& qkv, const DeviceKv& kv, uint32_t layer, cudaStream_t stream) {
  const uint32_t num_heads = shape.num_heads + 2 * shape.num_kv_heads;
  const cudaLaunchConfig_t config =
      config_of(dim3(num_rows, divide_up(num_heads, kWarps)), kWarps * kWarpSize, stream);
  return cudaLaunchKernelEx(&config, rope_store_kernel, shape, rope, norms, angles, rows, qkv, kv, layer);
}

cudaError_t load_rope_store() {
  return load_all(rope_store_kernel);
}

}  // namespace runnel

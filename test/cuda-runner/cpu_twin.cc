#include "test/cuda-runner/cpu_twin.h"

#include <numeric>

#include "cpu-runner/attention/kv_cache.h"
#include "cpu-runner/isa.h"

namespace runnel::test {

std::vector<float> cpu_norm(std::span<const float> x, std::span<const float> gain, float epsilon) {
  std::vector<float> out(x.size());
  usable_kernels().back()->norm(x.data(), gain.data(), static_cast<uint32_t>(x.size()), epsilon, out.data());
  return out;
}

void cpu_rotate(std::span<float> head, std::span<const float> angles, bool interleaved) {
  usable_kernels().back()->rotate(head.data(), angles.data(), static_cast<uint32_t>(angles.size()),
                                  interleaved);
}

std::vector<float> cpu_attend(KvType type, std::span<const float> query, std::span<const float> keys,
                              std::span<const float> values, uint32_t first_position, float scale) {
  constexpr uint32_t kBlockSize = 32;
  const auto dim = static_cast<uint32_t>(query.size());
  const auto num_positions = static_cast<uint32_t>(keys.size() / dim);
  const uint32_t num_blocks = (num_positions + kBlockSize - 1) / kBlockSize;
  const KvCache cache = *KvCache::allocate({1, 1, dim, kBlockSize, num_blocks}, type);
  std::vector<uint32_t> block_table(num_blocks);
  std::iota(block_table.begin(), block_table.end(), 0);
  for (uint32_t position = 0; position < num_positions; ++position) {
    const KvCache::Slot slot = cache.slot(0, 0, block_table, position);
    const float* key = keys.data() + size_t{position} * dim;
    const float* value = values.data() + size_t{position} * dim;
    usable_kernels().back()->store_key(cache.layout(), key, slot.position, slot.key_tile);
    usable_kernels().back()->store_value(cache.layout(), value, slot.position, slot.value_tile);
  }
  std::vector<float> out(dim);
  const AttendQuery attended{query.data(), out.data(), first_position, num_positions};
  usable_kernels().back()->attend(cache.view(0, 0, block_table), &attended, 1, {scale});
  return out;
}

}  // namespace runnel::test

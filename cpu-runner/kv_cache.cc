#include "cpu-runner/kv_cache.h"

#include <bit>
#include <string>
#include <utility>

#include "runner/check.h"

namespace runnel {

uint64_t KvCache::block_bytes(const KvShape& shape) {
  return uint64_t{2} * sizeof(uint16_t) * shape.num_layers * shape.num_kv_heads * shape.block_size *
         shape.head_dim;
}

Result<KvCache> KvCache::allocate(const KvShape& shape) {
  CHECK(std::has_single_bit(shape.block_size) && shape.block_size >= 8 && shape.block_size <= 256);
  CHECK(shape.num_blocks > 0);
  if (shape.head_dim > kMaxHeadDim) {
    return Error{ExitCode::kBadModel, "The model has attention heads of " + std::to_string(shape.head_dim) +
                                          " values; the CPU backend supports at most " +
                                          std::to_string(kMaxHeadDim) + "."};
  }
  uint64_t bytes;
  if (__builtin_mul_overflow(block_bytes(shape), shape.num_blocks, &bytes)) {
    return Error{ExitCode::kSystem, "A KV cache of " + std::to_string(shape.num_blocks) + " blocks of " +
                                        std::to_string(block_bytes(shape)) +
                                        " bytes is larger than any memory."};
  }
  Result<Memory> memory = Memory::allocate(bytes, "the KV cache");
  if (!memory) return memory.error();
  KvCache cache;
  cache.memory_ = *std::move(memory);
  cache.shape_ = shape;
  return cache;
}

uint16_t* KvCache::keys_of(uint32_t layer, uint32_t block, uint32_t kv_head) const {
  const size_t index = size_t{layer} * shape_.num_blocks + block;
  return reinterpret_cast<uint16_t*>(memory_.data()) + index * block_halves() + kv_head * head_halves();
}

KvCache::Slot KvCache::slot(uint32_t layer, uint32_t kv_head, std::span<const uint32_t> block_table,
                            uint32_t position) const {
  const uint32_t index = position / shape_.block_size;
  CHECK(layer < shape_.num_layers && kv_head < shape_.num_kv_heads);
  CHECK(index < block_table.size() && block_table[index] < shape_.num_blocks);
  uint16_t* key =
      keys_of(layer, block_table[index], kv_head) + size_t{position % shape_.block_size} * shape_.head_dim;
  return {key, key + shape_.num_kv_heads * head_halves()};
}

KvView KvCache::view(uint32_t layer, uint32_t kv_head, std::span<const uint32_t> block_table) const {
  const uint16_t* keys = keys_of(layer, 0, kv_head);
  return {keys,
          keys + shape_.num_kv_heads * head_halves(),
          block_halves(),
          block_table.data(),
          shape_.block_size,
          shape_.head_dim};
}

}  // namespace runnel

#include "cpu-runner/attention/kv_cache.h"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "runner/check.h"
#include "runner/formats/half.h"

namespace runnel {

namespace {

KvLayout layout_of(const KvShape& shape, KvType type) {
  const uint32_t positions = std::min(shape.block_size, kTilePositions);
  const uint32_t width = (shape.head_dim + kKvWidthMultiple - 1) / kKvWidthMultiple * kKvWidthMultiple;
  const auto layout = [&](size_t scales_bytes, size_t value_bytes) {
    const size_t tile_bytes = scales_bytes + positions * width * value_bytes;
    return KvLayout{type, shape.head_dim, width, positions, scales_bytes, tile_bytes};
  };
  switch (type) {
    case KvType::kF16:
      return layout(0, sizeof(uint16_t));
    case KvType::kF32:
      return layout(0, sizeof(float));
    case KvType::kQ8_0:
      return layout((width + kKvBlockValues - 1) / kKvBlockValues * positions * sizeof(uint16_t),
                    sizeof(int8_t));
  }
  CHECK(false);
}

}  // namespace

uint64_t KvCache::block_bytes(const KvShape& shape, KvType type) {
  const KvLayout layout = layout_of(shape, type);
  return uint64_t{2} * shape.num_layers * shape.num_kv_heads * (shape.block_size / layout.positions) *
         layout.tile_bytes;
}

Result<KvCache> KvCache::allocate(const KvShape& shape, KvType type, uint32_t first_head,
                                  bool has_all_heads) {
  CHECK(std::has_single_bit(shape.block_size) && shape.block_size >= 8 && shape.block_size <= 256);
  CHECK(shape.num_blocks > 0);
  if (shape.head_dim > kMaxHeadDim) {
    return Error{ExitCode::kBadModel, "The model has attention heads of " + std::to_string(shape.head_dim) +
                                          " values; the CPU backend supports at most " +
                                          std::to_string(kMaxHeadDim) + "."};
  }
  if (type == KvType::kQ8_0 && shape.head_dim % kKvBlockValues != 0) {
    return Error{ExitCode::kUsage, "--kv-cache-type is q8_0, which stores heads in blocks of " +
                                       std::to_string(kKvBlockValues) + " values; the model's heads have " +
                                       std::to_string(shape.head_dim) +
                                       " values. Use --kv-cache-type f16 or f32."};
  }
  uint64_t bytes;
  if (__builtin_mul_overflow(block_bytes(shape, type), shape.num_blocks, &bytes)) {
    return Error{ExitCode::kSystem, "A KV cache of " + std::to_string(shape.num_blocks) + " blocks of " +
                                        std::to_string(block_bytes(shape, type)) +
                                        " bytes is larger than any memory."};
  }
  KvCache cache;
  cache.blocks_ = shape.memory;
  if (shape.memory == nullptr) {
    // The first token of a block waits for the page that it writes to, so a page is no larger than a block.
    // Nor are there huge pages where it would hold heads that this process does not have.
    const bool is_small = block_bytes(shape, type) < Memory::kHugePageBytes || !has_all_heads;
    const Pages pages = is_small ? Pages::kSmall : Pages::kHuge;
    Result<Memory> memory = Memory::allocate(bytes, "the KV cache", pages);
    if (!memory) return memory.error();
    cache.memory_ = *std::move(memory);
    cache.blocks_ = cache.memory_.data();
  }
  cache.first_head_ = first_head;
  cache.shape_ = shape;
  cache.layout_ = layout_of(shape, type);
  return cache;
}

std::byte* KvCache::keys_of(uint32_t layer, uint32_t block, uint32_t kv_head) const {
  const size_t index =
      (size_t{block} * shape_.num_layers + layer) * shape_.num_kv_heads + first_head_ + kv_head;
  return blocks_ + index * 2 * keys_bytes();
}

KvCache::Slot KvCache::slot(uint32_t layer, uint32_t kv_head, std::span<const uint32_t> block_table,
                            uint32_t position) const {
  const uint32_t index = position / shape_.block_size;
  CHECK(layer < shape_.num_layers && first_head_ + kv_head < shape_.num_kv_heads);
  CHECK(index < block_table.size() && block_table[index] < shape_.num_blocks);
  const uint32_t in_block = position % shape_.block_size;
  std::byte* key_tile =
      keys_of(layer, block_table[index], kv_head) + in_block / layout_.positions * layout_.tile_bytes;
  return {key_tile, key_tile + keys_bytes(), in_block % layout_.positions};
}

KvView KvCache::view(uint32_t layer, uint32_t kv_head, std::span<const uint32_t> block_table) const {
  const std::byte* keys = keys_of(layer, 0, kv_head);
  const size_t block_bytes = size_t{2} * shape_.num_layers * shape_.num_kv_heads * keys_bytes();
  return {layout_, keys, keys + keys_bytes(), block_bytes, block_table.data(), shape_.block_size};
}

std::vector<float> KvCache::read(uint32_t layer, std::span<const uint32_t> block_table,
                                 uint32_t num_positions) const {
  const auto stored = [&](const std::byte* tile, uint32_t index, uint32_t scale) {
    const std::byte* values = tile + layout_.scales_bytes;
    switch (layout_.type) {
      case KvType::kF32:
        return reinterpret_cast<const float*>(values)[index];
      case KvType::kF16:
        return half_to_float(reinterpret_cast<const uint16_t*>(values)[index]);
      case KvType::kQ8_0:
        return half_to_float(reinterpret_cast<const uint16_t*>(tile)[scale]) *
               static_cast<float>(reinterpret_cast<const int8_t*>(values)[index]);
    }
    CHECK(!"a cache has a type");
    return 0.0f;
  };
  const size_t num_values = size_t{num_positions} * shape_.num_kv_heads * layout_.head_dim;
  std::vector<float> out(2 * num_values);
  float* key = out.data();
  float* value = out.data() + num_values;
  for (uint32_t position = 0; position < num_positions; ++position) {
    for (uint32_t head = 0; head < shape_.num_kv_heads; ++head) {
      const Slot place = slot(layer, head, block_table, position);
      for (uint32_t d = 0; d < layout_.head_dim; ++d) {
        const uint32_t scale = d / kKvBlockValues * layout_.positions + place.position;
        *key++ = stored(place.key_tile, d * layout_.positions + place.position, scale);
        *value++ = stored(place.value_tile, place.position * layout_.width + d, scale);
      }
    }
  }
  return out;
}

}  // namespace runnel

// The paged KV cache: one mapping. All that a sequence stores at a block's positions lies together, so that
// the system, which gives memory when it is first written to, does so little by little.
//
//   (block, layer, kv head, key or value, tile)
//
// A tile is kTilePositions positions of a head, or the whole block where that is smaller; kernels/kv.h says
// what it looks like.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cpu-runner/kernels/kv.h"
#include "cpu-runner/memory.h"
#include "runner/backend.h"
#include "runner/kv_type.h"
#include "runner/result.h"

namespace runnel {

class KvCache {
 public:
  // Of all layers.
  static uint64_t block_bytes(const KvShape& shape, KvType type);
  // Errors: kBadModel for heads the kernels have no room for, kUsage for heads the type cannot store,
  // kSystem.
  static Result<KvCache> allocate(const KvShape& shape, KvType type);

  KvCache() = default;

  // Where key and value of one position of a sequence are. CHECKs that the table has a block for it.
  struct Slot {
    std::byte* key_tile;
    std::byte* value_tile;
    uint32_t position;  // in both
  };
  Slot slot(uint32_t layer, uint32_t kv_head, std::span<const uint32_t> block_table, uint32_t position) const;
  const KvLayout& layout() const { return layout_; }
  // Keys, then values of a sequence's first positions, as stored: (2, num_positions, num_kv_heads, head_dim).
  // In plain code, for those who look at them.
  std::vector<float> read(uint32_t layer, std::span<const uint32_t> block_table,
                          uint32_t num_positions) const;
  KvView view(uint32_t layer, uint32_t kv_head, std::span<const uint32_t> block_table) const;

 private:
  // Keys of one KV head in one block; its values take as many.
  size_t keys_bytes() const { return shape_.block_size / layout_.positions * layout_.tile_bytes; }
  std::byte* keys_of(uint32_t layer, uint32_t block, uint32_t kv_head) const;

  Memory memory_;
  KvShape shape_{};
  KvLayout layout_{};
};

}  // namespace runnel

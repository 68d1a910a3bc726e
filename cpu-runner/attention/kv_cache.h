// The paged KV cache: one mapping, its own or one that the caller gives. Everything that a sequence stores at
// the positions of a block lies together, so that the system, which provides memory on the first write to it,
// provides it little by little.
//
//   (block, layer, kv head, key or value, tile)
//
// A tile is kTilePositions positions of a head, or the whole block where a block is smaller. kernels/kv.h has
// the layout of a tile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cpu-runner/kernels/kv.h"
#include "runner/backend/backend.h"
#include "runner/backend/kv_type.h"
#include "runner/result.h"
#include "runner/system/memory.h"

namespace runnel {

class KvCache {
 public:
  // Bytes of one block.
  static uint64_t block_bytes(const KvShape& shape, KvType type);
  // A process that computes only some of the heads says which one it calls number 0, and that it has not all.
  // Fails with kBadModel for heads that are too large for the kernels, with kUsage for heads that
  // the type cannot store, and with kSystem.
  static Result<KvCache> allocate(const KvShape& shape, KvType type, uint32_t first_head = 0,
                                  bool has_all_heads = true);

  KvCache() = default;

  // Where the key and value of one position of a sequence lie. CHECKs that the table has a block for it.
  struct Slot {
    std::byte* key_tile;
    std::byte* value_tile;
    uint32_t position;  // in both tiles
  };
  Slot slot(uint32_t layer, uint32_t kv_head, std::span<const uint32_t> block_table, uint32_t position) const;
  const KvLayout& layout() const { return layout_; }
  // Keys, then values of the first positions of a sequence, as stored: (2, num_positions, num_kv_heads,
  // head_dim). Plain code, for tests and for inspection.
  std::vector<float> read(uint32_t layer, std::span<const uint32_t> block_table,
                          uint32_t num_positions) const;
  KvView view(uint32_t layer, uint32_t kv_head, std::span<const uint32_t> block_table) const;

 private:
  // Bytes of the keys of one KV head in one block; its values take as many.
  size_t keys_bytes() const { return shape_.block_size / layout_.positions * layout_.tile_bytes; }
  std::byte* keys_of(uint32_t layer, uint32_t block, uint32_t kv_head) const;

  Memory memory_;  // empty if the caller gave memory
  std::byte* blocks_ = nullptr;
  uint32_t first_head_ = 0;
  KvShape shape_{};
  KvLayout layout_{};
};

}  // namespace runnel

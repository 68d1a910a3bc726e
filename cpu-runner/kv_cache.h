// The paged KV cache: half precision, one mapping. A layer's share of a block is its keys, then its values,
// each head by head, so that attention reads one head's positions in a row.
//
//   (layer, block, key or value, kv head, position in block, head_dim)
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "cpu-runner/kernels/kernels.h"
#include "cpu-runner/memory.h"
#include "runner/backend.h"
#include "runner/result.h"

namespace runnel {

class KvCache {
 public:
  // Of all layers.
  static uint64_t block_bytes(const KvShape& shape);
  // Errors: kBadModel for heads the kernels have no room for, kSystem.
  static Result<KvCache> allocate(const KvShape& shape);

  KvCache() = default;

  // Where key and value of one position of a sequence begin. CHECKs that the table has a block for it.
  struct Slot {
    uint16_t* key;
    uint16_t* value;
  };
  Slot slot(uint32_t layer, uint32_t kv_head, std::span<const uint32_t> block_table, uint32_t position) const;
  KvView view(uint32_t layer, uint32_t kv_head, std::span<const uint32_t> block_table) const;

 private:
  size_t head_halves() const { return size_t{shape_.block_size} * shape_.head_dim; }
  size_t block_halves() const { return 2 * shape_.num_kv_heads * head_halves(); }
  uint16_t* keys_of(uint32_t layer, uint32_t block, uint32_t kv_head) const;

  Memory memory_;
  KvShape shape_{};
};

}  // namespace runnel

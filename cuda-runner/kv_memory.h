// The paged KV cache: one allocation, with a block more than asked for, which rows that fill up a batch write
// to.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cuda-runner/device/device_buffer.h"
#include "cuda-runner/device/stream.h"
#include "cuda-runner/kernels/device_kv.h"
#include "runner/backend.h"
#include "runner/kv_type.h"
#include "runner/result.h"

namespace runnel {

class KvMemory {
 public:
  // Of all layers.
  static uint64_t block_bytes(const KvShape& shape, KvType type);
  // Filled with zeros: kernels read whole groups of positions. Errors: kBadModel for heads the kernels have
  // no room for, kUsage for heads the type cannot store, kSystem.
  static Result<KvMemory> allocate(const KvShape& shape, KvType type, Stream& stream);

  DeviceKv view();
  // Keys, then values of a sequence's first positions, as stored: (2, num_positions, num_kv_heads, head_dim).
  // Waits for the device, and copies the whole cache: for those who look at a small one.
  std::vector<float> read(uint32_t layer, std::span<const uint32_t> block_table, uint32_t num_positions,
                          Stream& stream);
  uint32_t spare_block() const { return shape_.num_blocks; }
  // Entries that a sequence's table has at most.
  uint32_t max_table_blocks() const {
    return (shape_.max_positions + shape_.block_size - 1) / shape_.block_size;
  }

 private:
  KvMemory(const KvShape& shape, KvType type, DeviceBuffer<uint8_t> bytes)
      : shape_(shape), type_(type), bytes_(std::move(bytes)) {}

  KvShape shape_;
  KvType type_;
  DeviceBuffer<uint8_t> bytes_;
};

}  // namespace runnel

// The paged KV cache in the device's memory: one allocation. It has one block more than asked for, the spare
// block, which the rows that pad a batch write to.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cuda-runner/device/device_buffer.h"
#include "cuda-runner/device/stream.h"
#include "cuda-runner/kernels/device_kv.h"
#include "runner/backend/backend.h"
#include "runner/backend/kv_type.h"
#include "runner/result.h"

namespace runnel {

class KvMemory {
 public:
  // Bytes of one block.
  static uint64_t block_bytes(const KvShape& shape, KvType type);
  // Allocates the cache and fills it with zeros, because kernels read whole groups of positions. Fails with
  // kBadModel for heads that are too large for the kernels, with kUsage for heads that the type cannot store,
  // and with kSystem.
  static Result<KvMemory> allocate(const KvShape& shape, KvType type, Stream& stream);

  DeviceKv view();
  // Keys, then values of the first positions of a sequence, as stored: (2, num_positions, num_kv_heads,
  // head_dim). Waits for the device and copies the whole cache, so it is only for tests and for inspection.
  std::vector<float> read(uint32_t layer, std::span<const uint32_t> block_table, uint32_t num_positions,
                          Stream& stream);
  uint32_t spare_block() const { return shape_.num_blocks; }
  // The largest number of entries in the block table of a sequence.
  static uint32_t max_table_blocks(const KvShape& shape) {
    return (shape.max_positions + shape.block_size - 1) / shape.block_size;
  }

 private:
  KvMemory(const KvShape& shape, KvType type, DeviceBuffer<uint8_t> bytes)
      : shape_(shape), type_(type), bytes_(std::move(bytes)) {}

  KvShape shape_;
  KvType type_;
  DeviceBuffer<uint8_t> bytes_;
};

}  // namespace runnel

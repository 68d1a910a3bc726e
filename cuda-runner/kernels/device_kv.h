// The layout of the paged KV cache on the device. A run of bytes holds the keys or the values of a block of
// positions for one layer and KV head:
//
//   runs    (layer, block, kv head, keys or values)
//   keys    (octet of columns, position in the block, 8 columns)
//   values  (octet of positions, column, 8 positions)
//
// So a warp reads contiguous memory both when its lanes take positions (keys) and when they take columns
// (values). Columns are padded with zeros to a multiple of 8. For Q8_0 the bytes of a run are followed by
// their scales, as halves:
//
//   keys    (32 columns, position in the block)
//   values  (octet of positions, 32 columns, 8 positions)
//
// Kernels read whole octets, including positions that are not written yet. So the memory is filled with zeros
// when it is allocated.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda-runner/kernels/lang.h"
#include "runner/backend/host_device.h"
#include "runner/backend/kv_type.h"

namespace runnel {

inline constexpr uint32_t kOctet = 8;
// The number of columns of a head that share a scale.
inline constexpr uint32_t kKvScaleColumns = 32;
inline constexpr uint32_t kMaxDeviceHeadDim = 256;

RUNNEL_HOST_DEVICE constexpr uint32_t kv_value_bytes(KvType type) {
  return type == KvType::kF32 ? 4 : type == KvType::kF16 ? 2 : 1;
}

struct DeviceKv {
  KvType type;
  uint32_t num_kv_heads;
  uint32_t head_dim;     // at most kMaxDeviceHeadDim; for Q8_0 a multiple of 32
  uint32_t block_shift;  // a block has 1 << block_shift positions: 8 to 256
  uint32_t num_blocks;
  Global<uint8_t> bytes;  // the address is a multiple of 16

  RUNNEL_HOST_DEVICE uint32_t num_octets() const { return (head_dim + kOctet - 1) / kOctet; }
  RUNNEL_HOST_DEVICE uint32_t position_in_block(uint32_t position) const {
    return position & ((1u << block_shift) - 1);
  }
  // quants_bytes(): bytes of a run before the scales. run_bytes(): all bytes of a run. Both are multiples of
  // 16.
  RUNNEL_HOST_DEVICE uint32_t quants_bytes() const {
    return (num_octets() * kOctet * kv_value_bytes(type)) << block_shift;
  }
  RUNNEL_HOST_DEVICE uint32_t run_bytes() const {
    const uint32_t scale_bytes = type == KvType::kQ8_0 ? (head_dim / kKvScaleColumns * 2) << block_shift : 0;
    return quants_bytes() + scale_bytes;
  }
  // The offset of the first byte of a block's keys. Its values begin run_bytes() later.
  RUNNEL_HOST_DEVICE size_t keys_of(uint32_t layer, uint32_t block, uint32_t kv_head) const {
    const size_t index = (static_cast<size_t>(layer) * num_blocks + block) * num_kv_heads + kv_head;
    return index * 2 * run_bytes();
  }
  // Places in a run, counted in octets. key_octet: columns 8 * octet to 8 * octet + 7 of a position's key.
  // value_octet: the values of one column at positions 8 * octet to 8 * octet + 7 of the block.
  RUNNEL_HOST_DEVICE uint32_t key_octet(uint32_t octet, uint32_t position_in_block) const {
    return (octet << block_shift) + position_in_block;
  }
  RUNNEL_HOST_DEVICE uint32_t value_octet(uint32_t octet, uint32_t column) const {
    return octet * num_octets() * kOctet + column;
  }
  // Offsets in a run, in bytes. key_scale: the half that scales a column of a position's key. value_scales:
  // the 8 halves that scale an octet of positions in a column of the values.
  RUNNEL_HOST_DEVICE uint32_t key_scale(uint32_t column, uint32_t position_in_block) const {
    return quants_bytes() + 2 * (((column / kKvScaleColumns) << block_shift) + position_in_block);
  }
  RUNNEL_HOST_DEVICE uint32_t value_scales(uint32_t octet, uint32_t column) const {
    const uint32_t index = octet * (head_dim / kKvScaleColumns) + column / kKvScaleColumns;
    return quants_bytes() + 2 * kOctet * index;
  }
};

}  // namespace runnel

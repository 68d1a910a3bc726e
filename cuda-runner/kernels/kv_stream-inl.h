// The keys and values of a split on their way through a ring in shared memory. Each warp of a block has a
// ring of its own. It first takes the keys of its tiles and then the values of its chunk of 32 columns, in
// steps of two octets for each lane. The copies of a few steps are always under way, also while the block
// waits at a barrier between keys and values.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "cuda-runner/kernels/attend-inl.h"
#include "cuda-runner/kernels/device_kv.h"

namespace runnel {

// One split of a row, as the warps of a block see it.
struct RowSplit {
  uint32_t first_position;
  Positions seen;  // in this split
  uint32_t kv_head;
  // Of octet lane(); the block of the nearest seen position, if none of the octet is seen.
  uint32_t block;
  bool has_newest;  // the last position is not in the cache yet

  __device__ uint32_t tile_begin() const { return (seen.begin - first_position) / kTilePositions; }
  __device__ uint32_t tile_end() const {
    return (seen.end - first_position + kTilePositions - 1) / kTilePositions;
  }
  __device__ bool has_tile(uint32_t tile) const { return tile >= tile_begin() && tile < tile_end(); }
  // The place of the newest position in a tile; kTilePositions or more if the tile does not have it.
  __device__ uint32_t newest_in(uint32_t tile) const {
    return has_newest ? seen.end - 1 - (first_position + tile * kTilePositions) : kTilePositions;
  }
  // Whether all positions of a tile are seen, and in the cache.
  __device__ bool is_whole(uint32_t tile) const {
    const uint32_t first = first_position + tile * kTilePositions;
    return seen.begin <= first && seen.end >= first + kTilePositions && newest_in(tile) >= kTilePositions;
  }
};

template <KvType kType, uint32_t kWarps>
class KvStream {
 public:
  static constexpr uint32_t kOctetBytes = kOctet * kv_value_bytes(kType);
  static constexpr uint32_t kPairBytes = 2 * kWarpSize * kOctetBytes;  // of a step
  static constexpr uint32_t kCopyBytes = 16;
  static constexpr uint32_t kCopies = kPairBytes / (kCopyBytes * kWarpSize);  // of a lane, in a step
  static constexpr bool kHasScales = kType == KvType::kQ8_0;
  // Scales of a lane's 8 positions for keys, and of as many for values.
  static constexpr uint32_t kWarpScales = kWarpSize * kOctet;
  static constexpr uint32_t kScaleBytes = kHasScales ? 2 * kWarpScales * sizeof(uint16_t) : 0;
  // The rings and scales of a block have at most this many bytes, so that several blocks fit into a
  // multiprocessor.
  static constexpr uint32_t kMaxBytes = 32768;
  static constexpr uint32_t kSteps = std::min((kMaxBytes / kWarps - kScaleBytes) / kPairBytes, 8u);
  static_assert(kSteps >= 2);

  // A warp has the tiles warp() + i * kWarps of a split. It takes the keys of two tiles together, as far as
  // it has two, and else two octets of columns of one tile.
  static constexpr uint32_t kWarpTiles = kSplitTiles / kWarps;
  static constexpr uint32_t kTogether = kWarpTiles == 1 ? 1 : 2;
  static constexpr uint32_t kRounds = kWarpTiles / kTogether;
  __device__ static uint32_t tile_of(uint32_t round, uint32_t member) {
    return warp() + (round * kTogether + member) * kWarps;
  }
  __device__ static bool has_round(const RowSplit& split, uint32_t round) {
    return tile_of(round, 0) < split.tile_end() && tile_of(round, kTogether - 1) >= split.tile_begin();
  }
  __device__ static uint32_t key_steps(const DeviceKv& kv) {
    return kTogether == 2 ? kv.num_octets() : (kv.num_octets() + 1) / 2;
  }
  static constexpr uint32_t kTileSteps = kTileOctets / 2;  // of the values of a tile

  struct Memory {
    Shared<uint2, kWarps * kSteps * kPairBytes / sizeof(uint2)> ring;
    Shared<uint16_t, kHasScales ? kWarps * 2 * kWarpScales : 1> scales;
  };

  __device__ KvStream(const DeviceKv& kv, uint32_t layer, const RowSplit& split, Memory& memory)
      : kv_(kv),
        split_(split),
        memory_(memory),
        keys_(kv.keys_of(layer, 0, split.kv_head)),
        block_bytes_(static_cast<uint32_t>(kv.keys_of(0, 1, 0))),
        value_step_(split.tile_begin() * kTileSteps),
        value_end_(warp() * kWarpSize < kv.head_dim ? split.tile_end() * kTileSteps : 0) {
    if constexpr (!kIsOwn) sync_warp();  // all lanes have read what the stream before brought
    if constexpr (kHasScales) {
      wait_copies<0>();  // a warp without a step has not waited for the scales of the stream before
      copy_scales();
    }
    values_from_ = keys_ + size_t{split.block} * block_bytes_ + kv.run_bytes() +
                   kv.value_octet(octet_in_block(lane()), 0) * kOctetBytes;
    begin_round(0);
#pragma unroll 1
    for (uint32_t step = 0; step + 1 < kSteps; ++step) begin_step(step);
  }

  // Waits for the next step, which is one of keys or of values, and begins the copies of a later one in the
  // place of the step before.
  __device__ void next_keys() {
    begin_step(wait());
  }
  __device__ void next_values() {
    begin_values(wait());
  }  // the copies of all keys have begun

  // An octet of the step that was waited for, each value times its scale if the type has scales.
  __device__ void load_octet(uint32_t member, const float (&scales)[kOctet], float (&out)[kOctet]) {
    const uint32_t first = ring_at(place_, (member * kWarpSize + lane()) * kOctetBytes);
    if constexpr (kType == KvType::kF32) {
      const auto low = memory_.ring.template load<float4>(first);
      const auto high = memory_.ring.template load<float4>(first + sizeof(float4) / kElementBytes);
      const float values[kOctet] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
      for (uint32_t i = 0; i < kOctet; ++i) out[i] = values[i];
    } else if constexpr (kType == KvType::kF16) {
      const auto bits = memory_.ring.template load<uint4>(first);
      const uint32_t words[4] = {bits.x, bits.y, bits.z, bits.w};
      for (uint32_t i = 0; i < kOctet; ++i)
        out[i] = from_half(static_cast<uint16_t>(words[i / 2] >> (16 * (i % 2))));
    } else {
      const auto bits = memory_.ring.template load<uint2>(first);
      const uint32_t words[2] = {bits.x, bits.y};
      for (uint32_t i = 0; i < kOctet; ++i) out[i] = scaled_byte(words[i / 4], i % 4, scales[i]);
    }
  }
  // The scale of the columns from 32 * chunk on of the key that this lane has of a tile.
  __device__ float key_scale(uint32_t round, uint32_t member, uint32_t chunk) {
    const uint32_t tile = round * kTogether + (kTogether == 2 ? member : 0);
    return from_half(memory_.scales[scales_at() + (tile * kWarps + chunk) * kWarpSize + lane()]);
  }
  // The scales of an octet of positions of the values.
  __device__ void load_value_scales(uint32_t octet, float (&out)[kOctet]) {
    const auto bits = memory_.scales.template load<uint4>(scales_at() + kWarpScales + octet * kOctet);
    const uint32_t words[4] = {bits.x, bits.y, bits.z, bits.w};
    for (uint32_t i = 0; i < kOctet; ++i)
      out[i] = from_half(static_cast<uint16_t>(words[i / 2] >> (16 * (i % 2))));
  }

 private:
  static constexpr uint32_t kElementBytes = sizeof(uint2);
  // Whether each lane copies the octets that it reads.
  static constexpr bool kIsOwn = kOctetBytes == kCopyBytes;

  // What copy number `copy` of this lane brings: a part of the octet of lane `lane` of a member, or, if
  // octets are smaller, that octet and the next lane's.
  struct Part {
    uint32_t member;
    uint32_t lane;
    uint32_t first_byte;
  };
  __device__ static Part part_of(uint32_t copy) {
    const uint32_t byte = (copy * kWarpSize + runnel::lane()) * kCopyBytes;
    const uint32_t octet = byte / kOctetBytes;
    return {octet / kWarpSize, octet % kWarpSize, byte % kOctetBytes};
  }

  // A byte times its scale, exactly. The bits of the byte + 128 in the mantissa of 32768 make a float without
  // a conversion. The product with the scale, a half, has 27 bits and is not rounded before the difference.
  __device__ static float scaled_byte(uint32_t word, uint32_t i, float scale) {
    const uint32_t bits = select_bytes(word ^ 0x80808080, 0x47000000, 0x7504 | i << 4);
    return std::fma(std::bit_cast<float>(bits), scale, -32896.0f * scale);
  }

  // The element of a byte of a step.
  __device__ uint32_t ring_at(uint32_t place, uint32_t byte) const {
    return ((warp() * kSteps + place) * kPairBytes + byte) / kElementBytes;
  }
  __device__ uint32_t scales_at() const {
    return warp() * 2 * kWarpScales;
  }

  // Waits for the next step. Returns the place of the step before.
  __device__ uint32_t wait() {
    wait_copies<static_cast<int>(kSteps) - 2>();
    if constexpr (!kIsOwn) sync_warp();
    const uint32_t before = place_;
    place_ = place_ + 1 == kSteps ? 0 : place_ + 1;
    return before;
  }

  // The offset of the keys of an octet of positions of the split.
  __device__ size_t keys_of(uint32_t octet) const {
    return keys_ + size_t{shuffle(split_.block, octet)} * block_bytes_;
  }

  // Begins the first round from `round` on that has a seen tile.
  __device__ void begin_round(uint32_t round) {
    while (round < kRounds && !has_round(split_, round)) ++round;
    round_ = round;
    key_step_ = 0;
    if (round == kRounds) return;
    for (uint32_t copy = 0; copy < kCopies; ++copy) {
      const Part part = part_of(copy);
      const uint32_t tile = tile_of(round, kTogether == 2 ? part.member : 0);
      uint32_t position = split_.seen.nearest(split_.first_position + tile * kTilePositions + part.lane);
      if constexpr (kOctetBytes < kCopyBytes) position &= ~1u;
      const uint32_t first = kv_.position_in_block(position) * kOctetBytes + part.first_byte;
      keys_from_[copy] = kv_.bytes.from(keys_of((position - split_.first_position) / kOctet) + first,
                                        kv_.quants_bytes() - first);
    }
  }

  __device__ void begin_step(uint32_t place) {
    if (round_ == kRounds) return begin_values(place);
    for (uint32_t copy = 0; copy < kCopies; ++copy) {
      const uint32_t octet =
          kTogether == 2 ? key_step_ : std::min(2 * key_step_ + part_of(copy).member, kv_.num_octets() - 1);
      begin_copy(place, copy, keys_from_[copy], (octet << kv_.block_shift) * kOctetBytes);
    }
    if (++key_step_ == key_steps(kv_)) begin_round(round_ + 1);
    commit_copies();
  }

  __device__ void begin_values(uint32_t place) {
    if (value_step_ < value_end_) {
      for (uint32_t copy = 0; copy < kCopies; ++copy) {
        const Part part = part_of(copy);
        const uint32_t octet = 2 * value_step_ + part.member;
        const uint32_t column = std::min(warp() * kWarpSize + part.lane, kv_.head_dim - 1);
        const uint32_t low = shuffle(static_cast<uint32_t>(values_from_), octet);
        const uint32_t high = shuffle(static_cast<uint32_t>(values_from_ >> 32), octet);
        begin_copy(place, copy, kv_.bytes,
                   (uint64_t{high} << 32 | low) + column * kOctetBytes + part.first_byte);
      }
      ++value_step_;
    }
    commit_copies();
  }

  __device__ void begin_copy(uint32_t place, uint32_t copy, Global<uint8_t> from, size_t first) {
    copy_async(memory_.ring, ring_at(place, (copy * kWarpSize + lane()) * kCopyBytes), from, first);
  }

  __device__ uint32_t octet_in_block(uint32_t octet) const {
    return kv_.position_in_block(split_.first_position + octet * kOctet) / kOctet;
  }

  // Lane i copies the scales of octet i of the values, and those of octet i % 4 of a tile for a chunk of
  // columns of the keys. They are a part of the first step.
  __device__ void copy_scales() {
    const uint32_t to = scales_at() + lane() * kOctet;
    const uint32_t num_chunks = kv_.head_dim / kKvScaleColumns;
    const uint32_t chunk = std::min(lane() / kTileOctets % kWarps, num_chunks - 1);
    const uint32_t tile = warp() + lane() / (kTileOctets * kWarps) * kWarps;
    const uint32_t position =
        split_.seen.nearest(split_.first_position + tile * kTilePositions + lane() % kTileOctets * kOctet);
    const uint32_t octet = (position - split_.first_position) / kOctet;
    copy_async(memory_.scales, to, kv_.bytes,
               keys_of(octet) + kv_.key_scale(chunk * kKvScaleColumns, octet_in_block(octet) * kOctet));
    const size_t values = keys_of(lane()) + kv_.run_bytes();
    copy_async(memory_.scales, to + kWarpScales, kv_.bytes,
               values + kv_.value_scales(octet_in_block(lane()),
                                         std::min(warp(), num_chunks - 1) * kKvScaleColumns));
  }

  const DeviceKv& kv_;
  const RowSplit& split_;
  Memory& memory_;
  const size_t keys_;  // of the layer and the KV head, in block 0
  const uint32_t block_bytes_;
  size_t values_from_;           // offset of the values of octet lane()
  uint32_t place_ = kSteps - 1;  // of the last step that was waited for
  // The next step to begin: of keys as long as round_ < kRounds.
  uint32_t round_;
  uint32_t key_step_;
  uint32_t value_step_;
  const uint32_t value_end_;
  Global<uint8_t> keys_from_[kCopies];
};

}  // namespace runnel

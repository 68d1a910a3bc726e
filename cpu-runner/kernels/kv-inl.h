// The KV cache in kernels: rounds a key or value to the type of the cache, writes it to its place in a tile,
// and reads rows of tiles as floats.
#pragma once

#include "cpu-runner/kernels/kv.h"
#include "cpu-runner/kernels/vector-inl.h"
#include "cpu-runner/kernels/wide-inl.h"

namespace runnel::RUNNEL_KERNELS {

// Index of value d of a position, counted in values. A tile of keys is (head_dim, positions), a tile of
// values (positions, width).
struct Places {
  uint32_t first;
  uint32_t step;

  uint32_t of(uint32_t d) const { return first + d * step; }
};

static void store_halves(const float* in, uint32_t n, Places places, uint16_t* out) {
  for (uint32_t i = 0; i < n; i += 8) {
    const uint32_t count = n - i < 8 ? n - i : 8;
    uint16_t halves[8];
    store_half(halves, count == 8 ? load(in + i) : load_part(in + i, count));
    for (uint32_t lane = 0; lane < count; ++lane) out[places.of(i + lane)] = halves[lane];
  }
}

// The largest of 32 magnitudes. Magnitudes are ordered like their bits, in which a NaN is larger than every
// number: a NaN in the row makes the scale NaN, and is not lost.
RUNNEL_INLINE float largest_magnitude(const float* in) {
  Int8Lanes largest = {};
  for (uint32_t i = 0; i < kKvBlockValues; i += 8) {
    const Int8Lanes bits = bits_of(load(in + i)) & 0x7fffffff;
    largest = bits > largest ? bits : largest;
  }
  int32_t bits = 0;
  for (int lane = 0; lane < 8; ++lane) bits = largest[lane] > bits ? largest[lane] : bits;
  return from_bits(Int8Lanes{bits})[0];
}

// Rounds and writes 32 values with their scale.
static void store_q8_0_block(const float* in, Places places, uint16_t* scale_out, int8_t* out) {
  const Float8 shift = broadcast(0x1.8p+23f);  // rounds to the nearest integer, see exp
  const Int8Lanes zero = {};
  uint16_t scales[8];
  store_half(scales, broadcast(largest_magnitude(in) / 127.0f));
  *scale_out = scales[0];
  const Float8 scale = load_half(scales);
  for (uint32_t i = 0; i < kKvBlockValues; i += 8) {
    Int8Lanes quants = bits_of(load(in + i) / scale + shift) - bits_of(shift);
    quants = quants > 127 ? zero + 127 : quants;  // a scale below the precision of a half may be too small
    quants = quants < -127 ? zero - 127 : quants;
    quants = scale == broadcast(0.0f) ? zero : quants;
    for (uint32_t lane = 0; lane < 8; ++lane) out[places.of(i + lane)] = static_cast<int8_t>(quants[lane]);
  }
}

static void store_row(const KvLayout& layout, const float* in, uint32_t position, Places places,
                      std::byte* tile) {
  std::byte* values = tile + layout.scales_bytes;
  switch (layout.type) {
    case KvType::kF16:
      return store_halves(in, layout.head_dim, places, reinterpret_cast<uint16_t*>(values));
    case KvType::kF32:
      for (uint32_t d = 0; d < layout.head_dim; ++d) reinterpret_cast<float*>(values)[places.of(d)] = in[d];
      return;
    case KvType::kQ8_0:
      for (uint32_t d = 0; d < layout.head_dim; d += kKvBlockValues) {
        auto* scale = reinterpret_cast<uint16_t*>(tile) + d / kKvBlockValues * layout.positions + position;
        store_q8_0_block(in + d, {places.of(d), places.step}, scale, reinterpret_cast<int8_t*>(values));
      }
  }
}

static void store_key(const KvLayout& layout, const float* key, uint32_t position, std::byte* tile) {
  store_row(layout, key, position, {position, layout.positions}, tile);
}

static void store_value(const KvLayout& layout, const float* value, uint32_t position, std::byte* tile) {
  store_row(layout, value, position, {position * layout.width, 1}, tile);
}

template <KvType kType>
static constexpr uint32_t kValueBytes = kType == KvType::kF32   ? 4
                                        : kType == KvType::kF16 ? 2
                                                                : 1;

// A tile of kTilePositions positions that is being read, with the scales of Q8_0 as floats: (head_dim / 32,
// positions).
struct KvTile {
  const std::byte* values;
  // Distance in bytes to the tile that is read next; 0: none. Its rows are prefetched while those of this
  // tile are read, since a tile is too short for the processor to detect the access pattern.
  ptrdiff_t next;
  float scales[kMaxHeadDim / kKvBlockValues * kTilePositions];
};

template <KvType kType>
RUNNEL_INLINE void open_tile(const KvLayout& layout, const std::byte* from, KvTile& tile) {
  tile.values = from + layout.scales_bytes;
  if constexpr (kType == KvType::kQ8_0) {
    const uint32_t num_scales = layout.head_dim / kKvBlockValues * kTilePositions;
    for (uint32_t i = 0; i < num_scales; i += kWideLanes)
      store_wide(tile.scales + i, load_wide_half(reinterpret_cast<const uint16_t*>(from) + i));
  }
}

template <KvType kType>
RUNNEL_INLINE Wide load_wide_kv(const std::byte* from) {
  if constexpr (kType == KvType::kF32) return load_wide(reinterpret_cast<const float*>(from));
  if constexpr (kType == KvType::kF16) return load_wide_half(reinterpret_cast<const uint16_t*>(from));
  if constexpr (kType == KvType::kQ8_0) return load_wide_bytes(reinterpret_cast<const int8_t*>(from));
}

// Prefetches the cache line of the next tile that begins in this vector of the row, if one begins there.
template <KvType kType>
RUNNEL_INLINE void prefetch_next(const std::byte* row, ptrdiff_t next, uint32_t vector) {
  const size_t place = vector * kWideLanes * kValueBytes<kType>;
  if (place % kLineBytes == 0) __builtin_prefetch(row + place + next);
}

// Rows of a tile of keys, one for each value of the head. Lanes are positions, from first_lane on.
template <KvType kType>
struct KeyRows {
  const std::byte* values;
  ptrdiff_t next;
  const float* scales;

  RUNNEL_INLINE_MEMBER KeyRows(const KvTile& tile, uint32_t first_lane)
      : values(tile.values + first_lane * kValueBytes<kType>),
        next(tile.next),
        scales(tile.scales + first_lane) {}

  RUNNEL_INLINE_MEMBER Wide load(uint32_t d, uint32_t vector) const {
    const std::byte* from = values + size_t{d} * kTilePositions * kValueBytes<kType>;
    prefetch_next<kType>(from, next, vector);
    const Wide row = load_wide_kv<kType>(from + vector * kWideLanes * kValueBytes<kType>);
    if constexpr (kType != KvType::kQ8_0) return row;
    const uint32_t block = d / kKvBlockValues;
    return row * load_wide(scales + block * kTilePositions + vector * kWideLanes);
  }
};

// Rows of a tile of values, one for each position. Lanes are values of the head, from first_lane on.
template <KvType kType>
struct ValueRows {
  const std::byte* values;
  ptrdiff_t next;
  size_t stride;
  const float* scales;

  // first_lane is a multiple of 32, or all that is read from it on is of one block of 32.
  RUNNEL_INLINE_MEMBER ValueRows(const KvTile& tile, uint32_t width, uint32_t first_lane)
      : values(tile.values + first_lane * kValueBytes<kType>),
        next(tile.next),
        stride(width * kValueBytes<kType>),
        scales(tile.scales + first_lane / kKvBlockValues * kTilePositions) {}

  RUNNEL_INLINE_MEMBER Wide load(uint32_t position, uint32_t vector) const {
    const std::byte* from = values + position * stride;
    prefetch_next<kType>(from, next, vector);
    const Wide row = load_wide_kv<kType>(from + vector * kWideLanes * kValueBytes<kType>);
    if constexpr (kType != KvType::kQ8_0) return row;
    const uint32_t block = vector * kWideLanes / kKvBlockValues;
    return row * broadcast_wide(scales[block * kTilePositions + position]);
  }
};

}  // namespace runnel::RUNNEL_KERNELS

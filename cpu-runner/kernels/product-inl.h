// Products of tiled weights with rows of activations. One column: weights are unpacked in registers, two
// tiles at a time, so that four sums are under way at once. More columns: a panel of a tile is unpacked once
// into the first cache level and then meets the columns six at a time, twelve sums in registers. Both add up
// the same numbers in the same order: sixteen lanes are sixteen rows, and k goes up.
#pragma once

#include "cpu-runner/kernels/kernels.h"
#include "cpu-runner/kernels/vector-inl.h"

namespace runnel::RUNNEL_KERNELS {

// How a block of 32 k of one tile lies in memory, and how a vector of 8 of its rows becomes floats. A word is
// what one load brings: kGroup consecutive k of 8 rows. half: 0 for rows 0 to 7 of the tile, 1 for 8 to 15.
// Scales, and minima, of the 16 rows lie at the front of a block, as half precision.
constexpr size_t kScalesBytes = kTileRows * sizeof(uint16_t);

RUNNEL_INLINE Int8Lanes load_word(const std::byte* quants, uint32_t group, uint32_t half) {
  return *reinterpret_cast<const AliasingInt8Lanes*>(quants + (group * 2 + half) * sizeof(Int8Lanes));
}

struct Q4_0 {
  using Word = Int8Lanes;
  static constexpr uint32_t kGroup = 8;
  static constexpr bool kHasScale = true;
  static constexpr bool kHasMinimum = false;
  static constexpr size_t block_bytes(uint32_t) { return kScalesBytes + kBlockColumns * kTileRows / 2; }
  RUNNEL_INLINE Word load(const std::byte* block, uint32_t group, uint32_t half) {
    return load_word(block + kScalesBytes, group, half);
  }
  // Nibbles are q - 8 in two's complement: the shift back extends the sign.
  RUNNEL_INLINE Float8 value(Word word, int k) { return to_float((word << (28 - 4 * k)) >> 28); }
};

struct Q4_1 {
  using Word = Int8Lanes;
  static constexpr uint32_t kGroup = 8;
  static constexpr bool kHasScale = true;
  static constexpr bool kHasMinimum = true;
  static constexpr size_t block_bytes(uint32_t) { return 2 * kScalesBytes + kBlockColumns * kTileRows / 2; }
  RUNNEL_INLINE Word load(const std::byte* block, uint32_t group, uint32_t half) {
    return load_word(block + 2 * kScalesBytes, group, half);
  }
  RUNNEL_INLINE Float8 value(Word word, int k) { return to_float((word >> (4 * k)) & 15); }
};

struct Q8_0 {
  using Word = Int8Lanes;
  static constexpr uint32_t kGroup = 4;
  static constexpr bool kHasScale = true;
  static constexpr bool kHasMinimum = false;
  static constexpr size_t block_bytes(uint32_t) { return kScalesBytes + kBlockColumns * kTileRows; }
  RUNNEL_INLINE Word load(const std::byte* block, uint32_t group, uint32_t half) {
    return load_word(block + kScalesBytes, group, half);
  }
  RUNNEL_INLINE Float8 value(Word word, int k) { return to_float((word << (24 - 8 * k)) >> 24); }
};

struct F16 {
  using Word = Float8;
  static constexpr uint32_t kGroup = 1;
  static constexpr bool kHasScale = false;
  static constexpr bool kHasMinimum = false;
  static constexpr size_t block_bytes(uint32_t num_k) { return num_k * kTileRows * sizeof(uint16_t); }
  RUNNEL_INLINE Word load(const std::byte* block, uint32_t group, uint32_t half) {
    return load_half(reinterpret_cast<const uint16_t*>(block) + group * kTileRows + half * 8);
  }
  RUNNEL_INLINE Float8 value(Word word, int) { return word; }
};

struct F32 {
  using Word = Float8;
  static constexpr uint32_t kGroup = 1;
  static constexpr bool kHasScale = false;
  static constexpr bool kHasMinimum = false;
  static constexpr size_t block_bytes(uint32_t num_k) { return num_k * kTileRows * sizeof(float); }
  RUNNEL_INLINE Word load(const std::byte* block, uint32_t group, uint32_t half) {
    return RUNNEL_KERNELS::load(reinterpret_cast<const float*>(block) + group * kTileRows + half * 8);
  }
  RUNNEL_INLINE Float8 value(Word word, int) { return word; }
};

RUNNEL_INLINE uint32_t min_u32(uint32_t a, uint32_t b) {
  return a < b ? a : b;
}

RUNNEL_INLINE Float8 load_scale(const std::byte* block, uint32_t index, uint32_t half) {
  return load_half(reinterpret_cast<const uint16_t*>(block + index * kScalesBytes) + half * 8);
}

// One column, kTiles tiles that lie tile_bytes apart; out gets their rows one after the other.
template <typename Format, int kTiles>
static void multiply_column(const std::byte* tiles, size_t tile_bytes, uint32_t num_columns, const float* x,
                            const float* x_sums, float* out) {
  constexpr int kVectors = 2 * kTiles;
  Float8 acc[kVectors] = {};
  size_t offset = 0;
  for (uint32_t first = 0; first < num_columns; first += kBlockColumns) {
    const uint32_t num_k = min_u32(kBlockColumns, num_columns - first);
    Float8 s[kVectors] = {};
    for (uint32_t group = 0; group < num_k / Format::kGroup; ++group) {
      typename Format::Word words[kVectors];
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) {
        words[v] = Format::load(tiles + (v / 2) * tile_bytes + offset, group, v % 2);
      }
#pragma GCC unroll 8
      for (uint32_t k = 0; k < Format::kGroup; ++k) {
        const Float8 xk = broadcast(x[first + group * Format::kGroup + k]);
#pragma GCC unroll 8
        for (int v = 0; v < kVectors; ++v) s[v] = fma(Format::value(words[v], k), xk, s[v]);
      }
    }
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      const std::byte* block = tiles + (v / 2) * tile_bytes + offset;
      acc[v] = Format::kHasScale ? fma(load_scale(block, 0, v % 2), s[v], acc[v]) : acc[v] + s[v];
      if (Format::kHasMinimum) {
        acc[v] = fma(load_scale(block, 1, v % 2), broadcast(x_sums[first / kBlockColumns]), acc[v]);
      }
    }
    offset += Format::block_bytes(num_k);
  }
  for (int v = 0; v < kVectors; ++v) store(out + v * 8, acc[v]);
}

// Blocks of one tile as floats: 256 k, 16 KiB, leave room for the activations in a first-level cache of 32
// KiB.
constexpr uint32_t kPanelBlocks = 8;

struct Panel {
  alignas(64) float weights[kPanelBlocks * kBlockColumns * kTileRows];  // (k, row)
  alignas(64) float scales[kPanelBlocks * kTileRows];                   // (block, row)
  alignas(64) float minima[kPanelBlocks * kTileRows];
};

// Unpacks num_k columns that begin at blocks; returns the bytes they took.
template <typename Format>
static size_t unpack_panel(const std::byte* blocks, uint32_t num_k, Panel& panel) {
  const std::byte* block = blocks;
  for (uint32_t first = 0; first < num_k; first += kBlockColumns) {
    const uint32_t block_k = min_u32(kBlockColumns, num_k - first);
    for (uint32_t group = 0; group < block_k / Format::kGroup; ++group) {
      for (uint32_t half = 0; half < 2; ++half) {
        const typename Format::Word word = Format::load(block, group, half);
#pragma GCC unroll 8
        for (uint32_t k = 0; k < Format::kGroup; ++k) {
          const uint32_t row = first + group * Format::kGroup + k;
          store(panel.weights + row * kTileRows + half * 8, Format::value(word, k));
        }
      }
    }
    const uint32_t scale = first / kBlockColumns * kTileRows;
    for (uint32_t half = 0; half < 2; ++half) {
      if (Format::kHasScale) store(panel.scales + scale + half * 8, load_scale(block, 0, half));
      if (Format::kHasMinimum) store(panel.minima + scale + half * 8, load_scale(block, 1, half));
    }
    block += Format::block_bytes(block_k);
  }
  return static_cast<size_t>(block - blocks);
}

// Adds the panel's share to 16 rows of kColumns columns; out holds what earlier panels gave, or nothing if
// this is the first.
template <typename Format, int kColumns>
static void multiply_panel(const Panel& panel, uint32_t num_k, bool is_first, const float* x, size_t x_stride,
                           const float* x_sums, size_t sums_stride, float* out, size_t out_stride) {
  Float8 acc[kColumns][2] = {};
  if (!is_first) {
    for (int c = 0; c < kColumns; ++c) {
      acc[c][0] = load(out + c * out_stride);
      acc[c][1] = load(out + c * out_stride + 8);
    }
  }
  for (uint32_t first = 0; first < num_k; first += kBlockColumns) {
    const uint32_t end = min_u32(first + kBlockColumns, num_k);
    Float8 s[kColumns][2] = {};
    for (uint32_t k = first; k < end; ++k) {
      const Float8 low = load(panel.weights + k * kTileRows);
      const Float8 high = load(panel.weights + k * kTileRows + 8);
#pragma GCC unroll 8
      for (int c = 0; c < kColumns; ++c) {
        const Float8 xk = broadcast(x[c * x_stride + k]);
        s[c][0] = fma(low, xk, s[c][0]);
        s[c][1] = fma(high, xk, s[c][1]);
      }
    }
    const uint32_t block = first / kBlockColumns;
#pragma GCC unroll 8
    for (int c = 0; c < kColumns; ++c) {
#pragma GCC unroll 2
      for (int half = 0; half < 2; ++half) {
        const uint32_t row = block * kTileRows + half * 8;
        Float8& sum = acc[c][half];
        sum = Format::kHasScale ? fma(load(panel.scales + row), s[c][half], sum) : sum + s[c][half];
        if (Format::kHasMinimum) {
          sum = fma(load(panel.minima + row), broadcast(x_sums[c * sums_stride + block]), sum);
        }
      }
    }
  }
  for (int c = 0; c < kColumns; ++c) {
    store(out + c * out_stride, acc[c][0]);
    store(out + c * out_stride + 8, acc[c][1]);
  }
}

// 12 sums, two weights and one activation fill the 16 registers of AVX2.
constexpr uint32_t kColumnGroup = 6;

template <typename Format>
static void multiply_tile(const std::byte* tile, uint32_t num_k, const Columns& columns, float* out,
                          size_t out_stride) {
  constexpr uint32_t kPanelColumns = kPanelBlocks * kBlockColumns;
  Panel panel;
  for (uint32_t first = 0; first < num_k; first += kPanelColumns) {
    const uint32_t panel_k = min_u32(kPanelColumns, num_k - first);
    tile += unpack_panel<Format>(tile, panel_k, panel);
    for (uint32_t column = 0; column < columns.num_columns; column += kColumnGroup) {
      const auto run = [&](auto kernel) __attribute__((always_inline)) {
        kernel(panel, panel_k, first == 0, columns.values + column * columns.stride + first, columns.stride,
               columns.sums + column * columns.sums_stride + first / kBlockColumns, columns.sums_stride,
               out + column * out_stride, out_stride);
      };
      switch (min_u32(kColumnGroup, columns.num_columns - column)) {
        case 1:
          run(multiply_panel<Format, 1>);
          break;
        case 2:
          run(multiply_panel<Format, 2>);
          break;
        case 3:
          run(multiply_panel<Format, 3>);
          break;
        case 4:
          run(multiply_panel<Format, 4>);
          break;
        case 5:
          run(multiply_panel<Format, 5>);
          break;
        default:
          run(multiply_panel<Format, kColumnGroup>);
      }
    }
  }
}

template <typename Format>
static void multiply_format(const TiledWeights& weights, size_t first_tile, size_t num_tiles,
                            const Columns& columns, float* out, size_t out_stride) {
  const std::byte* tile = weights.tiles + first_tile * weights.tile_bytes;
  const size_t bytes = weights.tile_bytes;
  if (columns.num_columns > 1) {
    for (size_t i = 0; i < num_tiles; ++i) {
      multiply_tile<Format>(tile + i * bytes, weights.columns, columns, out + i * kTileRows, out_stride);
    }
    return;
  }
  size_t i = 0;
  for (; i + 2 <= num_tiles; i += 2) {
    multiply_column<Format, 2>(tile + i * bytes, bytes, weights.columns, columns.values, columns.sums,
                               out + i * kTileRows);
  }
  if (i < num_tiles) {
    multiply_column<Format, 1>(tile + i * bytes, bytes, weights.columns, columns.values, columns.sums,
                               out + i * kTileRows);
  }
}

static void multiply(const TiledWeights& weights, size_t first_tile, size_t num_tiles, const Columns& columns,
                     float* out, size_t out_stride) {
  switch (weights.type) {
    case TensorType::kF32:
      return multiply_format<F32>(weights, first_tile, num_tiles, columns, out, out_stride);
    case TensorType::kF16:
      return multiply_format<F16>(weights, first_tile, num_tiles, columns, out, out_stride);
    case TensorType::kQ4_0:
      return multiply_format<Q4_0>(weights, first_tile, num_tiles, columns, out, out_stride);
    case TensorType::kQ4_1:
      return multiply_format<Q4_1>(weights, first_tile, num_tiles, columns, out, out_stride);
    case TensorType::kQ8_0:
      return multiply_format<Q8_0>(weights, first_tile, num_tiles, columns, out, out_stride);
  }
}

}  // namespace runnel::RUNNEL_KERNELS

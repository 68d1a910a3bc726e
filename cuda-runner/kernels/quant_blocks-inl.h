// A block of 32 quantised weights on the device: where it lies, how its words become codes, and how its sums
// are scaled. kernels/product.h has the layout.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "cuda-runner/kernels/device_codes.h"
#include "cuda-runner/kernels/product.h"
#include "runner/formats/quant_format.h"

namespace runnel {

// Replaces each byte i of x, which is below 16, by entry i of the format's table of 16 signed bytes.
template <QuantFormat kFormat>
__device__ inline uint32_t look_up(uint32_t x) {
  constexpr auto kWord = [](uint32_t first) {
    uint32_t word = 0;
    for (uint32_t i = 0; i < 4; ++i)
      word |= uint32_t{static_cast<uint8_t>(kFormat.value(first + i))} << (8 * i);
    return word;
  };
  constexpr uint32_t kTable[4] = {kWord(0), kWord(4), kWord(8), kWord(12)};
  const uint32_t pairs = x | x >> 4;  // byte 0 has the indices 0 and 1 as nibbles, byte 2 the indices 2 and 3
  const uint32_t selectors = select_bytes(pairs, 0, 0x4420) & 0x7777;
  const uint32_t first = select_bytes(kTable[0], kTable[1], selectors);
  const uint32_t second = select_bytes(kTable[2], kTable[3], selectors);
  const uint32_t is_second = (x >> 3 & 0x01010101) * 0xff;
  return (first & ~is_second) | (second & is_second);
}

inline constexpr uint32_t kSegmentBlocks = kSegmentColumns / kBlockColumns;

// What kernels multiply rows of the batch by: codes, entries of the table, or q times a power of two.
template <QuantFormat kFormat>
struct Multiplier {
  // Codes with an offset are stored as q, a number of code_bits bits (device_codes.h). They are taken out
  // into the upper bits of a byte, which is then q times 2^kShift and needs no extension of the sign.
  static constexpr uint32_t kShift = flipped_bits(kFormat) == 0 ? 0 : 8 - kFormat.code_bits;

  // With a power of two, sums begin at the bits of this float. Below 2^22 they change its lowest bits alone,
  // so the conversion to a float that also takes the power away is one subtraction. The sum of 32 products is
  // below that.
  static constexpr float kOffset = 12582912.0f / static_cast<float>(1u << kShift);  // 1.5 * 2^23
  __device__ static int32_t first_sum() { return kShift == 0 ? 0 : std::bit_cast<int32_t>(kOffset); }
  __device__ static float value_of(int32_t sum) {
    return kShift == 0 ? static_cast<float>(sum) : std::bit_cast<float>(sum) - kOffset;
  }
};

// What a tile of 32 rows has for a block of 32 columns: words of codes, and 16-bit numbers of scales.
template <TensorType kType>
struct QuantTileLayout {
  static constexpr QuantFormat kFormat = quant_format(kType);
  static constexpr uint32_t kNumScales = kFormat.has_minimum ? 2 : 1;  // d, and m
  static constexpr bool kHasSubScales = kFormat.num_sub_scales > 0;
  static constexpr uint32_t kWords = kFormat.num_words() * kWarpTileRows;
  // d and m of the block, or of the 8 blocks of its segment.
  static constexpr uint32_t kScales = kNumScales * kWarpTileRows;
  static constexpr uint32_t kSubScales = kHasSubScales ? kWarpTileRows : 0;
  static constexpr uint32_t kSegmentScales = kScales + kSegmentBlocks * kSubScales;

  // Low bits of a row are in runs of as many words, or of all that there are.
  static constexpr uint32_t kRun = kFormat.num_low_words() < 4 ? kFormat.num_low_words() : 4;
  static constexpr uint32_t kHighBits = kFormat.high_bits();

  // Where word w of a row's low or high bits is among the words of a block.
  __device__ static constexpr uint32_t low_word(uint32_t w, uint32_t row) {
    return (w / kRun * kWarpTileRows + row) * kRun + w % kRun;
  }
  __device__ static constexpr uint32_t high_word(uint32_t w, uint32_t row) {
    return kFormat.num_low_words() * kWarpTileRows + row * kHighBits + w;
  }

  __device__ static size_t first_word(uint32_t num_blocks, uint32_t tile, uint32_t block) {
    return (static_cast<size_t>(tile) * num_blocks + block) * kWords;
  }
  __device__ static size_t first_scale(uint32_t num_blocks, uint32_t tile, uint32_t block) {
    const size_t index = static_cast<size_t>(tile) * num_blocks + block;
    return kHasSubScales ? index / kSegmentBlocks * kSegmentScales : index * kScales;
  }
  __device__ static size_t first_sub_scale(uint32_t num_blocks, uint32_t tile, uint32_t block) {
    return first_scale(num_blocks, tile, block) + kScales + block % kSegmentBlocks * kSubScales;
  }
};

// A block of a tile in global memory.
template <TensorType kType>
class StoredBlock {
 public:
  using Layout = QuantTileLayout<kType>;

  __device__ StoredBlock(const DeviceMatrix& matrix, uint32_t tile, uint32_t block) : matrix_(matrix) {
    const uint32_t num_blocks = matrix.columns / kBlockColumns;
    first_word_ = Layout::first_word(num_blocks, tile, block);
    first_scale_ = Layout::first_scale(num_blocks, tile, block);
    first_sub_scale_ = Layout::first_sub_scale(num_blocks, tile, block);
  }
  template <typename V>
  __device__ V words(uint32_t word) const {
    return matrix_.quants.template load_read_only<V>(first_word_ + word);
  }
  __device__ uint16_t scale(uint32_t index) const {
    return matrix_.scales.template load_read_only<uint16_t>(first_scale_ + index);
  }
  __device__ uint16_t sub_scales(uint32_t row) const {
    return matrix_.scales.template load_read_only<uint16_t>(first_sub_scale_ + row);
  }

 private:
  const DeviceMatrix& matrix_;
  size_t first_word_;
  size_t first_scale_;
  size_t first_sub_scale_;
};

// The multipliers of one four. low, high: the words that have its low and high bits.
template <QuantFormat kFormat>
__device__ inline uint32_t multipliers_of(uint32_t low, [[maybe_unused]] uint32_t high, uint32_t four) {
  if constexpr (kFormat.low_bits() == 8) return low;
  uint32_t codes = (low >> (kFormat.low_bits() * part_of<kFormat>(four))) & kFormat.low_mask();
  if constexpr (kFormat.high_bits() > 0)
    codes |= ((high >> (four * kFormat.high_bits() % 8)) & kFormat.high_mask()) << kFormat.low_bits();
  if constexpr (kFormat.has_values()) return look_up<kFormat>(codes);
  return codes << Multiplier<kFormat>::kShift;
}

// A number of a row's scales as a float.
template <QuantFormat kFormat>
__device__ inline float stored_float(uint16_t bits) {
  if constexpr (kFormat.has_bf16_scale) return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  return from_half(bits);
}

// A block of 32 columns of one row. Block: where the block of its tile lies, as StoredBlock.
template <TensorType kType, typename Block>
class QuantBlockView {
 public:
  static constexpr QuantFormat kFormat = quant_format(kType);
  static constexpr bool kHasTwoSums = kFormat.num_sums() == 2;

  __device__ QuantBlockView(const Block& block, uint32_t row_in_tile) : block_(block), row_(row_in_tile) {}

  // The multipliers of all eight fours, four bytes each.
  __device__ void load_codes(uint32_t (&codes)[8]) const {
    uint32_t low[kLowWords];
    for (uint32_t w = 0; w < kLowWords; w += kRun) load_run<kRun>(low_word(w), low + w);
    uint32_t high[kHighBits + 1] = {};
    if constexpr (kHighBits > 0) load_run<kHighBits>(high_word(0), high);
    for (uint32_t four = 0; four < 8; ++four)
      codes[four] = multipliers_of<kFormat>(low[word_of<kFormat>(four)], high[four * kHighBits / 8], four);
  }
  // The multipliers of two fours: `four`, which must be below 4, and 4 + four.
  __device__ void load_two(uint32_t four, uint32_t& first, uint32_t& second) const {
    first = multipliers_of<kFormat>(load(low_word(word_of<kFormat>(four))), load_high(four), four);
    second =
        multipliers_of<kFormat>(load(low_word(word_of<kFormat>(4 + four))), load_high(4 + four), 4 + four);
  }

  // d and m, for types with sub-scales those of the segment.
  __device__ float stored_scale() const {
    return stored_float<kFormat>(block_.scale(scale_place(row_) * Layout::kNumScales));
  }
  __device__ float stored_minimum() const {
    if constexpr (!kFormat.has_minimum) return 0.0f;
    return from_half(block_.scale(scale_place(row_) * Layout::kNumScales + 1));
  }
  // The bytes of sub-scales. 0 if the type has none.
  __device__ uint32_t sub_scales() const {
    if constexpr (Layout::kHasSubScales) return block_.sub_scales(scale_place(row_));
    return 0;
  }

 private:
  using Layout = QuantTileLayout<kType>;
  static constexpr uint32_t kLowWords = kFormat.num_low_words();
  static constexpr uint32_t kHighBits = Layout::kHighBits;
  static constexpr uint32_t kRun = Layout::kRun;

  __device__ uint32_t low_word(uint32_t w) const { return Layout::low_word(w, row_); }
  __device__ uint32_t high_word(uint32_t w) const { return Layout::high_word(w, row_); }
  __device__ uint32_t load_high(uint32_t four) const {
    if constexpr (kHighBits > 0) return load(high_word(four * kHighBits / 8));
    return 0;
  }
  __device__ uint32_t load(uint32_t word) const { return block_.template words<uint32_t>(word); }
  template <uint32_t kCount>
  __device__ void load_run(uint32_t word, uint32_t* to) const {
    if constexpr (kCount == 4) {
      const auto words = block_.template words<uint4>(word);
      to[0] = words.x;
      to[1] = words.y;
      to[2] = words.z;
      to[3] = words.w;
    } else if constexpr (kCount == 2) {
      const auto words = block_.template words<uint2>(word);
      to[0] = words.x;
      to[1] = words.y;
    } else {
      to[0] = load(word);
    }
  }
  const Block& block_;
  uint32_t row_;
};

// The sum of one half, taken from an element of ReadyRows::half_sums.
__device__ inline int32_t half_sum(int32_t half_sums, uint32_t half) {
  return static_cast<int16_t>(static_cast<uint16_t>(static_cast<uint32_t>(half_sums) >> (16 * half)));
}

// The scales of a block of weights, and the formula that applies them to its sums.
template <TensorType kType>
struct BlockScales {
  static constexpr QuantFormat kFormat = quant_format(kType);
  static constexpr bool kHasTwoSums = kFormat.num_sums() == 2;

  BlockScales() = default;
  // d and m as they are stored, and the bytes of sub-scales.
  __device__ BlockScales(float stored_scale, float stored_minimum, uint32_t sub_scale_bytes)
      : scale(stored_scale), minimum(stored_minimum), sub_bytes(sub_scale_bytes) {
    if constexpr (kFormat.num_sub_scales == 1) {
      scale = scale * static_cast<float>(sub_byte(0));
      if constexpr (kFormat.has_minimum) minimum = minimum * static_cast<float>(sub_byte(1));
    }
  }
  template <typename Block>
  __device__ explicit BlockScales(const QuantBlockView<kType, Block>& block)
      : BlockScales(block.stored_scale(), block.stored_minimum(), block.sub_scales()) {}

  // The sub-scale and sub-minimum of a half of the block, for types that have two.
  __device__ int32_t sub_scale(uint32_t half) const {
    return kFormat.has_minimum ? sub_byte(half) & 15 : sub_byte(half);
  }
  __device__ int32_t sub_minimum(uint32_t half) const { return (sub_byte(half) >> 4) & 15; }

  // Return acc + d_w d q_w q (+ m_w X), as in docs/numerics.md. The first is for types with one sum: sum is
  // that of q_w q, scaled_sum is X. The second is for types with two sums: sums are those of multipliers and
  // the row's bytes; x_sums, which types with minima read, those of the row's bytes; each for both halves of
  // the block.
  __device__ float add(float acc, float sum, float x_scale, float scaled_sum) const {
    acc = std::fma(scale * x_scale, sum, acc);
    if constexpr (kFormat.has_minimum) acc = std::fma(minimum, scaled_sum, acc);
    return acc;
  }
  __device__ float add_two(float acc, const int32_t (&sums)[2], float x_scale,
                           const int32_t (&x_sums)[2]) const {
    const int32_t sum = (sub_scale(0) * sums[0] + sub_scale(1) * sums[1]) >> Multiplier<kFormat>::kShift;
    float scaled_sum = 0.0f;
    if constexpr (kFormat.has_minimum)
      scaled_sum = x_scale * static_cast<float>(sub_minimum(0) * x_sums[0] + sub_minimum(1) * x_sums[1]);
    return add(acc, static_cast<float>(sum), x_scale, scaled_sum);
  }

  __device__ int32_t sub_byte(uint32_t i) const {
    return static_cast<int8_t>(static_cast<uint8_t>(sub_bytes >> (8 * i)));
  }

  float scale = 0.0f;
  float minimum = 0.0f;
  uint32_t sub_bytes = 0;
};

}  // namespace runnel

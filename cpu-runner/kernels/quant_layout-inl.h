// A segment of quantised weights in a tile: where its blocks lie, and how their words become codes. v counts
// vectors of rows.
#pragma once

#include "cpu-runner/kernels/lanes-inl.h"
#include "cpu-runner/kernels/segment-inl.h"

namespace runnel::RUNNEL_KERNELS {

// The values of the codes of a format plus `more`, as bytes.
template <QuantFormat kFormat>
static consteval ByteTable value_table(int32_t more) {
  ByteTable table{};
  for (uint32_t i = 0; i < 16; ++i) table.bytes[i] = static_cast<uint8_t>(kFormat.value(i) + more);
  return table;
}

template <TensorType kType>
struct QuantLayout {
  static constexpr bool kIsFloat = false;
  static constexpr QuantFormat kFormat = quant_format(kType);
  static constexpr SegmentLayout kLayout = segment_layout(kFormat);
  static constexpr uint32_t kBlockBytes = kLayout.block;
  static constexpr uint32_t kLowWords = kFormat.num_low_words();
  static constexpr uint32_t kSumWords = kFormat.sum_words();
  static constexpr uint32_t kHighBits = kFormat.high_bits();
  static constexpr uint32_t kParts = kFormat.num_parts();
  static constexpr uint32_t kNumSubScales = kFormat.num_sub_scales;

  RUNNEL_INLINE WeightSegment segment(const std::byte* tile, uint32_t first_column, uint32_t num_columns) {
    const std::byte* from = tile + size_t{first_column / kSegmentColumns} * kLayout.segment();
    const std::byte* blocks = from + kLayout.head;
    return {from,       from + kLayout.minima, blocks, blocks + kLayout.sub_minima, blocks + kLayout.words,
            num_columns};
  }
  RUNNEL_INLINE WeightSegment from_row(const WeightSegment& segment, uint32_t row) {
    return {segment.scales + row * sizeof(uint16_t),  segment.minima + row * sizeof(uint16_t),
            segment.sub_scales + row * kNumSubScales, segment.sub_minima + row,
            segment.weights + row * sizeof(uint32_t), segment.num_columns};
  }

  // The factor of the sums of a block: d, times the sub-scale if the block has a single one.
  RUNNEL_INLINE Floats scales(const WeightSegment& segment, uint32_t block, uint32_t v) {
    const std::byte* from = segment.scales + plane_offset(block, v);
    const Floats d = kFormat.has_bf16_scale ? load_upper_halves(from) : load_halves(from);
    if (kNumSubScales != 1) return d;
    return d * floats_of(load_byte_lanes(segment.sub_scales + block * kBlockBytes + v * kVectorRows));
  }
  RUNNEL_INLINE Floats minima(const WeightSegment& segment, uint32_t block, uint32_t v) {
    const Floats m = load_halves(segment.minima + plane_offset(block, v));
    if (kNumSubScales != 1) return m;
    return m * floats_of(load_byte_lanes(segment.sub_minima + block * kBlockBytes + v * kVectorRows));
  }
  // For blocks with two sub-scales: the lower half of a lane has that of the first 16 weights, the upper half
  // that of the others.
  RUNNEL_INLINE Ints sub_scale_pairs(const WeightSegment& segment, uint32_t block, uint32_t v) {
    const Ints bytes = load_byte_pairs(segment.sub_scales + block * kBlockBytes + v * kVectorRows * 2);
    return kFormat.has_minimum ? bytes & 0x000f000f : bytes;
  }
  RUNNEL_INLINE Ints sub_minimum_pairs(const WeightSegment& segment, uint32_t block, uint32_t v) {
    const Ints bytes = load_byte_pairs(segment.sub_scales + block * kBlockBytes + v * kVectorRows * 2);
    return (bytes >> 4) & 0x000f000f;
  }
  RUNNEL_INLINE Ints sub_scales_of(const WeightSegment& segment, uint32_t block, uint32_t v, uint32_t half) {
    return (sub_scale_pairs(segment, block, v) << static_cast<int32_t>(16 - 16 * half)) >> 16;
  }
  RUNNEL_INLINE Ints sub_minima_of(const WeightSegment& segment, uint32_t block, uint32_t v, uint32_t half) {
    return (sub_minimum_pairs(segment, block, v) << static_cast<int32_t>(16 - 16 * half)) >> 16;
  }

  // The codes of part p of a word of low bits, four bytes a lane. high is the word of high bits, shifted so
  // that its lowest bits belong to part 0 of the word that is w words before this one.
  RUNNEL_INLINE Ints codes(Ints low, Ints high, uint32_t p, uint32_t w = 0) {
    if (kFormat.low_bits() == 8) return low;
    const Ints codes = (low >> static_cast<int32_t>(p * kFormat.low_bits())) & lanes_of(kFormat.low_mask());
    if (kHighBits == 0) return codes;
    constexpr uint32_t kTo = kFormat.low_bits();
    const uint32_t at = kHighBits * (kSumWords * p + w);
    const Ints bits =
        at < kTo ? high << static_cast<int32_t>(kTo - at) : high >> static_cast<int32_t>(at - kTo);
    return codes | (bits & lanes_of(kFormat.high_mask() << kTo));
  }
  // The word of high bits of a half of the block, shifted so that its lowest bits belong to the first four of
  // the half.
  RUNNEL_INLINE Ints high_word(const std::byte* words, uint32_t half) {
    if (kHighBits == 0) return Ints{};
    const uint32_t bit = half * kFormat.sum_fours() * kHighBits;
    return load_ints(words + (kLowWords + bit / 8) * kWordRowBytes) >> static_cast<int32_t>(bit % 8);
  }
  // The codes of one four of the block.
  RUNNEL_INLINE Ints codes_of(const std::byte* words, uint32_t four) {
    const Ints low = load_ints(words + word_of<kFormat>(four) * kWordRowBytes);
    if (kFormat.low_bits() == 8) return low;
    const auto shift = static_cast<int32_t>(part_of<kFormat>(four) * kFormat.low_bits());
    const Ints codes = (low >> shift) & lanes_of(kFormat.low_mask());
    if (kHighBits == 0) return codes;
    const uint32_t bit = four * kHighBits;
    const Ints high =
        load_ints(words + (kLowWords + bit / 8) * kWordRowBytes) >> static_cast<int32_t>(bit % 8);
    return codes | ((high & lanes_of(kFormat.high_mask())) << static_cast<int32_t>(kFormat.low_bits()));
  }

 private:
  RUNNEL_INLINE uint32_t plane_offset(uint32_t block, uint32_t v) {
    return (kNumSubScales > 0 ? 0 : block * kBlockBytes) + v * kVectorRows * uint32_t{sizeof(uint16_t)};
  }
};

}  // namespace runnel::RUNNEL_KERNELS

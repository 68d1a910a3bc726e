// A block of 32 quantised weights of one row, unpacked from the file's format. Code that changes the layout
// of weights goes through this form in both directions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "runner/check.h"
#include "runner/formats/quant_format.h"
#include "runner/formats/tensor_type.h"
#include "runner/formats/weight_type.h"

namespace runnel {

inline constexpr uint32_t kQuantBlockWeights = 32;

struct QuantBlock {
  std::array<uint32_t, 8> codes;  // each of four weights, one a byte, the first in the lowest
  uint16_t scale;                 // d, a half or the upper half of a float
  uint16_t minimum = 0;           // m, a half; has the sign with which it is added
  // For the first 16 weights and for the others; 1 if the type has none.
  std::array<int8_t, 2> sub_scales = {1, 1};
  std::array<int8_t, 2> sub_minima = {1, 1};
};

// Reads block `block` of a row of a tensor in the file. Here and below, type must be a quantised one.
QuantBlock read_block(TensorType type, const std::byte* row, size_t block);

bool has_minimum(TensorType type);
// d and m, without the sub-scale and sub-minimum.
float scale_of(TensorType type, const QuantBlock& block);
float minimum_of(const QuantBlock& block);
// The integer q of each weight.
std::array<int8_t, kQuantBlockWeights> quants_of(TensorType type, const QuantBlock& block);
// The weights as floats: (d * sub-scale) q, + m * sub-minimum if the type has a minimum.
void dequantize_block(TensorType type, const QuantBlock& block, std::span<float, kQuantBlockWeights> out);

// Calls fn with the type as a constant, as with_weight_type does.
template <typename Fn>
auto with_quantised_type(TensorType type, const Fn& fn) {
  return with_weight_type(type, [&](auto constant) {
    if constexpr (is_quantised(constant)) {
      return fn(constant);
    } else {
      RUNNEL_CHECK(!"floats have no blocks");
      return fn(std::integral_constant<TensorType, TensorType::kQ8_0>());
    }
  });
}

// The codes of a block as the words that products read; see QuantFormat.
template <TensorType kType>
using QuantWords = std::array<uint32_t, quant_format(kType).num_words()>;

template <TensorType kType>
QuantWords<kType> pack_codes(const QuantBlock& block) {
  constexpr QuantFormat kFormat = quant_format(kType);
  constexpr uint32_t kHighBits = kFormat.high_bits();
  QuantWords<kType> words{};
  for (uint32_t four = 0; four < block.codes.size(); ++four) {
    const uint32_t codes = block.codes[four];
    const uint32_t low = codes & kFormat.low_mask();
    words[word_of<kFormat>(four)] |= low << (kFormat.low_bits() * part_of<kFormat>(four));
    if constexpr (kHighBits > 0) {
      const uint32_t high = (codes >> kFormat.low_bits()) & kFormat.high_mask();
      words[kFormat.num_low_words() + four * kHighBits / 8] |= high << (four * kHighBits % 8);
    }
  }
  return words;
}

template <TensorType kType>
void unpack_codes(const QuantWords<kType>& words, QuantBlock& block) {
  constexpr QuantFormat kFormat = quant_format(kType);
  constexpr uint32_t kHighBits = kFormat.high_bits();
  for (uint32_t four = 0; four < block.codes.size(); ++four) {
    const uint32_t low = words[word_of<kFormat>(four)] >> (kFormat.low_bits() * part_of<kFormat>(four));
    block.codes[four] = low & kFormat.low_mask();
    if constexpr (kHighBits > 0) {
      const uint32_t high = words[kFormat.num_low_words() + four * kHighBits / 8] >> (four * kHighBits % 8);
      block.codes[four] |= (high & kFormat.high_mask()) << kFormat.low_bits();
    }
  }
}

// The sub-scales of a block as two bytes, that of the first sum first. In types with one sum, the second byte
// is the sub-minimum. In types with two sums and minima, the high half of each byte is the sub-minimum.
template <TensorType kType>
std::array<uint8_t, 2> pack_sub_scales(const QuantBlock& block) {
  constexpr QuantFormat kFormat = quant_format(kType);
  const auto first = static_cast<uint8_t>(block.sub_scales[0]);
  if constexpr (kFormat.num_sub_scales < 2) return {first, static_cast<uint8_t>(block.sub_minima[0])};
  std::array<uint8_t, 2> bytes = {first, static_cast<uint8_t>(block.sub_scales[1])};
  for (uint32_t i = 0; i < 2 && kFormat.has_minimum; ++i) bytes[i] |= block.sub_minima[i] << 4;
  return bytes;
}

template <TensorType kType>
void unpack_sub_scales(const std::array<uint8_t, 2>& bytes, QuantBlock& block) {
  constexpr QuantFormat kFormat = quant_format(kType);
  for (uint32_t i = 0; i < 2; ++i) {
    if (kFormat.num_sub_scales < 2) {
      block.sub_scales[i] = static_cast<int8_t>(bytes[0]);
      block.sub_minima[i] = static_cast<int8_t>(bytes[1]);
    } else {
      block.sub_scales[i] = static_cast<int8_t>(kFormat.has_minimum ? bytes[i] & 15 : bytes[i]);
      block.sub_minima[i] = static_cast<int8_t>(bytes[i] >> 4);
    }
  }
}

}  // namespace runnel

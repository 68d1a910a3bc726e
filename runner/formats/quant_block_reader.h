// Reads blocks of quantised weights from the file's formats. What depends on the type is decided when this is
// compiled: a loader reads each block of a model once.
#pragma once

#include <cstring>

#include "runner/formats/quant_block.h"
#include "runner/formats/tensor.h"

namespace runnel {
namespace block_parts {

template <typename T>
T read(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

// Reads 32 codes of 4 bits. The low halves of 16 bytes have those of the first 16 weights, the high halves
// the others.
inline void read_nibbles(const std::byte* from, QuantBlock& block) {
  for (uint32_t i = 0; i < 4; ++i) {
    const auto bytes = read<uint32_t>(from + 4 * i);
    block.codes[i] = bytes & 0x0f0f0f0f;
    block.codes[4 + i] = (bytes >> 4) & 0x0f0f0f0f;
  }
}

// Adds a fifth bit to each code. Bit i of 32 belongs to weight i.
inline void read_fifth_bits(const std::byte* from, QuantBlock& block) {
  constexpr uint32_t kToBytes =
      1 | 1 << 7 | 1 << 14 | 1 << 21;  // moves bit i of four to bit 8 i, and elsewhere
  const auto bits = read<uint32_t>(from);
  for (uint32_t i = 0; i < 8; ++i) block.codes[i] |= ((bits >> (4 * i) & 15) * kToBytes & 0x01010101) << 4;
}

// Reads codes of 4 or 2 bits of a block of 256. The lowest bits of 32 bytes have the codes of the first block
// of 32, the next bits those of the next block.
inline void read_shifted(const std::byte* from, uint32_t shift, uint32_t mask, QuantBlock& block) {
  for (uint32_t i = 0; i < 8; ++i) block.codes[i] = (read<uint32_t>(from + 4 * i) >> shift) & mask;
}

// Adds bits above the num_low_bits lower bits of codes. 32 bytes have these bits in the same order.
inline void add_high_bits(const std::byte* from, uint32_t shift, uint32_t mask, uint32_t num_low_bits,
                          QuantBlock& block) {
  for (uint32_t i = 0; i < 8; ++i)
    block.codes[i] |= ((read<uint32_t>(from + 4 * i) >> shift) & mask) << num_low_bits;
}

// Reads sub-scale and sub-minimum `sub` of 8. They have 6 bits each, in 12 bytes. For the first four, each
// has a byte of its own. The upper two bits of these bytes are the upper bits of the other four, whose lower
// four bits share a byte.
inline void read_six_bits(const std::byte* from, uint32_t sub, QuantBlock& block) {
  const auto byte = [&](uint32_t i) { return std::to_integer<uint32_t>(from[i]); };
  uint32_t scale = byte(sub % 4);
  uint32_t minimum = byte(4 + sub % 4);
  if (sub < 4) {
    scale &= 63;
    minimum &= 63;
  } else {
    scale = (byte(8 + sub % 4) & 15) | (scale >> 6 << 4);
    minimum = (byte(8 + sub % 4) >> 4) | (minimum >> 6 << 4);
  }
  block.sub_scales.fill(static_cast<int8_t>(scale));
  block.sub_minima.fill(static_cast<int8_t>(minimum));
}

// The file has a minimum that is subtracted, a QuantBlock one that is added.
inline uint16_t negated(uint16_t half) {
  return half ^ 0x8000;
}

// 2^(exponent - 128) as the upper half of a float. Below 2^-126 it is subnormal.
inline uint16_t scale_of_exponent(uint8_t exponent) {
  return static_cast<uint16_t>(exponent < 2 ? 0x20 << exponent : (exponent - 1) << 7);
}

}  // namespace block_parts

// Reads block `block` of a row of a tensor in the file.
template <TensorType kType>
QuantBlock read_block(const std::byte* row, size_t block) {
  static_assert(is_quantised(kType), "floats have no blocks");
  using namespace block_parts;
  // Blocks in the file have 32 or 256 weights.
  constexpr size_t kNumSubs = block_weights(kType) / kQuantBlockWeights;
  const std::byte* from = row + block / kNumSubs * block_bytes(kType);
  const auto sub = static_cast<uint32_t>(block % kNumSubs);
  QuantBlock out{.codes = {}, .scale = read<uint16_t>(from)};
  switch (kType) {
    case TensorType::kQ4_0:
      read_nibbles(from + 2, out);
      break;
    case TensorType::kQ4_1:
      out.minimum = read<uint16_t>(from + 2);
      read_nibbles(from + 4, out);
      break;
    case TensorType::kQ8_0:
      std::memcpy(out.codes.data(), from + 2, kQuantBlockWeights);
      break;
    case TensorType::kQ5_0:
      read_nibbles(from + 6, out);
      read_fifth_bits(from + 2, out);
      break;
    case TensorType::kQ5_1:
      out.minimum = read<uint16_t>(from + 2);
      read_nibbles(from + 8, out);
      read_fifth_bits(from + 4, out);
      break;
    case TensorType::kQ4_K:
      out.minimum = negated(read<uint16_t>(from + 2));
      read_six_bits(from + 4, sub, out);
      read_shifted(from + 16 + sub / 2 * 32, sub % 2 * 4, 0x0f0f0f0f, out);
      break;
    case TensorType::kQ5_K:
      out.minimum = negated(read<uint16_t>(from + 2));
      read_six_bits(from + 4, sub, out);
      read_shifted(from + 48 + sub / 2 * 32, sub % 2 * 4, 0x0f0f0f0f, out);
      add_high_bits(from + 16, sub, 0x01010101, 4, out);
      break;
    case TensorType::kQ6_K:
      out.scale = read<uint16_t>(from + 208);
      std::memcpy(out.sub_scales.data(), from + 192 + 2 * sub, 2);
      read_shifted(from + sub / 4 * 64 + sub % 2 * 32, sub % 4 / 2 * 4, 0x0f0f0f0f, out);
      add_high_bits(from + 128 + sub / 4 * 32, sub % 4 * 2, 0x03030303, 4, out);
      break;
    case TensorType::kQ2_K:
      out.scale = read<uint16_t>(from + 80);
      out.minimum = negated(read<uint16_t>(from + 82));
      for (uint32_t i = 0; i < 2; ++i) {
        const auto both = std::to_integer<uint32_t>(from[2 * sub + i]);
        out.sub_scales[i] = static_cast<int8_t>(both & 15);
        out.sub_minima[i] = static_cast<int8_t>(both >> 4);
      }
      read_shifted(from + 16 + sub / 4 * 32, sub % 4 * 2, 0x03030303, out);
      break;
    case TensorType::kQ3_K:
      out.scale = read<uint16_t>(from + 108);
      for (uint32_t i = 0; i < 2; ++i) {
        const uint32_t at = 2 * sub + i;  // of 16
        const auto low = std::to_integer<uint32_t>(from[96 + at % 8]) >> (at / 8 * 4) & 15;
        const auto high = std::to_integer<uint32_t>(from[104 + at % 4]) >> (at / 4 * 2) & 3;
        out.sub_scales[i] = static_cast<int8_t>(static_cast<int32_t>(low | high << 4) - 32);
      }
      read_shifted(from + 32 + sub / 4 * 32, sub % 4 * 2, 0x03030303, out);
      add_high_bits(from, sub, 0x01010101, 2, out);
      break;
    case TensorType::kIQ4_NL:
      read_nibbles(from + 2, out);
      break;
    case TensorType::kIQ4_XS: {
      const auto low = std::to_integer<uint32_t>(from[4 + sub / 2]) >> (sub % 2 * 4) & 15;
      const uint32_t high = read<uint16_t>(from + 2) >> (2 * sub) & 3u;
      out.sub_scales.fill(static_cast<int8_t>(static_cast<int32_t>(low | high << 4) - 32));
    }
      read_nibbles(from + 8 + 16 * sub, out);
      break;
    case TensorType::kMXFP4:
      out.scale = scale_of_exponent(std::to_integer<uint8_t>(from[0]));
      read_nibbles(from + 1, out);
      break;
    case TensorType::kF32:
    case TensorType::kF16:
    case TensorType::kBF16:
      break;
  }
  return out;
}

}  // namespace runnel

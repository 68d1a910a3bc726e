#include "runner/formats/quant_block.h"

#include <cstring>

#include "runner/formats/half.h"
#include "runner/formats/tensor.h"

namespace runnel {
namespace {

template <typename T>
T read(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

// 32 codes of 4 bits: those of the first 16 weights in the low halves of 16 bytes, the others in the high.
void read_nibbles(const std::byte* from, QuantBlock& block) {
  for (uint32_t i = 0; i < 4; ++i) {
    const auto bytes = read<uint32_t>(from + 4 * i);
    block.codes[i] = bytes & 0x0f0f0f0f;
    block.codes[4 + i] = (bytes >> 4) & 0x0f0f0f0f;
  }
}

// A fifth bit of each code: bit i of 32 is weight i's.
void read_fifth_bits(const std::byte* from, QuantBlock& block) {
  const auto bits = read<uint32_t>(from);
  for (uint32_t i = 0; i < kQuantBlockWeights; ++i)
    block.codes[i / 4] |= ((bits >> i) & 1) << (8 * (i % 4) + 4);
}

}  // namespace

QuantBlock read_block(TensorType type, const std::byte* row, size_t block) {
  const std::byte* from = row + block * block_bytes(type);
  QuantBlock out{.codes = {}, .scale = read<uint16_t>(from)};
  switch (type) {
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
    case TensorType::kF32:
    case TensorType::kF16:
    case TensorType::kBF16:
      CHECK(!"floats have no blocks");
  }
  return out;
}

bool has_minimum(TensorType type) {
  return with_quantised_type(type, [](auto constant) { return quant_format(constant).has_minimum; });
}

float scale_of(TensorType, const QuantBlock& block) {
  return half_to_float(block.scale);
}

float minimum_of(const QuantBlock& block) {
  return half_to_float(block.minimum);
}

std::array<int8_t, kQuantBlockWeights> quants_of(TensorType type, const QuantBlock& block) {
  std::array<int8_t, kQuantBlockWeights> quants;
  std::memcpy(quants.data(), block.codes.data(), quants.size());
  with_quantised_type(type, [&](auto constant) {
    constexpr QuantFormat kFormat = quant_format(constant);
    for (int8_t& quant : quants) quant = static_cast<int8_t>(quant - kFormat.code_offset);
  });
  return quants;
}

void dequantize_block(TensorType type, const QuantBlock& block, std::span<float, kQuantBlockWeights> out) {
  const std::array<int8_t, kQuantBlockWeights> quants = quants_of(type, block);
  const float scale = scale_of(type, block);
  const float minimum = minimum_of(block);
  const bool has_minima = has_minimum(type);
  for (uint32_t i = 0; i < kQuantBlockWeights; ++i) {
    const uint32_t half = i / (kQuantBlockWeights / 2);
    out[i] = scale * static_cast<float>(block.sub_scales[half]) * static_cast<float>(quants[i]);
    if (has_minima) out[i] = out[i] + minimum * static_cast<float>(block.sub_minima[half]);
  }
}

}  // namespace runnel

#include "runner/formats/quant_block.h"

#include <cstring>

#include "runner/formats/bf16.h"
#include "runner/formats/half.h"
#include "runner/formats/quant_block_reader.h"

namespace runnel {

QuantBlock read_block(TensorType type, const std::byte* row, size_t block) {
  return with_quantised_type(type, [&](auto constant) { return read_block<constant>(row, block); });
}

bool has_minimum(TensorType type) {
  return with_quantised_type(type, [](auto constant) { return quant_format(constant).has_minimum; });
}

float scale_of(TensorType type, const QuantBlock& block) {
  const bool is_bf16 =
      with_quantised_type(type, [](auto constant) { return quant_format(constant).has_bf16_scale; });
  return is_bf16 ? bf16_to_float(block.scale) : half_to_float(block.scale);
}

float minimum_of(const QuantBlock& block) {
  return half_to_float(block.minimum);
}

std::array<int8_t, kQuantBlockWeights> quants_of(TensorType type, const QuantBlock& block) {
  std::array<int8_t, kQuantBlockWeights> quants;
  std::memcpy(quants.data(), block.codes.data(), quants.size());
  with_quantised_type(type, [&](auto constant) {
    constexpr QuantFormat kFormat = quant_format(constant);
    for (int8_t& quant : quants) {
      if constexpr (kFormat.has_values()) {
        quant = kFormat.value(static_cast<uint8_t>(quant));
      } else {
        quant = static_cast<int8_t>(quant - kFormat.code_offset);
      }
    }
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

#include "runner/formats/dequantize.h"

#include <cstring>

#include "runner/check.h"
#include "runner/formats/bf16.h"
#include "runner/formats/half.h"
#include "runner/formats/quant_block.h"

namespace runnel {

void dequantize_row(TensorType type, std::span<const std::byte> row, std::span<float> out) {
  CHECK(out.size() % block_weights(type) == 0);
  CHECK(row.size() == out.size() / block_weights(type) * block_bytes(type));
  if (type == TensorType::kF32) {
    std::memcpy(out.data(), row.data(), row.size());
    return;
  }
  if (!is_quantised(type)) {
    for (size_t i = 0; i < out.size(); ++i) {
      uint16_t bits;
      std::memcpy(&bits, row.data() + i * sizeof(bits), sizeof(bits));
      out[i] = type == TensorType::kBF16 ? bf16_to_float(bits) : half_to_float(bits);
    }
    return;
  }
  for (size_t block = 0; block * kQuantBlockWeights < out.size(); ++block) {
    dequantize_block(type, read_block(type, row.data(), block),
                     out.subspan(block * kQuantBlockWeights).first<kQuantBlockWeights>());
  }
}

}  // namespace runnel

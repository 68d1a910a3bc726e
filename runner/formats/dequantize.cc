#include "runner/formats/dequantize.h"

#include <array>
#include <cstring>

#include "runner/check.h"
#include "runner/formats/half.h"

namespace runnel {
namespace {

constexpr uint32_t kBlock = 32;

template <typename T>
T read(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

}  // namespace

void unpack_block(TensorType type, const std::byte* block, std::span<int8_t, kBlock> out) {
  switch (type) {
    case TensorType::kQ4_0:
    case TensorType::kQ4_1: {
      const int offset = type == TensorType::kQ4_0 ? 8 : 0;
      const std::byte* quants = block + (type == TensorType::kQ4_0 ? 2 : 4);
      for (uint32_t i = 0; i < kBlock / 2; ++i) {
        const int byte = std::to_integer<int>(quants[i]);
        out[i] = static_cast<int8_t>((byte & 15) - offset);
        out[i + kBlock / 2] = static_cast<int8_t>((byte >> 4) - offset);
      }
      return;
    }
    case TensorType::kQ8_0:
      std::memcpy(out.data(), block + 2, kBlock);
      return;
    case TensorType::kF32:
    case TensorType::kF16:
      break;
  }
  CHECK(!"unpack_block takes quantised types only");
}

void dequantize_row(TensorType type, std::span<const std::byte> row, std::span<float> out) {
  CHECK(out.size() % block_weights(type) == 0);
  CHECK(row.size() == out.size() / block_weights(type) * block_bytes(type));
  if (type == TensorType::kF32) {
    std::memcpy(out.data(), row.data(), row.size());
    return;
  }
  if (type == TensorType::kF16) {
    for (size_t i = 0; i < out.size(); ++i) out[i] = half_to_float(read<uint16_t>(row.data() + 2 * i));
    return;
  }
  std::array<int8_t, kBlock> quants;
  for (size_t block = 0; block * kBlock < out.size(); ++block) {
    const std::byte* from = row.data() + block * block_bytes(type);
    unpack_block(type, from, quants);
    const float scale = half_to_float(read<uint16_t>(from));
    for (uint32_t i = 0; i < kBlock; ++i) {
      float& value = out[block * kBlock + i];
      value = scale * static_cast<float>(quants[i]);
      if (type == TensorType::kQ4_1) value += half_to_float(read<uint16_t>(from + 2));
    }
  }
}

}  // namespace runnel

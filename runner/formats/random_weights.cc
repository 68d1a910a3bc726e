#include "runner/formats/random_weights.h"

#include <cstdint>
#include <cstring>
#include <numbers>

#include "runner/check.h"
#include "runner/formats/half.h"

namespace runnel {
namespace {

// Of evenly distributed quants: 0 to 15 around their middle, and -128 to 127.
constexpr float kRmsOfNibbles = 4.61f;
constexpr float kRmsOfBytes = 73.9f;

// In [0, 1). The distributions of the standard library differ from one library to another.
float unit(std::mt19937_64& random) {
  return static_cast<float>(random() >> 40) * 0x1p-24f;
}

// Evenly distributed, so that none is far out.
float weight(float rms, std::mt19937_64& random) {
  return rms * std::numbers::sqrt3_v<float> * (2.0f * unit(random) - 1.0f);
}

template <typename T>
void store(T value, std::span<std::byte>& out) {
  std::memcpy(out.data(), &value, sizeof(T));
  out = out.subspan(sizeof(T));
}

// Scales are of either sign and differ by up to three times.
float scale(float rms_of_scaled, std::mt19937_64& random) {
  const float size = rms_of_scaled * (0.5f + unit(random));
  return random() & 1 ? size : -size;
}

void fill_block(TensorType type, float rms, std::mt19937_64& random, std::span<std::byte> out) {
  const bool has_bytes = type == TensorType::kQ8_0;
  const float d = scale(rms / (has_bytes ? kRmsOfBytes : kRmsOfNibbles), random);
  store(float_to_half(d), out);
  if (type == TensorType::kQ4_1) store(float_to_half(-d * (6.5f + 2.0f * unit(random))), out);
  while (!out.empty()) store(uint64_t{random()}, out);
}

}  // namespace

void fill_with_random_weights(TensorType type, float rms, std::mt19937_64& random, std::span<std::byte> out) {
  const size_t num_bytes = block_bytes(type);
  CHECK(out.size() % num_bytes == 0);
  while (!out.empty()) {
    switch (type) {
      case TensorType::kF32:
        store(weight(rms, random), out);
        break;
      case TensorType::kF16:
        store(float_to_half(weight(rms, random)), out);
        break;
      case TensorType::kQ4_0:
      case TensorType::kQ4_1:
      case TensorType::kQ8_0:
        fill_block(type, rms, random, out.first(num_bytes));
        out = out.subspan(num_bytes);
    }
  }
}

}  // namespace runnel

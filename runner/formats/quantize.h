// Floats as blocks of quants, by ggml's reference quantisation (docs/numerics.md, "Quantisation at load").
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "runner/formats/tensor.h"

namespace runnel {

// The types that floats are quantised to: q8_0 and q4_0.
std::optional<TensorType> quantize_type_named(std::string_view name);
std::string quantize_type_name(TensorType type);

// values.size() is a multiple of 32; out has the bytes of so many weights. What is no number becomes 0.
void quantize_row(TensorType type, std::span<const float> values, std::span<std::byte> out);

}  // namespace runnel

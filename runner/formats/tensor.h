// A tensor in a model file.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "runner/formats/tensor_type.h"

namespace runnel {

// All types, in the order of their numbers.
std::span<const TensorType> tensor_types();
// Weights in a block of a type, and bytes of the block. A block has 1 weight for floats, 32 or 256 for
// quantised types.
uint32_t block_weights(TensorType type);
uint32_t block_bytes(TensorType type);
std::string_view type_name(TensorType type);
// The type with the name that flags use: "q4_1".
std::optional<TensorType> tensor_type_named(std::string_view name);
// "f32, f16, q4_0, ...", for messages.
std::string tensor_type_names();

// A view into the mapped file; the file must outlive it.
struct TensorView {
  std::string name;
  TensorType type;
  uint32_t num_dims;  // 1 to 4
  // Shape[0] is contiguous (columns, the k of a product), shape[1] rows; unused are 1.
  std::array<uint64_t, 4> shape;
  std::span<const std::byte> data;

  uint64_t columns() const { return shape[0]; }
  uint64_t rows() const { return shape[1] * shape[2] * shape[3]; }
  // Bytes of all weights if they are stored as this type.
  uint64_t bytes_as(TensorType other) const {
    return columns() * rows() / block_weights(other) * block_bytes(other);
  }
};

}  // namespace runnel

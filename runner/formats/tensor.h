// A tensor in a model file.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "runner/formats/tensor_type.h"

namespace runnel {

struct TypeTraits {
  TensorType type;
  std::string_view name;
  uint32_t block_weights;
  uint32_t block_bytes;
};

// In the order of their numbers.
inline constexpr TypeTraits kTypeTraits[] = {
    {TensorType::kF32, "F32", 1, 4},            //
    {TensorType::kF16, "F16", 1, 2},            //
    {TensorType::kQ4_0, "Q4_0", 32, 18},        //
    {TensorType::kQ4_1, "Q4_1", 32, 20},        //
    {TensorType::kQ5_0, "Q5_0", 32, 22},        //
    {TensorType::kQ5_1, "Q5_1", 32, 24},        //
    {TensorType::kQ8_0, "Q8_0", 32, 34},        //
    {TensorType::kQ2_K, "Q2_K", 256, 84},       //
    {TensorType::kQ3_K, "Q3_K", 256, 110},      //
    {TensorType::kQ4_K, "Q4_K", 256, 144},      //
    {TensorType::kQ5_K, "Q5_K", 256, 176},      //
    {TensorType::kQ6_K, "Q6_K", 256, 210},      //
    {TensorType::kIQ4_NL, "IQ4_NL", 32, 18},    //
    {TensorType::kIQ4_XS, "IQ4_XS", 256, 136},  //
    {TensorType::kBF16, "BF16", 1, 2},          //
    {TensorType::kMXFP4, "MXFP4", 32, 17},      //
};

// The table's row for each number: a type is looked up for each block of a file.
inline constexpr auto kRowOfNumber = [] {
  std::array<uint8_t, 64> rows{};
  for (size_t i = 0; i < std::size(kTypeTraits); ++i)
    rows[static_cast<size_t>(kTypeTraits[i].type)] = static_cast<uint8_t>(i);
  return rows;
}();

// Every TensorType is in the table.
constexpr const TypeTraits& type_traits(TensorType type) {
  return kTypeTraits[kRowOfNumber[static_cast<size_t>(type)]];
}

// All types, in the order of their numbers.
std::span<const TensorType> tensor_types();
// Weights in a block of a type, and bytes of the block. A block has 1 weight for floats, 32 or 256 for
// quantised types.
constexpr uint32_t block_weights(TensorType type) {
  return type_traits(type).block_weights;
}
constexpr uint32_t block_bytes(TensorType type) {
  return type_traits(type).block_bytes;
}
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
  // The experts of a layer, whose rows are stacked in this tensor; 1: the rows are of one matrix.
  uint32_t num_sections = 1;

  uint64_t columns() const { return shape[0]; }
  uint64_t rows() const { return shape[1] * shape[2] * shape[3]; }
  // Bytes of all weights if they are stored as this type.
  uint64_t bytes_as(TensorType other) const {
    return columns() * rows() / block_weights(other) * block_bytes(other);
  }
};

}  // namespace runnel

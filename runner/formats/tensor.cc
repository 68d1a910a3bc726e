#include "runner/formats/tensor.h"

#include <cstddef>
#include <iterator>

namespace runnel {
namespace {

std::string lower_case(std::string_view name) {
  std::string lower(name);
  for (char& letter : lower) {
    if (letter >= 'A' && letter <= 'Z') letter += 'a' - 'A';
  }
  return lower;
}

}  // namespace

std::span<const TensorType> tensor_types() {
  static constexpr auto kNumbers = [] {
    std::array<TensorType, std::size(kTypeTraits)> types{};
    for (size_t i = 0; i < types.size(); ++i) types[i] = kTypeTraits[i].type;
    return types;
  }();
  return kNumbers;
}
std::string_view type_name(TensorType type) {
  return type_traits(type).name;
}

std::optional<TensorType> tensor_type_named(std::string_view name) {
  for (const TypeTraits& entry : kTypeTraits) {
    if (lower_case(entry.name) == name) return entry.type;
  }
  return std::nullopt;
}

std::string tensor_type_names() {
  std::string names;
  for (const TypeTraits& entry : kTypeTraits) names += (names.empty() ? "" : ", ") + lower_case(entry.name);
  return names;
}

}  // namespace runnel

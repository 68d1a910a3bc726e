#include "runner/backend/activation_type.h"

#include "runner/check.h"

namespace runnel {
namespace {

struct Entry {
  ActivationType type;
  std::string_view name;
  std::string_view arithmetic;
};
constexpr Entry kTypes[] = {{ActivationType::kI8, "i8", "i8-1"}, {ActivationType::kF32, "f32", "f32-1"}};

const Entry& entry_of(ActivationType type) {
  for (const Entry& entry : kTypes) {
    if (entry.type == type) return entry;
  }
  CHECK(false);
}

}  // namespace

std::string_view activation_type_name(ActivationType type) {
  return entry_of(type).name;
}

std::optional<ActivationType> activation_type_named(std::string_view name) {
  for (const Entry& entry : kTypes) {
    if (entry.name == name) return entry.type;
  }
  return std::nullopt;
}

std::string activation_type_names() {
  std::string names;
  for (const Entry& entry : kTypes) names += (names.empty() ? "" : ", ") + std::string(entry.name);
  return names;
}

std::string numerics_id(ActivationType activations, KvType kv_type) {
  const std::string name(entry_of(activations).arithmetic);
  return kv_type == KvType::kF16 ? name : name + "-kv-" + std::string(kv_type_name(kv_type));
}

}  // namespace runnel

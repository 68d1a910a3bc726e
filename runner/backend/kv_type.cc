#include "runner/backend/kv_type.h"

#include "runner/check.h"

namespace runnel {
namespace {

struct Entry {
  KvType type;
  std::string_view name;
};
constexpr Entry kTypes[] = {{KvType::kF16, "f16"}, {KvType::kF32, "f32"}, {KvType::kQ8_0, "q8_0"}};

}  // namespace

std::string_view kv_type_name(KvType type) {
  for (const Entry& entry : kTypes) {
    if (entry.type == type) return entry.name;
  }
  CHECK(false);
}

std::optional<KvType> kv_type_named(std::string_view name) {
  for (const Entry& entry : kTypes) {
    if (entry.name == name) return entry.type;
  }
  return std::nullopt;
}

std::string kv_type_names() {
  std::string names;
  for (const Entry& entry : kTypes) names += (names.empty() ? "" : ", ") + std::string(entry.name);
  return names;
}

}  // namespace runnel

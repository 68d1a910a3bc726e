// The type in which the KV cache stores keys and values; docs/numerics.md says how they are rounded.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace runnel {

enum class KvType { kF16, kF32, kQ8_0 };

// The name that flags and frames use: "f16".
std::string_view kv_type_name(KvType type);
std::optional<KvType> kv_type_named(std::string_view name);
// "f16, f32, q8_0", for messages.
std::string kv_type_names();

}  // namespace runnel

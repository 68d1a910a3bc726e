// The form in which products read activations; docs/numerics.md says how they are rounded.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "runner/backend/kv_type.h"

namespace runnel {

// kI8: signed bytes with a scale for each 32 values, the arithmetic i8-1. kF32: the values themselves, f32-1.
enum class ActivationType { kI8, kF32 };

// The name that flags use: "i8".
std::string_view activation_type_name(ActivationType type);
std::optional<ActivationType> activation_type_named(std::string_view name);
// "i8, f32", for messages.
std::string activation_type_names();

// The name of the arithmetic, see Hello.numerics_id. The rounding of the KV cache is part of it.
std::string numerics_id(ActivationType activations, KvType kv_type);

}  // namespace runnel

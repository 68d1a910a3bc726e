// What products read of an activation; docs/numerics.md says how it is rounded.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "runner/kv_type.h"

namespace runnel {

// kI8: signed bytes with a scale for each 32, the arithmetic i8-1. kF32: the values themselves, f32-1.
enum class ActivationType { kI8, kF32 };

// "i8": what flags call it.
std::string_view activation_type_name(ActivationType type);
std::optional<ActivationType> activation_type_named(std::string_view name);
// "i8, f32", for messages.
std::string activation_type_names();

// The name of the arithmetic, see Hello.numerics_id. What the KV cache rounds to is a part of it.
std::string numerics_id(ActivationType activations, KvType kv_type);

}  // namespace runnel

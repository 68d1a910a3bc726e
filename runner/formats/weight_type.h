// The type of a tensor as a constant, so that everything that depends on the type is decided once. Kernels of
// a GPU include this.
#pragma once

#include <type_traits>

#include "runner/formats/tensor_type.h"

namespace runnel {

// Calls fn with the type as a compile-time constant, and returns what it returns.
template <typename Fn>
constexpr auto with_weight_type(TensorType type, const Fn& fn) {
  using enum TensorType;
  switch (type) {
    case kF32:
      return fn(std::integral_constant<TensorType, kF32>());
    case kF16:
      return fn(std::integral_constant<TensorType, kF16>());
    case kBF16:
      return fn(std::integral_constant<TensorType, kBF16>());
    case kQ4_0:
      return fn(std::integral_constant<TensorType, kQ4_0>());
    case kQ4_1:
      return fn(std::integral_constant<TensorType, kQ4_1>());
    case kQ8_0:
      return fn(std::integral_constant<TensorType, kQ8_0>());
    case kQ5_0:
      return fn(std::integral_constant<TensorType, kQ5_0>());
    case kQ5_1:
      return fn(std::integral_constant<TensorType, kQ5_1>());
    case kQ4_K:
      return fn(std::integral_constant<TensorType, kQ4_K>());
    case kQ5_K:
      return fn(std::integral_constant<TensorType, kQ5_K>());
    case kQ6_K:
      return fn(std::integral_constant<TensorType, kQ6_K>());
    case kQ2_K:
      return fn(std::integral_constant<TensorType, kQ2_K>());
    case kQ3_K:
      return fn(std::integral_constant<TensorType, kQ3_K>());
    case kIQ4_NL:
      return fn(std::integral_constant<TensorType, kIQ4_NL>());
    case kIQ4_XS:
      return fn(std::integral_constant<TensorType, kIQ4_XS>());
    case kMXFP4:
      return fn(std::integral_constant<TensorType, kMXFP4>());
  }
  __builtin_unreachable();
}

}  // namespace runnel

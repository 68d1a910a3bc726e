// The parts of the C++ library and of the CUDA runtime that kernels use, as device code. NVRTC has neither;
// it only declares the types of the runtime and the functions of math.h.
#pragma once

#define INFINITY __builtin_bit_cast(float, 0x7f800000)
#define HUGE_VALF INFINITY
#define UINT64_MAX 0xffffffffffffffffull

using int8_t = signed char;
using int16_t = short;
using int32_t = int;
using int64_t = long;
using uint8_t = unsigned char;
using uint16_t = unsigned short;
using uint32_t = unsigned int;
using uint64_t = unsigned long;

namespace std {

// Declarations that kernels include but do not use name these types.
class string;
class string_view;
template <typename T>
class optional;
template <typename T>
class span;

template <typename T, T kValue>
struct integral_constant {
  static constexpr T value = kValue;
  constexpr operator T() const { return kValue; }
};

template <typename T, typename U>
inline constexpr bool is_same_v = false;
template <typename T>
inline constexpr bool is_same_v<T, T> = true;

using ::ceil;
using ::fabs;
using ::fma;
using ::fmax;
using ::fmin;
using ::isfinite;
using ::nearbyint;
using ::rint;
using ::size_t;
using ::sqrt;

template <typename T>
constexpr const T& min(const T& a, const T& b) {
  return b < a ? b : a;
}
template <typename T>
constexpr const T& max(const T& a, const T& b) {
  return a < b ? b : a;
}
template <typename T>
constexpr const T& clamp(const T& value, const T& low, const T& high) {
  return min(max(value, low), high);
}

template <typename To, typename From>
constexpr To bit_cast(const From& from) {
  return __builtin_bit_cast(To, from);
}

template <typename T>
constexpr int countl_one(T bits) {
  int count = 0;
  for (T top = T{1} << (8 * sizeof(T) - 1); (bits & top) != 0; top >>= 1) ++count;
  return count;
}

template <typename T, size_t N>
struct array {
  T values[N];
  constexpr T& operator[](size_t index) { return values[index]; }
  constexpr const T& operator[](size_t index) const { return values[index]; }
};

template <typename T>
struct numeric_limits;
template <>
struct numeric_limits<double> {
  static constexpr double infinity() { return INFINITY; }
};

}  // namespace std

// As nvcc defines it.
#define __CUDA_ARCH_LIST__ 700

inline cudaError_t cudaDriverGetVersion(int*) {
  return cudaSuccess;
}

// These launch and load nothing. Because they name the kernel, a kernel that is a template is compiled.
template <typename... Parameters, typename... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t*, void (*)(Parameters...), Arguments&&...) {
  return cudaSuccess;
}
template <typename... Parameters>
cudaError_t cudaFuncSetAttribute(void (*)(Parameters...), cudaFuncAttribute, int) {
  return cudaSuccess;
}
template <typename... Parameters>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes*, void (*)(Parameters...)) {
  return cudaSuccess;
}

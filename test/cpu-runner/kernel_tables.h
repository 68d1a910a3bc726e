// What tests of kernels share: the tables that this machine can run, and equality of bits.
#pragma once

#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include "cpu-runner/kernels/kernels.h"
#include "test/fixtures/random_floats.h"

namespace runnel::test {

extern const Kernels kPortableWideKernels;

inline std::vector<const Kernels*> kernel_tables() {
  std::vector<const Kernels*> all = {&kPortableKernels, &kPortableWideKernels};
  unsetenv("RUNNEL_CPU");
  if (&select_kernels() != &kPortableKernels) all.push_back(&select_kernels());
#if defined(__x86_64__)
  if (__builtin_cpu_supports("x86-64-v4")) all.push_back(&kX8664V4Kernels);
#endif
  return all;
}

inline bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

}  // namespace runnel::test

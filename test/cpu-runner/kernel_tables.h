// Shared by tests of kernels: the tables of kernels that this machine can run, and equality of bits.
#pragma once

#include <cstring>
#include <span>
#include <vector>

#include "cpu-runner/isa.h"
#include "cpu-runner/kernels/kernels.h"
#include "test/fixtures/random_floats.h"

#ifdef RUNNEL_WIDE_PORTABLE
namespace runnel {
// The kernels of 16 lanes, compiled for any processor. They compute as those for AVX-512 do. Only the build
// with the sanitizers has them, because they take long to compile.
extern const Kernels kWidePortableKernels;
}  // namespace runnel
#endif

namespace runnel::test {

inline std::vector<const Kernels*> kernel_tables() {
  std::vector<const Kernels*> all = usable_kernels();
#ifdef RUNNEL_WIDE_PORTABLE
  all.push_back(&kWidePortableKernels);
#endif
  return all;
}

inline bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

}  // namespace runnel::test

// What tests of kernels share: the tables that this machine can run, random rows, and equality of bits.
#pragma once

#include <cstdlib>
#include <cstring>
#include <random>
#include <span>
#include <vector>

#include "cpu-runner/kernels/kernels.h"

namespace runnel::test {

inline std::vector<const Kernels*> kernel_tables() {
  std::vector<const Kernels*> all = {&kPortableKernels};
  unsetenv("RUNNEL_CPU");
  if (&select_kernels() != &kPortableKernels) all.push_back(&select_kernels());
  return all;
}

inline std::vector<float> random_floats(size_t count, std::mt19937& rng, float magnitude = 1.0f) {
  std::normal_distribution<float> normal(0.0f, 1.0f);
  std::vector<float> out(count);
  for (float& value : out) value = normal(rng) * magnitude;
  return out;
}

inline bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

}  // namespace runnel::test

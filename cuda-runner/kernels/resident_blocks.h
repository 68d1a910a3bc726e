// The blocks that share a multiprocessor, which kernels state so that the compiler leaves them registers: no
// more than shared memory has room for, since fewer blocks leave each thread more registers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace runnel {

// The shared memory of a multiprocessor in KiB, by what nvcc compiles for.
#if !defined(__CUDA_ARCH__) || (__CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1200)
inline constexpr uint32_t kSharedKib = 228;
#elif __CUDA_ARCH__ == 800 || __CUDA_ARCH__ == 870
inline constexpr uint32_t kSharedKib = 164;
#elif __CUDA_ARCH__ >= 800
inline constexpr uint32_t kSharedKib = 100;
#elif __CUDA_ARCH__ >= 750
inline constexpr uint32_t kSharedKib = 64;
#else
inline constexpr uint32_t kSharedKib = 96;
#endif

// A block takes 1 KiB beside its own.
constexpr uint32_t resident_blocks(uint32_t most, size_t block_bytes) {
  return std::clamp(static_cast<uint32_t>(kSharedKib * 1024 / (block_bytes + 1024)), 1u, most);
}

template <typename Product>
inline constexpr uint32_t kResidentBlocks = resident_blocks(Product::kMinBlocks, Product::Memory::kBytes);

}  // namespace runnel

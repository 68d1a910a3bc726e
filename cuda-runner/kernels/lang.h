// The words that kernels are written in. docs/cuda.md lists them and what the emulator checks for each. This
// file has them for nvcc; emulator/lang.h has the same words for the emulator.
#pragma once

#if defined(RUNNEL_CUDA_EMULATOR)
#include "cuda-runner/emulator/lang.h"
#else

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace runnel {

inline constexpr uint32_t kWarpSize = 32;

// A view of `count` elements of device memory. Only the emulator uses count.
template <typename T>
class Global {
 public:
  Global() = default;
  __host__ __device__ Global(T* data, [[maybe_unused]] size_t count) : data_(data) {}
  // A view of count elements, from element `first` on.
  __host__ __device__ Global from(size_t first, [[maybe_unused]] size_t count) const {
    return {data_ + first, count};
  }
  // The same memory as bytes.
  __host__ __device__ Global<const uint8_t> bytes() const {
    return {reinterpret_cast<const uint8_t*>(data_), 0};
  }
#if defined(__CUDACC__)
  __device__ T& operator[](size_t index) const {
    return data_[index];
  }
  // Reads a V from element `index` on. The address must be aligned for V.
  template <typename V>
  __device__ V load(size_t index) const {
    return *reinterpret_cast<const V*>(data_ + index);
  }
  // Reads in the same way through the read-only path (ld.global.nc), which does not see writes of the same
  // launch. For weights and the lists of a step, which no kernel of a launch or a graph writes.
  template <typename V>
  __device__ V load_read_only(size_t index) const {
    return __ldg(reinterpret_cast<const V*>(data_ + index));
  }
  template <typename V>
  __device__ void store(size_t index, V value) const {
    *reinterpret_cast<V*>(data_ + index) = value;
  }
  __device__ const T* address_of(size_t index) const {
    return data_ + index;
  }
#endif

 private:
  T* data_;
};

// N elements of shared memory, declared as `__shared__ Shared<T, N> name;`.
template <typename T, size_t N>
class Shared {
 public:
  __device__ T& operator[](size_t index) { return data_[index]; }
  template <typename V>
  __device__ V load(size_t index) const {
    return *reinterpret_cast<const V*>(data_ + index);
  }
  template <typename V>
  __device__ void store(size_t index, V value) {
    *reinterpret_cast<V*>(data_ + index) = value;
  }
  __device__ T* address_of(size_t index) { return data_ + index; }

 private:
  alignas(16) T data_[N];
};

// The rest of the file is device code. Host code uses only the views.
#if defined(__CUDACC__)

__device__ inline uint32_t lane() {
  return threadIdx.x % kWarpSize;
}
__device__ inline uint32_t warp() {
  return threadIdx.x / kWarpSize;
}

// A launch may begin while those before it still run (launch.h). wait_for_previous() returns when all of them
// are complete and what they wrote can be read; memory that a kernel may write must not be used before. Every
// thread must call it, so that a launch is complete only after those before it. let_next_begin() lets the
// next launch begin as soon as all blocks of this one have called it or ended. Devices below 9.0 run launches
// one after the other.
__device__ inline void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
__device__ inline void let_next_begin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// The same value. The compiler does not know that, so what is computed from it is computed here, and not
// before a loop around, where it would take registers from the whole loop.
__device__ inline uint32_t recomputed(uint32_t value) {
  asm volatile("" : "+r"(value));
  return value;
}

__device__ inline void sync_block() {
  __syncthreads();
}
__device__ inline void sync_warp() {
  __syncwarp();
}

// Counts the blocks that call it with this counter. Returns true in the last of `count` blocks, which then
// sees what each of them wrote before, and false in the others. All threads of a block must call it. The
// counter must be 0 before the first block comes, and is 0 again after the last. No block waits for another
// one.
__device__ inline bool arrives_last(Global<uint32_t> counters, size_t index, uint32_t count) {
  bool is_last = false;
  __syncthreads();
  if (threadIdx.x == 0) {
    uint32_t num_before;
    asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;"
                 : "=r"(num_before)
                 : "l"(&counters[index]), "r"(count - 1)
                 : "memory");
    is_last = num_before == count - 1;
  }
  return __syncthreads_or(is_last) != 0;
}

// Shared memory of the size that the launch asks for (launch.h), which may be more than 48 KiB. Memory: a
// class of Shared arrays that has its size as kBytes.
template <typename Memory>
__device__ inline Memory& dynamic_shared() {
  extern __shared__ uint4 dynamic_shared_memory[];
  static_assert(sizeof(Memory) == Memory::kBytes);
  return *reinterpret_cast<Memory*>(dynamic_shared_memory);
}

// The value of lane lane() ^ mask (shuffle_xor), or of lane `from` (shuffle). T must have 4 bytes.
template <typename T>
__device__ inline T shuffle_xor(T value, uint32_t mask) {
  return __shfl_xor_sync(0xffffffffu, value, static_cast<int>(mask));
}
template <typename T>
__device__ inline T shuffle(T value, uint32_t from) {
  return __shfl_sync(0xffffffffu, value, static_cast<int>(from));
}

// Conversions from and to the bits of a half-precision number. from_half is exact; to_half rounds to nearest,
// ties to even.
__device__ inline float from_half(uint16_t bits) {
  return __half2float(__ushort_as_half(bits));
}
__device__ inline uint16_t to_half(float value) {
  return __half_as_ushort(__float2half_rn(value));
}

// Returns the value, of whose bits the compiler then knows nothing. So a constant that is added to it stays
// an addition, which a load does by itself, and is not merged into bits that are known to be 0.
__device__ inline uint32_t opaque(uint32_t value) {
  asm("" : "+r"(value));
  return value;
}

// Selects four of eight bytes: bytes 0 to 3 are those of a, bytes 4 to 7 those of b. The lower three bits of
// nibble i of selectors are the number of the byte that becomes byte i. If the highest bit of the nibble is
// set, byte i is eight copies of the sign bit of that byte.
__device__ inline uint32_t select_bytes(uint32_t a, uint32_t b, uint32_t selectors) {
  return __byte_perm(a, b, selectors);
}

// c + the sum of the products of four signed bytes.
__device__ inline int32_t dot4(uint32_t a, uint32_t b, int32_t c) {
  return __dp4a(static_cast<int>(a), static_cast<int>(b), c);
}

}  // namespace runnel

#include "cuda-runner/kernels/before_ampere-inl.h"

namespace runnel {

// The sum, or the largest, of the values of all lanes. Each is one instruction from 8.0 on.
__device__ inline int32_t reduce_add(int32_t value) {
#if __CUDA_ARCH__ >= 800
  return __reduce_add_sync(0xffffffffu, value);
#else
  return add_by_shuffles(value);
#endif
}
__device__ inline uint32_t reduce_max(uint32_t value) {
#if __CUDA_ARCH__ >= 800
  return __reduce_max_sync(0xffffffffu, value);
#else
  return max_by_shuffles(value);
#endif
}

// sums = from + A B, where A (16, 32) and B (32, 8) have signed bytes. The PTX ISA, "mma.m16n8k32" for .s8,
// says which elements a lane holds. With g = lane / 4 and t = lane % 4:
//   a[0] A[g][4t..]   a[1] A[g + 8][4t..]   a[2] A[g][16 + 4t..]   a[3] A[g + 8][16 + 4t..]
//   b[0] B[4t..][g]   b[1] B[16 + 4t..][g]
//   sums[0..1], from[0..1] at (g, 2t..)   sums[2..3], from[2..3] at (g + 8, 2t..)
__device__ inline void mma_s8(int32_t (&sums)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                              const int32_t (&from)[4]) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, "
      "%11, %12, %13};"
      : "=r"(sums[0]), "=r"(sums[1]), "=r"(sums[2]), "=r"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(from[0]), "r"(from[1]),
        "r"(from[2]), "r"(from[3]));
#else
  mma_s8_by_dots(sums, a, b, from);
#endif
}

// Begins to copy 16 bytes from global to shared memory, without the use of registers. Both addresses must be
// multiples of 16. The bytes may be read after wait_copies() and a barrier.
template <typename T, size_t N, typename From>
__device__ inline void copy_async(Shared<T, N>& to, size_t to_index, Global<From> from, size_t from_index) {
#if __CUDA_ARCH__ >= 800
  const auto target = static_cast<uint32_t>(__cvta_generic_to_shared(to.address_of(to_index)));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(target), "l"(from.address_of(from_index))
               : "memory");
#else
  to.template store<uint4>(to_index, from.template load<uint4>(from_index));
#endif
}
// The same from memory as load_read_only reads it, which need not wait for the launch before.
template <typename T, size_t N, typename From>
__device__ inline void copy_read_only_async(Shared<T, N>& to, size_t to_index, Global<From> from,
                                            size_t from_index) {
  copy_async(to, to_index, from, from_index);
}
// Ends the current group of copies.
__device__ inline void commit_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
// Waits until at most kPending of this thread's newest groups are pending.
template <int kPending>
__device__ inline void wait_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
#endif
}

#endif  // __CUDACC__

}  // namespace runnel

#endif

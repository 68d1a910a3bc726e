// The words of kernels (docs/cuda.md) for g++, with their checks. cuda-runner/kernels/lang.h has the same
// words for nvcc.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "cuda-runner/emulator/arrivals.h"
#include "cuda-runner/emulator/async_copies.h"
#include "cuda-runner/emulator/block.h"
#include "cuda-runner/emulator/global.h"
#include "cuda-runner/emulator/settings.h"
#include "cuda-runner/emulator/shared.h"
#include "runner/formats/half.h"

namespace runnel {

inline constexpr uint32_t kWarpSize = emulator::kLanes;

inline uint32_t lane() {
  return threadIdx.x % kWarpSize;
}
inline uint32_t warp() {
  return threadIdx.x / kWarpSize;
}

inline void wait_for_previous() {
  emulator::wait_for_previous();
}
// Launches run one after the other here.
inline void let_next_begin() {}

inline uint32_t recomputed(uint32_t value) {
  return value;
}

inline void sync_block(emulator::Place place = emulator::Place::current()) {
  emulator::wait_for_block("sync_block", place);
}
inline void sync_warp(emulator::Place place = emulator::Place::current()) {
  emulator::wait_for_warp("sync_warp", place);
}

inline bool arrives_last(Global<uint32_t> counters, emulator::Index index, uint32_t count) {
  emulator::wait_for_block("arrives_last", index.place);
  static bool is_last;  // one block runs at a time
  if (threadIdx.x == 0) is_last = emulator::arrive(counters.count_up(index, count), count);
  emulator::wait_for_block("arrives_last", index.place);
  return is_last;
}

// One block runs at a time, so its memory is static. kBytes is its size on a device; here Shared arrays are
// larger, since they have records.
template <typename Memory>
Memory& dynamic_shared(emulator::Place place = emulator::Place::current()) {
  static Memory memory;
  if (Memory::kBytes > emulator::dynamic_shared_bytes)
    emulator::fault(cudaErrorLaunchFailure, place,
                    "uses %u bytes of dynamic shared memory; it was launched with %zu", Memory::kBytes,
                    emulator::dynamic_shared_bytes);
  return memory;
}

template <typename T>
T shuffle(T value, uint32_t from, emulator::Place place = emulator::Place::current()) {
  static_assert(sizeof(T) == 4);
  if (from >= kWarpSize) emulator::fault(cudaErrorLaunchFailure, place, "shuffles from lane %u of 32", from);
  const auto brought = emulator::exchange(&value, sizeof(T), "shuffle", place);
  T taken;
  std::memcpy(&taken, brought[from].bytes, sizeof(T));
  return taken;
}
template <typename T>
T shuffle_xor(T value, uint32_t mask, emulator::Place place = emulator::Place::current()) {
  static_assert(sizeof(T) == 4);
  if (mask >= kWarpSize)
    emulator::fault(cudaErrorLaunchFailure, place, "shuffles by the mask %u; lanes are 0 to 31", mask);
  const auto brought = emulator::exchange(&value, sizeof(T), "shuffle_xor", place);
  T taken;
  std::memcpy(&taken, brought[lane() ^ mask].bytes, sizeof(T));
  return taken;
}

inline float from_half(uint16_t bits) {
  return half_to_float(bits);
}
inline uint16_t to_half(float value) {
  return float_to_half(value);
}

inline uint32_t select_bytes(uint32_t a, uint32_t b, uint32_t selectors) {
  const uint64_t bytes = uint64_t{b} << 32 | a;
  uint32_t selected = 0;
  for (uint32_t i = 0; i < 4; ++i) {
    const uint32_t selector = selectors >> (4 * i);
    const uint32_t byte = bytes >> (8 * (selector & 7)) & 0xff;
    selected |= ((selector & 8) == 0 ? byte : byte >> 7 != 0 ? 0xff : 0) << (8 * i);
  }
  return selected;
}

inline int32_t dot4(uint32_t a, uint32_t b, int32_t c) {
  uint32_t sum = std::bit_cast<uint32_t>(c);  // wraps, as the instruction does
  for (uint32_t shift = 0; shift < 32; shift += 8)
    sum += static_cast<uint32_t>(static_cast<int8_t>(a >> shift) * static_cast<int8_t>(b >> shift));
  return std::bit_cast<int32_t>(sum);
}

inline uint32_t opaque(uint32_t value) {
  return value;
}

}  // namespace runnel

#include "cuda-runner/kernels/before_ampere-inl.h"

namespace runnel {

inline bool is_before_ampere() {
  return emulator::settings().compute_capability < 80;
}

inline int32_t reduce_add(int32_t value, emulator::Place place = emulator::Place::current()) {
  if (is_before_ampere()) return add_by_shuffles(value);
  uint32_t sum = 0;  // wraps, as the instruction does
  for (const auto& each : emulator::exchange(&value, sizeof(value), "reduce_add", place)) {
    uint32_t brought = 0;
    std::memcpy(&brought, each.bytes, sizeof(brought));
    sum += brought;
  }
  return std::bit_cast<int32_t>(sum);
}
inline uint32_t reduce_max(uint32_t value, emulator::Place place = emulator::Place::current()) {
  if (is_before_ampere()) return max_by_shuffles(value);
  uint32_t max = 0;
  for (const auto& each : emulator::exchange(&value, sizeof(value), "reduce_max", place)) {
    uint32_t brought = 0;
    std::memcpy(&brought, each.bytes, sizeof(brought));
    max = std::max(max, brought);
  }
  return max;
}

// kernels/lang.h says which elements a lane holds.
inline void mma_s8(int32_t (&sums)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                   const int32_t (&from)[4], emulator::Place place = emulator::Place::current()) {
  if (is_before_ampere()) return mma_s8_by_dots(sums, a, b, from);
  struct Held {
    uint32_t a[4];
    uint32_t b[2];
  };
  static_assert(sizeof(Held) <= emulator::kExchangeBytes);
  const Held mine{{a[0], a[1], a[2], a[3]}, {b[0], b[1]}};
  const auto brought = emulator::exchange(&mine, sizeof(Held), "mma_s8", place);
  const uint32_t group = lane() / 4;
  const uint32_t pair = 2 * (lane() % 4);
  // This lane's two rows of A and two columns of B, 32 values each. Four lanes hold a row or a column
  // together.
  alignas(16) int8_t rows[2][32];
  alignas(16) int8_t columns[2][32];
  for (uint32_t t = 0; t < 4; ++t) {
    for (uint32_t half = 0; half < 2; ++half) {
      Held held;
      std::memcpy(&held, brought[4 * group + t].bytes, sizeof(Held));
      for (uint32_t i = 0; i < 2; ++i) std::memcpy(&rows[i][16 * half + 4 * t], &held.a[2 * half + i], 4);
      std::memcpy(&held, brought[4 * (pair + half) + t].bytes, sizeof(Held));
      for (uint32_t i = 0; i < 2; ++i) std::memcpy(&columns[half][16 * i + 4 * t], &held.b[i], 4);
    }
  }
  for (uint32_t i = 0; i < 2; ++i) {
    for (uint32_t j = 0; j < 2; ++j) {
      int32_t sum = 0;
      for (uint32_t k = 0; k < 32; ++k) sum += rows[i][k] * columns[j][k];
      // Wraps, as the instruction does.
      sums[2 * i + j] =
          std::bit_cast<int32_t>(std::bit_cast<uint32_t>(from[2 * i + j]) + static_cast<uint32_t>(sum));
    }
  }
}

template <typename T, size_t N>
void copy_async(Shared<T, N>& to, emulator::Index to_index, const uint4& bytes) {
  if (is_before_ampere()) return to.template store<uint4>(to_index, bytes);
  emulator::AsyncCopy copy;
  copy.records = to.template begin_copy<uint4>(to_index);
  copy.to = to.copy_target(to_index.value);
  std::memcpy(copy.bytes.data(), &bytes, emulator::kCopyBytes);
  emulator::begin_copy(copy);
}
template <typename T, size_t N, typename From>
void copy_async(Shared<T, N>& to, emulator::Index to_index, Global<From> from, emulator::Index from_index) {
  copy_async(to, to_index, from.template load<uint4>(from_index));
}
template <typename T, size_t N, typename From>
void copy_read_only_async(Shared<T, N>& to, emulator::Index to_index, Global<From> from,
                          emulator::Index from_index) {
  copy_async(to, to_index, from.template load_read_only<uint4>(from_index));
}
inline void commit_copies() {
  emulator::commit_copies();
}
template <int kPending>
void wait_copies() {
  emulator::wait_copies(kPending);
}

}  // namespace runnel

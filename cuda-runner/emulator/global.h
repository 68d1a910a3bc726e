// Global<T> of lang.h, checked.
#pragma once

#include <cstddef>
#include <cstring>
#include <string>
#include <type_traits>

#include "cuda-runner/emulator/device_memory.h"
#include "cuda-runner/emulator/element.h"
#include "cuda-runner/emulator/fault.h"

namespace runnel {

template <typename T>
class Global {
 public:
  using Value = std::remove_const_t<T>;

  Global() = default;
  Global(T* data, size_t count) : data_(data), count_(count) {}

  // What is const is read at once; the rest may be written.
  auto operator[](emulator::Index index) const {
    if constexpr (std::is_const_v<T>) {
      return load<Value>(index);
    } else {
      return emulator::Element<Value, Global>(*this, index);
    }
  }

  template <typename V>
  V load(emulator::Index index) const {
    check<V>("reads", index);
    const auto* from = reinterpret_cast<const std::byte*>(data_ + index.value);
    if (!all_are<V>(from, emulator::kWritten)) [[unlikely]]
      unwritten(from, sizeof(V), index);
    V value;
    std::memcpy(static_cast<void*>(&value), from, sizeof(V));
    return value;
  }

  template <typename V>
  void store(emulator::Index index, V value) const {
    static_assert(!std::is_const_v<T>);
    check<V>("writes", index);
    auto* to = reinterpret_cast<std::byte*>(data_ + index.value);
    std::memcpy(to, &value, sizeof(V));
    std::memset(states_of(to), emulator::kWritten, sizeof(V));
  }

  Global from(emulator::Index first, size_t count) const {
    if (first.value > count_ || count > count_ - first.value)
      emulator::fault(cudaErrorLaunchFailure,
                      "takes " + std::to_string(count) + " elements from " + std::to_string(first.value) +
                          " on of " + name(),
                      first.place);
    return {data_ + first.value, count};
  }

 private:
  static size_t offset_of(const std::byte* memory) {
    return static_cast<size_t>(memory - emulator::address_space.data);
  }
  static uint8_t* states_of(const std::byte* memory) {
    return emulator::address_space.states + offset_of(memory);
  }

  // Whether the states of all bytes that V takes have these bits.
  template <typename V>
  static bool all_are(const std::byte* memory, uint8_t bits) {
    constexpr size_t kWordBytes = sizeof(V) < 8 ? sizeof(V) : 8;
    uint64_t all = 0;
    std::memset(&all, bits, kWordBytes);
    const uint8_t* const states = states_of(memory);
    for (size_t first = 0; first < sizeof(V); first += kWordBytes) {
      uint64_t word = 0;
      std::memcpy(&word, states + first, kWordBytes);
      if ((word & all) != all) return false;
    }
    return true;
  }

  // Bounds and alignment.
  template <typename V>
  void check(const char* what, const emulator::Index& index) const {
    static_assert(std::is_trivially_copyable_v<V> && (sizeof(V) <= 8 || sizeof(V) % 8 == 0));
    const auto* memory = reinterpret_cast<const std::byte*>(data_) + index.value * sizeof(T);
    const bool is_in_view = index.value < count_ && (count_ - index.value) * sizeof(T) >= sizeof(V);
    const size_t offset = offset_of(memory);
    const bool is_in_memory = offset < emulator::address_space.num_bytes &&
                              sizeof(V) <= emulator::address_space.num_bytes - offset &&
                              all_are<V>(memory, emulator::kAllocated);
    const bool is_aligned = reinterpret_cast<uintptr_t>(memory) % alignof(V) == 0;
    if (!is_in_view || !is_in_memory || !is_aligned) [[unlikely]]
      refuse(what, index, sizeof(V), alignof(V), is_in_memory, is_in_view);
  }

  // As a device would, where it would.
  [[noreturn, gnu::noinline]] void refuse(const char* what, const emulator::Index& index, size_t bytes,
                                          size_t alignment, bool is_in_memory, bool is_in_view) const {
    const std::string access = std::string(what) + " " + std::to_string(bytes) + " bytes from element " +
                               std::to_string(static_cast<ptrdiff_t>(index.value)) + " on of " + name();
    if (!is_in_memory)
      emulator::fault(cudaErrorIllegalAddress, access + ", where nothing is allocated", index.place);
    if (!is_in_view) emulator::fault(cudaErrorLaunchFailure, access + ", beyond its end", index.place);
    emulator::fault(cudaErrorMisalignedAddress,
                    access + ", at an address that is no multiple of " + std::to_string(alignment),
                    index.place);
  }

  [[noreturn, gnu::noinline]] void unwritten(const std::byte* memory, size_t bytes,
                                             const emulator::Index& index) const {
    const size_t byte = emulator::num_written(memory, bytes);
    emulator::fault(cudaErrorLaunchFailure,
                    "reads element " + std::to_string(index.value + byte / sizeof(T)) + " of " + name() +
                        ", which was never written",
                    index.place);
  }

  std::string name() const {
    return "a view of " + std::to_string(count_) + " elements of " + std::to_string(sizeof(T)) + " bytes";
  }

  T* data_;
  size_t count_;
};

}  // namespace runnel

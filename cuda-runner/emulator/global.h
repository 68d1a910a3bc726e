// Global<T> of kernels/lang.h, with the checks of the emulator (docs/cuda.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <type_traits>

#include "cuda-runner/emulator/counters.h"
#include "cuda-runner/emulator/device_memory.h"
#include "cuda-runner/emulator/element.h"
#include "cuda-runner/emulator/fault.h"
#include "cuda-runner/emulator/global_record.h"

namespace runnel {

template <typename T>
class Global {
 public:
  using Value = std::remove_const_t<T>;

  Global() = default;
  Global(T* data, size_t count) : data_(data), count_(count) {}

  // A const element is read at once; any other may be written, so the result is an Element.
  auto operator[](emulator::Index index) const {
    if constexpr (std::is_const_v<T>) {
      return load<Value>(index);
    } else {
      return emulator::Element<Value, Global>(*this, index);
    }
  }

  template <typename V>
  V load(emulator::Index index) const {
    return read<V>(index, false);
  }
  template <typename V>
  V load_read_only(emulator::Index index) const {
    return read<V>(index, true);
  }

  template <typename V>
  void store(emulator::Index index, V value) const {
    static_assert(!std::is_const_v<T>);
    auto* const to = const_cast<std::byte*>(address_of(index));
    if (!may_be_used<V>(to, index, emulator::kAllocated)) [[unlikely]]
      refuse("writes", to, sizeof(V), alignof(V), index);
    if (!emulator::now.is_previous_complete) [[unlikely]]
      refuse_early("writes", "which an earlier launch may still use", index);
    if (emulator::address_space.records != nullptr) {
      const auto* const bytes = reinterpret_cast<const std::byte*>(&value);
      emulator::GlobalRecord* const records = emulator::records_of(to);
      for (size_t byte = 0; byte < sizeof(V); ++byte)
        if (const auto race = records[byte].write(to[byte] == bytes[byte]); race != emulator::Race::kNothing)
            [[unlikely]]
          report("writes", to, byte, race, index);
    }
    std::memcpy(to, &value, sizeof(V));
    std::memset(emulator::states_of(to), emulator::kWrittenByKernel, sizeof(V));
  }

  // Counts a block at an element, which is 0 again at `count`. Nothing else may use the element in the same
  // launch, which is not checked. Returns the address of the element.
  const void* count_up(emulator::Index index, uint32_t count) const {
    static_assert(std::is_same_v<T, uint32_t>);
    auto* const counter = const_cast<std::byte*>(address_of(index));
    if (!may_be_used<uint32_t>(counter, index, emulator::kWritten)) [[unlikely]]
      refuse("counts", counter, sizeof(uint32_t), alignof(uint32_t), index);
    if (!emulator::now.is_previous_complete) [[unlikely]]
      refuse_early("counts", "which an earlier launch may still use", index);
    uint32_t num_arrived = 0;
    std::memcpy(&num_arrived, counter, sizeof(num_arrived));
    if (++num_arrived > count) [[unlikely]]
      emulator::fault(cudaErrorLaunchFailure, index.place, "counts block %u of %u at element %td",
                      num_arrived, count, static_cast<ptrdiff_t>(index.value));
    if (num_arrived == count) num_arrived = 0;
    std::memcpy(counter, &num_arrived, sizeof(num_arrived));
    std::memset(emulator::states_of(counter), emulator::kWrittenByKernel, sizeof(num_arrived));
    return counter;
  }

  Global<const uint8_t> bytes() const {
    return {reinterpret_cast<const uint8_t*>(data_), count_ * sizeof(T)};
  }
  Global from(emulator::Index first, size_t count) const {
    if (first.value > count_ || count > count_ - first.value)
      emulator::fault(cudaErrorLaunchFailure, first.place,
                      "takes %zu elements from %td on of a view of %zu elements", count,
                      static_cast<ptrdiff_t>(first.value), count_);
    return {data_ + first.value, count};
  }

 private:
  template <typename V>
  V read(const emulator::Index& index, bool is_read_only) const {
    const std::byte* const from = address_of(index);
    if (!may_be_used<V>(from, index, emulator::kWritten)) [[unlikely]]
      refuse("reads", from, sizeof(V), alignof(V), index);
    if (!emulator::now.is_previous_complete) [[unlikely]] {
      if (!is_read_only) refuse_early("reads", "which an earlier launch may still write", index);
      if (emulator::is_any_written_by_kernel(from, sizeof(V)))
        refuse_early("reads", "which a kernel wrote", index);
    }
    if (emulator::address_space.records != nullptr) {
      emulator::GlobalRecord* const records = emulator::records_of(from);
      for (size_t byte = 0; byte < sizeof(V); ++byte)
        if (const auto race = records[byte].read(is_read_only); race != emulator::Race::kNothing) [[unlikely]]
          report("reads", from, byte, race, index);
    }
    if (emulator::counters != nullptr) [[unlikely]]
      emulator::counters->add_load(from, sizeof(V), emulator::is_all_copied(from, sizeof(V)), index.place);
    V value;
    std::memcpy(static_cast<void*>(&value), from, sizeof(V));
    return value;
  }

  const std::byte* address_of(const emulator::Index& index) const {
    return reinterpret_cast<const std::byte*>(data_) + index.value * sizeof(T);
  }
  bool is_in_view(const emulator::Index& index, size_t bytes) const {
    return index.value < count_ && (count_ - index.value) * sizeof(T) >= bytes;
  }

  // Checks bounds, alignment, and that the states of all bytes of the V at `memory` have these bits.
  template <typename V>
  bool may_be_used(const std::byte* memory, const emulator::Index& index, uint8_t bits) const {
    static_assert(std::is_trivially_copyable_v<V> && (sizeof(V) <= 8 || sizeof(V) % 8 == 0));
    emulator::count_step(index.place);
    if (!is_in_view(index, sizeof(V)) || reinterpret_cast<uintptr_t>(memory) % alignof(V) != 0 ||
        !emulator::is_in_address_space(memory, sizeof(V)) ||
        emulator::owner_of(memory) != emulator::now.device)
      return false;
    constexpr size_t kWordBytes = sizeof(V) < 8 ? sizeof(V) : 8;
    uint64_t all = 0;
    std::memset(&all, bits, kWordBytes);
    const uint8_t* const states = emulator::states_of(memory);
    for (size_t first = 0; first < sizeof(V); first += kWordBytes) {
      uint64_t word = 0;
      std::memcpy(&word, states + first, kWordBytes);
      if ((word & all) != all) return false;
    }
    return true;
  }

  // The fault of an access that may_be_used() refused. Its error is that of a real device, if a real device
  // would notice.
  [[noreturn, gnu::noinline]] void refuse(const char* what, const std::byte* memory, size_t bytes,
                                          size_t alignment, const emulator::Index& index) const {
    cudaError_t error = cudaErrorLaunchFailure;
    char why[64] = "beyond its end";
    if (!emulator::is_allocated(memory, bytes)) {
      error = cudaErrorIllegalAddress;
      std::snprintf(why, sizeof(why), "where nothing is allocated");
    } else if (is_in_view(index, bytes) && reinterpret_cast<uintptr_t>(memory) % alignment != 0) {
      error = cudaErrorMisalignedAddress;
      std::snprintf(why, sizeof(why), "at an address that is no multiple of %zu", alignment);
    } else if (emulator::owner_of(memory) != emulator::now.device) {
      error = cudaErrorIllegalAddress;
      std::snprintf(why, sizeof(why), "in the memory of device %u", emulator::owner_of(memory));
    } else if (is_in_view(index, bytes)) {
      const size_t element = index.value + emulator::num_written(memory, bytes) / sizeof(T);
      std::snprintf(why, sizeof(why), "but element %zu was never written", element);
    }
    emulator::fault(error, index.place,
                    "%s %zu bytes from element %td on of a view of %zu elements of %zu bytes, %s", what,
                    bytes, static_cast<ptrdiff_t>(index.value), count_, sizeof(T), why);
  }

  [[noreturn, gnu::noinline]] void refuse_early(const char* what, const char* why,
                                                const emulator::Index& index) const {
    emulator::fault(cudaErrorLaunchFailure, index.place,
                    "%s element %zu of a view of %zu elements of %zu bytes before wait_for_previous(), %s",
                    what, index.value, count_, sizeof(T), why);
  }

  [[noreturn, gnu::noinline]] void report(const char* what, const std::byte* memory, size_t byte,
                                          emulator::Race race, const emulator::Index& index) const {
    char why[96];
    emulator::describe(race, *emulator::records_of(memory + byte), why);
    emulator::fault(cudaErrorLaunchFailure, index.place,
                    "%s element %zu of a view of %zu elements of %zu bytes, %s", what,
                    index.value + byte / sizeof(T), count_, sizeof(T), why);
  }

  T* data_;
  size_t count_;
};

}  // namespace runnel

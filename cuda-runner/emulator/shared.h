// Shared<T, N> of kernels/lang.h, with the checks of the emulator (docs/cuda.md). __shared__ is `static`
// here, since one block runs at a time.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <type_traits>

#include "cuda-runner/emulator/access_record.h"
#include "cuda-runner/emulator/counters.h"
#include "cuda-runner/emulator/element.h"
#include "cuda-runner/emulator/fault.h"

namespace runnel {

template <typename T, size_t N>
class Shared {
 public:
  auto operator[](emulator::Index index) { return emulator::Element<T, Shared&>(*this, index); }

  template <typename V>
  V load(emulator::Index index) {
    check<V>("reads", index);
    for (size_t element = 0; element < num_elements<V>(); ++element)
      if (const auto conflict = records_[index.value + element].read();
          conflict != emulator::Conflict::kNothing) [[unlikely]]
        report("reads", index, element, conflict);
    V value;
    std::memcpy(static_cast<void*>(&value), data_ + index.value, sizeof(V));
    return value;
  }

  template <typename V>
  void store(emulator::Index index, V value) {
    begin_write<V>(index);
    std::memcpy(static_cast<void*>(data_ + index.value), &value, sizeof(V));
  }

  // Begins an asynchronous copy to the elements of a V. Returns their records, which forbid accesses until
  // the copy has been waited for.
  template <typename V>
  std::span<emulator::AccessRecord> begin_copy(emulator::Index index) {
    begin_write<V>(index);
    const std::span<emulator::AccessRecord> records(records_ + index.value, num_elements<V>());
    for (emulator::AccessRecord& record : records) record.begin_copy();
    return records;
  }
  void* copy_target(size_t index) { return data_ + index; }

 private:
  template <typename V>
  static constexpr size_t num_elements() {
    return (sizeof(V) + sizeof(T) - 1) / sizeof(T);
  }

  template <typename V>
  void begin_write(const emulator::Index& index) {
    check<V>("writes", index);
    for (size_t element = 0; element < num_elements<V>(); ++element)
      if (const auto conflict = records_[index.value + element].write();
          conflict != emulator::Conflict::kNothing) [[unlikely]]
        report("writes", index, element, conflict);
  }

  template <typename V>
  void check(const char* what, const emulator::Index& index) const {
    static_assert(std::is_trivially_copyable_v<V>);
    emulator::count_step(index.place);
    const bool is_inside = index.value < N && (N - index.value) * sizeof(T) >= sizeof(V);
    if (!is_inside) [[unlikely]]
      emulator::fault(
          cudaErrorLaunchFailure, index.place,
          "%s %zu bytes from element %td on of shared memory of %zu elements of %zu bytes, beyond "
          "its end",
          what, sizeof(V), static_cast<ptrdiff_t>(index.value), N, sizeof(T));
    if (index.value * sizeof(T) % alignof(V) != 0) [[unlikely]]
      emulator::fault(
          cudaErrorMisalignedAddress, index.place,
          "%s element %zu of shared memory of %zu elements of %zu bytes, at an address that is no "
          "multiple of %zu",
          what, index.value, N, sizeof(T), alignof(V));
    if (emulator::counters != nullptr) [[unlikely]]
      emulator::counters->add_shared(index.value * sizeof(T), sizeof(V), index.place);
  }

  [[noreturn, gnu::noinline]] void report(const char* what, const emulator::Index& index, size_t element,
                                          emulator::Conflict conflict) const {
    const size_t where = index.value + element;
    char why[64];
    emulator::describe(conflict, records_[where], why);
    emulator::fault(cudaErrorLaunchFailure, index.place,
                    "%s element %zu of shared memory of %zu elements of %zu bytes, %s", what, where, N,
                    sizeof(T), why);
  }

  alignas(16) T data_[N];
  emulator::AccessRecord records_[N];
};

}  // namespace runnel

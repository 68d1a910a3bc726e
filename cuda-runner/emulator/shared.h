// Shared<T, N> of lang.h, checked. __shared__ is `static` here: one block runs at a time.
#pragma once

#include <cstddef>
#include <cstring>
#include <string>
#include <type_traits>

#include "cuda-runner/emulator/access_record.h"
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

  // For a copy that lands later: the records of its elements, which say so until it is waited for.
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
    const bool is_inside = index.value < N && (N - index.value) * sizeof(T) >= sizeof(V);
    if (!is_inside) [[unlikely]]
      emulator::fault(cudaErrorLaunchFailure,
                      std::string(what) + " " + std::to_string(sizeof(V)) + " bytes from element " +
                          std::to_string(static_cast<ptrdiff_t>(index.value)) + " on of " + name() +
                          ", beyond its end",
                      index.place);
    if (index.value * sizeof(T) % alignof(V) != 0) [[unlikely]]
      emulator::fault(cudaErrorMisalignedAddress,
                      std::string(what) + " element " + std::to_string(index.value) + " of " + name() +
                          ", at an address that is no multiple of " + std::to_string(alignof(V)),
                      index.place);
  }

  [[noreturn, gnu::noinline]] void report(const char* what, const emulator::Index& index, size_t element,
                                          emulator::Conflict conflict) const {
    const size_t where = index.value + element;
    emulator::fault(cudaErrorLaunchFailure,
                    std::string(what) + " element " + std::to_string(where) + " of " + name() + ", " +
                        emulator::describe(conflict, records_[where]),
                    index.place);
  }

  static std::string name() {
    return "shared memory of " + std::to_string(N) + " elements of " + std::to_string(sizeof(T)) + " bytes";
  }

  alignas(16) T data_[N];
  emulator::AccessRecord records_[N];
};

}  // namespace runnel

#include "cuda-runner/device_activation.h"

#include <string>

namespace runnel {
namespace {

template <typename T>
Result<void> allocate_into(DeviceBuffer<T>& buffer, size_t count) {
  Result<DeviceBuffer<T>> allocated = DeviceBuffer<T>::allocate(count, "a step's activations");
  if (!allocated) return allocated.error();
  buffer = *std::move(allocated);
  return {};
}

}  // namespace

Result<void> DeviceActivation::allocate() {
  const size_t count = size_t{max_rows_} * stride_;
  if (const auto done = allocate_into(values_, count); !done) return done;
  if (const auto done = allocate_into(quants_, count); !done) return done;
  if (const auto done = allocate_into(scales_, count / kBlockColumns); !done) return done;
  return allocate_into(sums_, count / kBlockColumns);
}

}  // namespace runnel

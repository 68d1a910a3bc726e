#include "cuda-runner/device_activation.h"

namespace runnel {

Result<void> DeviceActivation::allocate() {
  constexpr const char* kWhat = "a step's activations";
  const size_t count = size_t{max_rows_} * stride_;
  if (const auto done = allocate_into(values_, count, kWhat); !done) return done;
  if (const auto done = allocate_into(quants_, count, kWhat); !done) return done;
  if (const auto done = allocate_into(scales_, count / kBlockColumns, kWhat); !done) return done;
  return allocate_into(sums_, count / kBlockColumns, kWhat);
}

}  // namespace runnel

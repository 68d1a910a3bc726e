#include "cuda-runner/device_activation.h"

namespace runnel {

Result<void> DeviceActivation::allocate() {
  const size_t count = size_t{max_rows_} * stride_;
  return allocate_all("a step's activations", Wanted{values_, count}, Wanted{quants_, count},
                      Wanted{scales_, count / kBlockColumns}, Wanted{sums_, count / kBlockColumns},
                      Wanted{half_sums_, count / kBlockColumns});
}

}  // namespace runnel

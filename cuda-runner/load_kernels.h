// All kernels on the device, before anything is captured.
#pragma once

namespace runnel {

// Once, when the device is open. Ends as expect_success does where it fails.
void load_kernels();

}  // namespace runnel

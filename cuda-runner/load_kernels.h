#pragma once

#include "runner/backend/decoder_spec.h"
#include "runner/backend/kv_type.h"

namespace runnel {

// Loads the kernels that compute this model on the device. Called before any graph is captured
// (kernels/load.h). Ends the process as expect_success does if it fails.
void load_kernels(const DecoderSpec& spec, KvType kv_type);

}  // namespace runnel

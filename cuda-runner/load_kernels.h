#pragma once

#include <set>

#include "runner/backend/decoder_spec.h"
#include "runner/backend/kv_type.h"
#include "runner/formats/tensor_type.h"

namespace runnel {

// Loads the kernels that compute this model, whose matrices have these types, on the current device, which
// has the heads of `attention`. Called before any graph is captured (kernels/load.h). Ends the process as
// expect_success does if it fails.
void load_kernels(const DecoderSpec& spec, const AttentionShape& attention,
                  const std::set<TensorType>& weight_types, KvType kv_type);

}  // namespace runnel

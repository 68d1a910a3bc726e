// Models in which every n-th layer sees all positions and the others have a window: layer_window
// (kv_groups.h) says which.
#pragma once

#include "runner/models/hyper_parameters.h"
#include "runner/models/model.h"

namespace runnel {

// The window must have been read. usual_every: n, if the file does not say it. Fails with kBadModel; the
// message names the key.
Result<void> read_mixed_windows(const HyperParameters& parameters, uint32_t usual_every, ModelConfig& config);

}  // namespace runnel

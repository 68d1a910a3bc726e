// The hyper-parameters of layers with experts. LayerTensors has their weights.
#pragma once

#include "runner/models/hyper_parameters.h"
#include "runner/models/model.h"

namespace runnel {

// width_key: of the width of one expert. Fails with kBadModel; the message names the key.
Result<void> read_experts(const HyperParameters& parameters, const char* width_key, ModelConfig& config);

}  // namespace runnel

// GLM-4-0414 (GLM team 2024, arXiv 2406.12793): norms before and after products, and a rope of a part of each
// head.
#pragma once

#include "runner/backend/decoder_spec.h"
#include "runner/models/hyper_parameters.h"
#include "runner/models/model.h"
#include "runner/models/weight_loader.h"

namespace runnel {

// Refuses variants that read more than text. Fails with kBadModel; the message names the key.
Result<void> read_glm4(const HyperParameters& parameters, ModelConfig& config);

// config must have been read and checked. The loader keeps the first error.
DecoderSpec glm4_spec(const ModelConfig& config, WeightLoader& loader);

}  // namespace runnel

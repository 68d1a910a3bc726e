// OLMo 2: Team OLMo 2024 (arXiv 2501.00656).
#pragma once

#include "runner/backend/decoder_spec.h"
#include "runner/models/hyper_parameters.h"
#include "runner/models/model.h"
#include "runner/models/weight_loader.h"

namespace runnel {

// Refuses OLMo 3, whose GGUF files have the same architecture and a window. Fails with kBadModel.
Result<void> read_olmo2(const HyperParameters& parameters, ModelConfig& config);

// config must have been read and checked. The loader keeps the first error.
DecoderSpec olmo2_spec(const ModelConfig& config, WeightLoader& loader);

}  // namespace runnel

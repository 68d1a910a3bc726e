// Gemma 2 and 3: Gemma Team 2024 (arXiv 2408.00118) and 2025 (arXiv 2503.19786).
#pragma once

#include "runner/backend/decoder_spec.h"
#include "runner/models/hyper_parameters.h"
#include "runner/models/model.h"
#include "runner/models/weight_loader.h"

namespace runnel {

// Fail with kBadModel; the message names the key.
Result<void> read_gemma2(const HyperParameters& parameters, ModelConfig& config);
Result<void> read_gemma3(const HyperParameters& parameters, ModelConfig& config);

// config must have been read and checked. The loader keeps the first error.
DecoderSpec gemma2_spec(const ModelConfig& config, WeightLoader& loader);
DecoderSpec gemma3_spec(const ModelConfig& config, WeightLoader& loader);

}  // namespace runnel

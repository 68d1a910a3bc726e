// gpt-oss: OpenAI 2025 (arXiv 2508.10925): experts with biases and a clamped gate, a sink beside the scores
// of each head, and a window in every second layer.
#pragma once

#include "runner/backend/decoder_spec.h"
#include "runner/models/hyper_parameters.h"
#include "runner/models/model.h"
#include "runner/models/weight_loader.h"

namespace runnel {

// Fails with kBadModel; the message names the key.
Result<void> read_gpt_oss(const HyperParameters& parameters, ModelConfig& config);

// config must have been read and checked. The loader keeps the first error.
DecoderSpec gpt_oss_spec(const ModelConfig& config, WeightLoader& loader);

}  // namespace runnel

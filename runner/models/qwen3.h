// Qwen3, with experts and without: Yang et al. 2025 (arXiv 2505.09388): llama with a norm of each head of
// queries and keys.
#pragma once

#include "runner/backend/decoder_spec.h"
#include "runner/models/hyper_parameters.h"
#include "runner/models/model.h"
#include "runner/models/weight_loader.h"

namespace runnel {

// Reads the experts. Fails with kBadModel; the message names the key.
Result<void> read_qwen3moe(const HyperParameters& parameters, ModelConfig& config);

// config must have been read and checked. The loader keeps the first error.
DecoderSpec qwen3_spec(const ModelConfig& config, WeightLoader& loader);

}  // namespace runnel

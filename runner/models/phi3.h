// Phi-3: Abdin et al. 2024 (arXiv 2404.14219): llama with fused matrices, and LongRoPE (arXiv 2402.13753).
#pragma once

#include "runner/backend/decoder_spec.h"
#include "runner/models/hyper_parameters.h"
#include "runner/models/model.h"
#include "runner/models/weight_loader.h"

namespace runnel {

// Fails with kBadModel; the message names the key.
Result<void> read_phi3(const HyperParameters& parameters, ModelConfig& config);

// config must have been read and checked. The loader keeps the first error.
DecoderSpec phi3_spec(const ModelConfig& config, WeightLoader& loader);

}  // namespace runnel

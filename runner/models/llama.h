// LLaMA: Touvron et al. 2023 (arXiv 2302.13971), with grouped-query attention as in Llama 2 (arXiv
// 2307.09288). With experts it is Mixtral: Jiang et al. 2024 (arXiv 2401.04088).
#pragma once

#include "runner/backend/decoder_spec.h"
#include "runner/models/hyper_parameters.h"
#include "runner/models/model.h"
#include "runner/models/weight_loader.h"

namespace runnel {

// Reads the experts, if there are any. Fails with kBadModel; the message names the key.
Result<void> read_llama(const HyperParameters& parameters, ModelConfig& config);

// config must have been read and checked. The loader keeps the first error.
DecoderSpec llama_spec(const ModelConfig& config, WeightLoader& loader);

}  // namespace runnel

// LLaMA: Touvron et al. 2023 (arXiv 2302.13971), with grouped-query attention as in Llama 2 (arXiv
// 2307.09288).
#pragma once

#include "runner/backend/decoder_spec.h"
#include "runner/models/model.h"
#include "runner/models/weight_loader.h"

namespace runnel {

// config must have been read and checked. The loader keeps the first error.
DecoderSpec llama_spec(const ModelConfig& config, WeightLoader& loader);

}  // namespace runnel

// Qwen2 and Qwen2.5: Yang et al. 2024 (arXiv 2407.10671): llama with biases of queries, keys and values.
#pragma once

#include "runner/backend/decoder_spec.h"
#include "runner/models/hyper_parameters.h"
#include "runner/models/model.h"
#include "runner/models/weight_loader.h"

namespace runnel {

// config must have been read and checked. The loader keeps the first error.
DecoderSpec qwen2_spec(const ModelConfig& config, WeightLoader& loader);

}  // namespace runnel

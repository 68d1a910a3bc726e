// SmolLM3: Bakouch et al. 2025: llama whose every fourth layer rotates nothing.
#pragma once

#include "runner/backend/decoder_spec.h"
#include "runner/models/model.h"
#include "runner/models/weight_loader.h"

namespace runnel {

// config must have been read and checked. The loader keeps the first error.
DecoderSpec smollm3_spec(const ModelConfig& config, WeightLoader& loader);

}  // namespace runnel

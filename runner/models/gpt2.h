// GPT-2: Radford et al. 2019, Language Models are Unsupervised Multitask Learners.
#pragma once

#include "runner/backend/decoder_spec.h"
#include "runner/models/hyper_parameters.h"
#include "runner/models/model.h"
#include "runner/models/weight_loader.h"

namespace runnel {

// Fails with kBadModel; the message names the key.
Result<void> read_gpt2(const HyperParameters& parameters, ModelConfig& config);

// config must have been read and checked. The loader keeps the first error.
DecoderSpec gpt2_spec(const ModelConfig& config, WeightLoader& loader);

}  // namespace runnel

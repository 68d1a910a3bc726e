// Granite 3 (IBM 2024): llama with four constant factors: of embeddings, of what is added to the residual
// stream, of attention's products and of logits.
#pragma once

#include "runner/backend/decoder_spec.h"
#include "runner/models/hyper_parameters.h"
#include "runner/models/model.h"
#include "runner/models/weight_loader.h"

namespace runnel {

// Reads the factors. Fails with kBadModel; the message names the key.
Result<void> read_granite(const HyperParameters& parameters, ModelConfig& config);

// config must have been read and checked. The loader keeps the first error.
DecoderSpec granite_spec(const ModelConfig& config, WeightLoader& loader);

}  // namespace runnel

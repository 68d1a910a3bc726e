// BERT: Devlin et al. 2018, BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding.
// An encoder: its rows see each other, and the norm comes after each sum. And a variant of it: Nussbaum et
// al. 2024, Nomic Embed: Training a Reproducible Long Context Text Embedder, which rotates heads.
#pragma once

#include "runner/backend/decoder_spec.h"
#include "runner/models/hyper_parameters.h"
#include "runner/models/model.h"
#include "runner/models/weight_loader.h"

namespace runnel {

// Fails with kBadModel; the message names the key.
Result<void> read_bert(const HyperParameters& parameters, ModelConfig& config);
Result<void> read_nomic_bert(const HyperParameters& parameters, ModelConfig& config);

// config must have been read and checked. The loader keeps the first error.
DecoderSpec bert_spec(const ModelConfig& config, WeightLoader& loader);
DecoderSpec nomic_bert_spec(const ModelConfig& config, WeightLoader& loader);

}  // namespace runnel

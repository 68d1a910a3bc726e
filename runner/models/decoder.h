// A decoder: token embedding, layers of attention and feed-forward around a residual stream, head. The parts
// are described as data (runner/backend/decoder_spec.h), and the backend computes them.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "runner/backend/backend.h"
#include "runner/models/classifier.h"
#include "runner/models/model.h"

namespace runnel {

class Decoder final : public Model {
 public:
  // Prepares the backend, which holds the weights of the spec and must outlive the decoder. Fails as
  // Backend::prepare does.
  static Result<std::unique_ptr<Model>> create(const ModelConfig& config, DecoderSpec spec, Backend& backend,
                                               const StepLimits& limits);

  const ModelConfig& config() const override { return config_; }
  void forward(Batch& batch, const BetweenLayers& between_layers) override;
  LogitRows& logits(std::span<const HeadRow> rows) override { return backend_.head(spec_.head, rows); }
  std::vector<float> states(std::span<const uint32_t> rows) override {
    std::vector<float> states = backend_.read_states(spec_.head.norm, rows);
    for (float& value : states) value *= spec_.head.divisor;
    return states;
  }
  float classify(std::span<const float> state) const override {
    return runnel::classify(spec_.classifier, state);
  }

 private:
  Decoder(const ModelConfig& config, DecoderSpec spec, Backend& backend)
      : config_(config), spec_(std::move(spec)), backend_(backend) {
    config_.num_token_types = spec_.embedding.num_types;
    config_.has_classifier = static_cast<bool>(spec_.classifier);
  }

  ModelConfig config_;
  DecoderSpec spec_;  // the backend reads it
  Backend& backend_;
};

}  // namespace runnel

// A model that several ranks compute. The leader's engine has it; each call is told to the others, which make
// the same call of their own model in follow().
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "runner/models/model.h"
#include "runner/ranks/rank_group.h"
#include "runner/result.h"

namespace runnel {

class LeadingModel final : public Model {
 public:
  // model: this rank's part. ranks must outlive this.
  LeadingModel(std::unique_ptr<Model> model, RankGroup& ranks) : model_(std::move(model)), ranks_(ranks) {}

  const ModelConfig& config() const override { return model_->config(); }
  void forward(Batch& batch, const BetweenLayers& between_layers) override;
  LogitRows& logits(std::span<const HeadRow> rows) override;
  // The leader has all hidden states.
  std::vector<float> states(std::span<const uint32_t> rows) override { return model_->states(rows); }
  float classify(std::span<const float> state) const override { return model_->classify(state); }

 private:
  std::unique_ptr<Model> model_;
  RankGroup& ranks_;
};

// Computes what the leader tells, until it ends.
void follow(Model& model, RankGroup& ranks);

}  // namespace runnel

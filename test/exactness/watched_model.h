// A model that records a hash of every row of logits that it returns, by request and position.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "runner/engine/scheduler.h"
#include "runner/models/model.h"

namespace runnel::exactness {

class WatchedModel final : public Model {
 public:
  // The model must outlive this one.
  WatchedModel(Model& model, bool reads_logits) : model_(model), reads_logits_(reads_logits) {}

  // Says which requests the next forward pass computes.
  void expect(const Plan& plan);

  const ModelConfig& config() const override { return model_.config(); }
  void forward(Batch& batch, const BetweenLayers& between_layers) override;
  LogitRows& logits(std::span<const HeadRow> rows) override;
  std::vector<float> states(std::span<const uint32_t> rows) override { return model_.states(rows); }
  float classify(std::span<const float> state) const override { return model_.classify(state); }

  // The hash of the logits after the token at this position of the request, if logits are read.
  std::optional<uint64_t> logits_hash(uint32_t request_id, uint32_t position) const {
    if (!reads_logits_) return std::nullopt;
    return hashes_.at({request_id, position});
  }

 private:
  using Place = std::pair<uint32_t, uint32_t>;  // request, position

  Model& model_;
  bool reads_logits_;
  std::vector<uint32_t> request_ids_;  // by sequence of the batch
  std::vector<Place> places_;          // by row of the batch
  std::map<Place, uint64_t> hashes_;
};

}  // namespace runnel::exactness

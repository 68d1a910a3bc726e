// A backend that forwards to another one and keeps the data that flows through the first layer.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "runner/backend/forwarding_backend.h"

namespace runnel {

class LayerWatch final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;

  // The data of the last pass: "norm", "qkv", "cache", "attended", "attention", "ffn_norm", "gated", "ffn",
  // "block". cache has keys, then values, (2, positions, kv heads, head_dim). In qkv, queries are rotated,
  // and keys may be. A model with experts has no "gated".
  const std::map<std::string, std::vector<float>>& values() const { return values_; }
  // The attention of the first layer.
  const AttentionShape& attention() const { return attention_; }
  // Whether the first layer changes keys between product and cache, by a norm or by rotation.
  bool changes_keys() const { return changes_keys_; }

  Result<void> prepare(const DecoderSpec& spec, const StepLimits& limits) override;
  void qkv(const Batch& batch, const LayerSpec& layer) override;
  void attend(const Batch& batch, const LayerSpec& layer) override;
  void project(const Batch& batch, const ProjectSpec& project) override;
  void ffn(const Batch& batch, const FfnSpec& ffn) override;

 private:
  void keep(const std::string& name, Flow flow, const Batch& batch) {
    values_[name] = backend_.flows().read_rows(flow, batch.num_rows());
  }

  std::map<std::string, std::vector<float>> values_;
  AttentionShape attention_{};
  bool changes_keys_ = false;
  bool is_first_layer_ = false;
};

}  // namespace runnel

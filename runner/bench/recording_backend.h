// A backend that forwards to another one and records each operation of a forward pass, with the bytes that it
// must move, so that the operation can be run again by itself.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runner/backend/forwarding_backend.h"

namespace runnel {

// An operation with its arguments.
struct RecordedOperation {
  // "qkv attn_norm attn_q attn_k attn_v": the tensors' names, which are the same for all layers.
  std::string name;
  bool stores_kv = false;
  std::function<void(const Batch&)> run;

  // Bytes that the operation must move, whatever caches there are: weights as in the file, keys and values as
  // in the cache, activations as floats.
  uint64_t weight_bytes = 0;
  uint64_t row_bytes = 0;       // for each row
  uint64_t position_bytes = 0;  // for each row and each position that it sees
  uint64_t bytes(uint64_t num_rows, uint64_t num_positions) const {
    return weight_bytes + num_rows * (row_bytes + num_positions * position_bytes);
  }

  // Products of numbers that are added up, those of weights and of attention.
  uint64_t row_products = 0;
  uint64_t position_products = 0;
  // Multiplications and additions.
  uint64_t operations(uint64_t num_rows, uint64_t num_positions) const {
    return 2 * num_rows * (row_products + num_positions * position_products);
  }
};

class RecordingBackend final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;

  // In the order in which the model called them.
  const std::vector<RecordedOperation>& operations() const { return operations_; }

  Result<WeightHandle> load_matrix(std::span<const TensorView> stacked) override;
  Result<WeightHandle> load_vector(const std::string& name, std::span<const float> values) override;
  Result<void> prepare(const DecoderSpec& spec, const StepLimits& limits) override;
  Result<void> allocate_kv(const KvShape& shape) override;

  void embed(const Batch& batch, const EmbeddingSpec& embedding) override;
  void qkv(const Batch& batch, const LayerSpec& layer) override;
  void attend(const Batch& batch, const LayerSpec& layer) override;
  void project(const Batch& batch, const ProjectSpec& project) override;
  void ffn(const Batch& batch, const FfnSpec& ffn) override;
  // Recorded for all rows of the batch, without draws.
  LogitRows& head(const HeadSpec& head, std::span<const HeadRow> rows) override;

 private:
  struct Weight {
    std::string names;
    uint64_t rows;
    uint64_t bytes;
    uint64_t count = 0;  // of a matrix's weights
  };
  void record(RecordedOperation operation) { operations_.push_back(std::move(operation)); }
  const Weight& weight(WeightHandle handle) const { return weights_.at(handle.index); }
  // The names of a weight, each with a space in front, and its bytes; "" and 0 if there is no weight.
  std::string names(WeightHandle handle) const { return handle ? weight(handle).names : ""; }
  uint64_t bytes(WeightHandle handle) const { return handle ? weight(handle).bytes : 0; }
  // Those that a row is multiplied by: of experts, the ones that it uses.
  uint64_t products(WeightHandle handle, const ExpertsSpec& experts = {}) const {
    const uint64_t count = weight(handle).count;
    return experts.num_experts == 0 ? count : count / experts.num_experts * experts.num_used;
  }

  std::map<int32_t, Weight> weights_;
  DecoderWidths widths_{};
  uint64_t kv_position_bytes_ = 0;  // for one position in a layer
  std::vector<RecordedOperation> operations_;
};

}  // namespace runnel

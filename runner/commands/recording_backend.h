// A backend that computes what the one behind it computes, and keeps what each operation of a forward pass
// was: to be asked for again, alone, and with what it has to read and write.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runner/check.h"
#include "runner/forwarding_backend.h"

namespace runnel {

// An operation with its arguments.
struct RecordedOperation {
  std::string name;  // "linear attn_q attn_k attn_v": tensors of all layers alike
  bool stores_kv = false;
  std::function<void(const Batch&)> run;

  // Bytes that it cannot but move, however many caches there are: weights as the file has them, keys and
  // values as the cache has them, activations as floats.
  uint64_t weight_bytes = 0;
  uint64_t row_bytes = 0;       // of a row
  uint64_t position_bytes = 0;  // of a row, for each position it sees
  uint64_t bytes(uint64_t num_rows, uint64_t num_positions) const {
    return weight_bytes + num_rows * (row_bytes + num_positions * position_bytes);
  }
};

class RecordingBackend final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;

  // In the order in which the model asked for them.
  const std::vector<RecordedOperation>& operations() const { return operations_; }

  Result<WeightHandle> load_matrix(std::span<const TensorView> stacked) override;
  Result<WeightHandle> load_vector(const TensorView& vector) override;
  ActivationHandle new_activation(uint32_t width) override;
  Result<void> allocate_head(WeightHandle weight) override;
  Result<void> allocate_kv(const KvShape& shape) override;

  void embed(const Batch& batch, WeightHandle table, ActivationHandle out) override;
  void norm(const Batch& batch, ActivationHandle in, WeightHandle gain, float epsilon,
            ActivationHandle out) override;
  void linear(const Batch& batch, ActivationHandle in, WeightHandle weight, WeightHandle bias, Into into,
              ActivationHandle out) override;
  void glu(const Batch& batch, ActivationHandle in, WeightHandle gate_up, ActivationHandle out) override;
  void rope_store(const Batch& batch, uint32_t layer, const AttentionShape& shape, const Rope& rope,
                  ActivationHandle qkv) override;
  void attend(const Batch& batch, uint32_t layer, const AttentionShape& shape, ActivationHandle qkv,
              ActivationHandle out) override;
  // Its norm and its product, of all rows of the last batch; there are no logits to look at.
  LogitRows& head(ActivationHandle in, std::span<const uint32_t> rows, WeightHandle gain, float epsilon,
                  WeightHandle weight) override;

 private:
  struct Weight {
    std::string names;
    uint64_t columns;
    uint64_t rows;
    uint64_t bytes;
  };
  class NoLogits final : public LogitRows {
   public:
    std::vector<std::optional<uint32_t>> draw(std::span<const Draw>) override { CHECK(false); }
    void fetch(std::span<const uint32_t>) override { CHECK(false); }
    std::span<const float> row(uint32_t) override { CHECK(false); }
  };

  Result<WeightHandle> note(Result<WeightHandle> handle, std::span<const TensorView> tensors);
  void record(const Batch& batch, RecordedOperation operation);
  uint64_t width(ActivationHandle handle) const { return widths_.at(handle.index); }
  const Weight& weight(WeightHandle handle) const { return weights_.at(handle.index); }

  std::map<int32_t, Weight> weights_;
  std::map<int32_t, uint64_t> widths_;
  uint64_t kv_position_bytes_ = 0;  // of a position in a layer
  ActivationHandle head_input_;
  ActivationHandle head_output_;
  NoLogits no_logits_;
  const Batch* batch_ = nullptr;  // the last one
  std::vector<RecordedOperation> operations_;
};

}  // namespace runnel

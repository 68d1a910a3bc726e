// A backend that forwards every call to another one. Subclasses override the calls that they observe.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "runner/backend/backend.h"

namespace runnel {

class ForwardingBackend : public Backend {
 public:
  // The other backend must outlive this.
  explicit ForwardingBackend(Backend& backend) : backend_(backend) {}

  ComputeDevice& device() override { return backend_.device(); }
  std::string numerics_id() const override { return backend_.numerics_id(); }

  Result<uint64_t> matrix_bytes(std::span<const TensorView> stacked) const override {
    return backend_.matrix_bytes(stacked);
  }
  uint64_t kv_block_bytes(const KvShape& shape) const override { return backend_.kv_block_bytes(shape); }
  Result<StepMemory> step_memory(const DecoderSpec& spec, const StepLimits& limits,
                                 const KvShape& shape) const override {
    return backend_.step_memory(spec, limits, shape);
  }

  Result<void> share(const DecoderSpec& spec) override { return backend_.share(spec); }
  Result<void> expect_weights(uint64_t bytes, const std::string& identity) override {
    return backend_.expect_weights(bytes, identity);
  }
  bool needs_values() const override { return backend_.needs_values(); }
  Result<WeightHandle> load_matrix(std::span<const TensorView> stacked) override {
    return backend_.load_matrix(stacked);
  }
  Result<WeightHandle> load_vector(const std::string& name, std::span<const float> values) override {
    return backend_.load_vector(name, values);
  }
  Result<void> prepare(const DecoderSpec& spec, const StepLimits& limits) override {
    return backend_.prepare(spec, limits);
  }
  Result<void> allocate_kv(const KvShape& shape) override { return backend_.allocate_kv(shape); }
  uint64_t weights_bytes() const override { return backend_.weights_bytes(); }
  uint32_t num_graphs(uint32_t max_sequences) const override { return backend_.num_graphs(max_sequences); }

  void begin_forward(const Batch& batch) override { backend_.begin_forward(batch); }
  void end_forward() override { backend_.end_forward(); }
  void embed(const Batch& batch, const EmbeddingSpec& embedding) override {
    backend_.embed(batch, embedding);
  }
  void qkv(const Batch& batch, const LayerSpec& layer) override { backend_.qkv(batch, layer); }
  void attend(const Batch& batch, const LayerSpec& layer) override { backend_.attend(batch, layer); }
  void project(const Batch& batch, const ProjectSpec& project) override { backend_.project(batch, project); }
  void ffn(const Batch& batch, const FfnSpec& ffn) override { backend_.ffn(batch, ffn); }
  LogitRows& head(const HeadSpec& head, std::span<const HeadRow> rows) override {
    return backend_.head(head, rows);
  }
  std::vector<float> read_states(const NormSpec& norm, std::span<const uint32_t> rows) override {
    return backend_.read_states(norm, rows);
  }
  uint64_t num_rows_ahead() const override { return backend_.num_rows_ahead(); }
  FlowReader& flows() override { return backend_.flows(); }

 protected:
  Backend& backend_;
};

}  // namespace runnel

// A backend that leaves everything to the one behind it: for those that do something besides.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "runner/backend.h"

namespace runnel {

class ForwardingBackend : public Backend {
 public:
  // The other one outlives this.
  explicit ForwardingBackend(Backend& backend) : backend_(backend) {}

  std::string device() const override { return backend_.device(); }
  std::string numerics_id() const override { return backend_.numerics_id(); }

  Result<void> expect_weights(uint64_t bytes) override { return backend_.expect_weights(bytes); }
  Result<WeightHandle> load_matrix(std::span<const TensorView> stacked) override {
    return backend_.load_matrix(stacked);
  }
  Result<WeightHandle> load_vector(const TensorView& vector) override { return backend_.load_vector(vector); }
  ActivationHandle new_activation(uint32_t width) override { return backend_.new_activation(width); }
  Result<void> allocate_head(WeightHandle weight) override { return backend_.allocate_head(weight); }
  void set_max_rows(uint32_t max_rows, uint32_t max_head_rows) override {
    backend_.set_max_rows(max_rows, max_head_rows);
  }
  uint64_t kv_block_bytes(const KvShape& shape) const override { return backend_.kv_block_bytes(shape); }
  Result<void> allocate_kv(const KvShape& shape) override { return backend_.allocate_kv(shape); }
  uint64_t free_memory_bytes() const override { return backend_.free_memory_bytes(); }
  uint64_t weights_bytes() const override { return backend_.weights_bytes(); }

  std::vector<double> seconds_of(const std::function<void()>& work, uint32_t num_times) override {
    return backend_.seconds_of(work, num_times);
  }
  Result<std::vector<double>> seconds_of_copy(uint64_t bytes, uint32_t num_times) override {
    return backend_.seconds_of_copy(bytes, num_times);
  }

  void begin_forward(const Batch& batch) override { backend_.begin_forward(batch); }
  void end_forward() override { backend_.end_forward(); }
  void embed(const Batch& batch, WeightHandle table, ActivationHandle out) override {
    backend_.embed(batch, table, out);
  }
  void norm(const Batch& batch, ActivationHandle in, WeightHandle gain, float epsilon,
            ActivationHandle out) override {
    backend_.norm(batch, in, gain, epsilon, out);
  }
  void linear(const Batch& batch, ActivationHandle in, WeightHandle weight, WeightHandle bias, Into into,
              ActivationHandle out) override {
    backend_.linear(batch, in, weight, bias, into, out);
  }
  void glu(const Batch& batch, ActivationHandle in, WeightHandle gate_up, ActivationHandle out) override {
    backend_.glu(batch, in, gate_up, out);
  }
  void rope_store(const Batch& batch, uint32_t layer, const AttentionShape& shape, const Rope& rope,
                  ActivationHandle qkv) override {
    backend_.rope_store(batch, layer, shape, rope, qkv);
  }
  void attend(const Batch& batch, uint32_t layer, const AttentionShape& shape, ActivationHandle qkv,
              ActivationHandle out) override {
    backend_.attend(batch, layer, shape, qkv, out);
  }
  LogitRows& head(ActivationHandle in, std::span<const uint32_t> rows, WeightHandle gain, float epsilon,
                  WeightHandle weight) override {
    return backend_.head(in, rows, gain, epsilon, weight);
  }

 protected:
  Backend& backend_;
};

}  // namespace runnel

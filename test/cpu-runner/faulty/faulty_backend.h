// A backend that computes what the one behind it computes, until the fault.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "runner/backend.h"
#include "test/cpu-runner/faulty/fault.h"

namespace runnel::faulty {

class FaultyBackend final : public Backend {
 public:
  FaultyBackend(std::unique_ptr<Backend> backend, Fault fault)
      : backend_(std::move(backend)), fault_(fault) {}

  std::string device() const override { return backend_->device(); }
  // Its own: it computes the same bits.
  std::string numerics_id() const override { return backend_->numerics_id(); }

  Result<void> expect_weights(uint64_t bytes) override { return backend_->expect_weights(bytes); }
  Result<WeightHandle> load_matrix(std::span<const TensorView> stacked) override;
  Result<WeightHandle> load_vector(const TensorView& vector) override;
  ActivationHandle new_activation(uint32_t width) override { return backend_->new_activation(width); }
  Result<void> allocate_head(WeightHandle weight) override { return backend_->allocate_head(weight); }
  void set_max_rows(uint32_t max_rows, uint32_t max_head_rows) override {
    backend_->set_max_rows(max_rows, max_head_rows);
  }
  uint64_t kv_block_bytes(const KvShape& shape) const override { return backend_->kv_block_bytes(shape); }
  Result<void> allocate_kv(const KvShape& shape) override { return backend_->allocate_kv(shape); }
  uint64_t free_memory_bytes() const override { return backend_->free_memory_bytes(); }
  uint64_t weights_bytes() const override { return backend_->weights_bytes(); }

  void begin_forward(const Batch& batch) override { backend_->begin_forward(batch); }
  void end_forward() override { backend_->end_forward(); }
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
  LogitRows& head(ActivationHandle in, std::span<const uint32_t> rows, WeightHandle gain, float epsilon,
                  WeightHandle weight) override;

 private:
  void count_load() { fault_.at(Moment::kLoad, num_loads_++, position_); }
  void count_operation() { fault_.at(Moment::kOperation, num_operations_++, position_); }

  std::unique_ptr<Backend> backend_;
  Fault fault_;
  uint32_t position_ = 0;  // the last one of the forward pass
  uint64_t num_loads_ = 0;
  uint64_t num_steps_ = 0;
  uint64_t num_operations_ = 0;
};

}  // namespace runnel::faulty

#include "test/cpu-runner/faulty/faulty_backend.h"

namespace runnel::faulty {

Result<WeightHandle> FaultyBackend::load_matrix(std::span<const TensorView> stacked) {
  count_load();
  return backend_.load_matrix(stacked);
}

Result<WeightHandle> FaultyBackend::load_vector(const TensorView& vector) {
  count_load();
  return backend_.load_vector(vector);
}

// Every forward pass begins with it, so what the steps before have made is in the pipe.
void FaultyBackend::embed(const Batch& batch, WeightHandle table, ActivationHandle out) {
  position_ = batch.positions.back();
  fault_.at(Moment::kStep, num_steps_++, position_);
  for (const uint32_t id : batch.token_ids) fault_.at(Moment::kToken, id, position_);
  count_operation();
  backend_.embed(batch, table, out);
}

void FaultyBackend::norm(const Batch& batch, ActivationHandle in, WeightHandle gain, float epsilon,
                         ActivationHandle out) {
  count_operation();
  backend_.norm(batch, in, gain, epsilon, out);
}

void FaultyBackend::linear(const Batch& batch, ActivationHandle in, WeightHandle weight, WeightHandle bias,
                           Into into, ActivationHandle out) {
  count_operation();
  backend_.linear(batch, in, weight, bias, into, out);
}

void FaultyBackend::glu(const Batch& batch, ActivationHandle in, WeightHandle gate_up, ActivationHandle out) {
  count_operation();
  backend_.glu(batch, in, gate_up, out);
}

void FaultyBackend::rope_store(const Batch& batch, uint32_t layer, const AttentionShape& shape,
                               const Rope& rope, ActivationHandle qkv) {
  count_operation();
  backend_.rope_store(batch, layer, shape, rope, qkv);
}

void FaultyBackend::attend(const Batch& batch, uint32_t layer, const AttentionShape& shape,
                           ActivationHandle qkv, ActivationHandle out) {
  count_operation();
  backend_.attend(batch, layer, shape, qkv, out);
}

LogitRows& FaultyBackend::head(ActivationHandle in, std::span<const uint32_t> rows, WeightHandle gain,
                               float epsilon, WeightHandle weight) {
  count_operation();
  return backend_.head(in, rows, gain, epsilon, weight);
}

}  // namespace runnel::faulty

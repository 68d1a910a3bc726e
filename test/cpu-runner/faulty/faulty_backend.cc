#include "test/cpu-runner/faulty/faulty_backend.h"

namespace runnel::faulty {

Result<WeightHandle> FaultyBackend::load_matrix(std::span<const TensorView> stacked) {
  count_load();
  return backend_.load_matrix(stacked);
}

Result<WeightHandle> FaultyBackend::load_vector(const std::string& name, std::span<const float> values) {
  count_load();
  return backend_.load_vector(name, values);
}

// Every forward pass begins with embed, and the results of earlier steps are in the pipe by then.
void FaultyBackend::embed(const Batch& batch, const EmbeddingSpec& embedding) {
  position_ = batch.positions.back();
  fault_.at(Moment::kStep, num_steps_++, position_);
  for (const uint32_t id : batch.token_ids) fault_.at(Moment::kToken, id, position_);
  backend_.embed(batch, embedding);
}

}  // namespace runnel::faulty

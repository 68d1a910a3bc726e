// A backend that passes all calls to another backend, until the fault.
#pragma once

#include <memory>
#include <utility>

#include "runner/backend/forwarding_backend.h"
#include "test/cpu-runner/faulty/fault.h"

namespace runnel::faulty {

class FaultyBackend final : public ForwardingBackend {
 public:
  FaultyBackend(std::unique_ptr<Backend> backend, Fault fault)
      : ForwardingBackend(*backend), owned_(std::move(backend)), fault_(fault) {}

  Result<WeightHandle> load_matrix(std::span<const TensorView> stacked) override;
  Result<WeightHandle> load_vector(const std::string& name, std::span<const float> values) override;
  void embed(const Batch& batch, const EmbeddingSpec& embedding) override;

 private:
  void count_load() { fault_.at(Moment::kLoad, num_loads_++, position_); }

  std::unique_ptr<Backend> owned_;
  Fault fault_;
  uint32_t position_ = 0;  // last position of the forward pass
  uint64_t num_loads_ = 0;
  uint64_t num_steps_ = 0;
};

}  // namespace runnel::faulty

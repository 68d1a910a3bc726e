#include "runner/commands/memory_plan.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "runner/backend/forwarding_backend.h"
#include "runner/system/process_memory.h"

namespace runnel {
namespace {

// A device on which the weights are counted as loaded.
class PlannedDevice final : public ComputeDevice {
 public:
  // weights_bytes is read at each call.
  PlannedDevice(ComputeDevice& device, const uint64_t& weights_bytes)
      : device_(device), weights_bytes_(weights_bytes) {}

  std::string name() const override { return device_.name(); }
  uint64_t free_memory_bytes() const override {
    return device_.free_memory_bytes() - std::min(device_.free_memory_bytes(), weights_bytes_);
  }
  uint64_t total_memory_bytes() const override { return device_.total_memory_bytes(); }
  std::vector<double> seconds_of(const std::function<void()>& work, uint32_t num_times) override {
    return device_.seconds_of(work, num_times);
  }
  Result<std::vector<double>> seconds_of_copy(uint64_t bytes, uint32_t num_times) override {
    return device_.seconds_of_copy(bytes, num_times);
  }

 private:
  ComputeDevice& device_;
  const uint64_t& weights_bytes_;
};

// A backend that takes only samples of the weights, to find out whether they are supported, and adds up the
// memory that all of them would take.
class PlanningBackend final : public ForwardingBackend {
 public:
  PlanningBackend(std::unique_ptr<Backend> backend, bool uses_gpu)
      : ForwardingBackend(*backend),
        owned_(std::move(backend)),
        uses_gpu_(uses_gpu),
        available_(uses_gpu ? backend_.device().free_memory_bytes() : available_memory_bytes()),
        planned_device_(backend_.device(), weights_) {}

  // The size of the KV cache depends on what the weights leave.
  ComputeDevice& device() override { return planned_device_; }

  Result<void> expect_weights(uint64_t, const std::string&) override { return {}; }

  Result<WeightHandle> load_matrix(std::span<const TensorView> stacked) override {
    WeightHandle handle;
    for (const TensorView& tensor : stacked) {
      weights_ += tensor.bytes_as(tensor.type);
      const Result<WeightHandle> sample = sample_of(tensor);
      if (!sample.ok()) return sample;
      handle = *sample;
    }
    return handle;
  }

  bool needs_values() const override { return false; }

  Result<WeightHandle> load_vector(const std::string& name, std::span<const float> values) override {
    weights_ += values.size_bytes();
    return ForwardingBackend::load_vector(name, values);
  }

  Result<void> prepare(const DecoderSpec& spec, const StepLimits& limits) override {
    const uint64_t before = taken();
    const Result<void> prepared = ForwardingBackend::prepare(spec, limits);
    step_ += taken() - before;
    return prepared;
  }

  Result<void> allocate_kv(const KvShape& shape) override {
    KvShape one_block = shape;
    one_block.num_blocks = 1;
    const uint64_t before = taken();
    const Result<void> allocated = ForwardingBackend::allocate_kv(one_block);
    const uint64_t with_block = taken() - before;
    step_ += with_block - std::min(with_block, kv_block_bytes(one_block));
    return allocated;
  }

  uint64_t weights_bytes() const override { return weights_; }
  uint64_t step_bytes() const { return step_; }
  std::optional<uint64_t> available_bytes() const { return available_; }

 private:
  // Loads the first row of a matrix in place of the matrix. Matrices of the same type and width share a
  // sample.
  Result<WeightHandle> sample_of(const TensorView& tensor) {
    const auto key = std::pair(tensor.type, tensor.columns());
    if (const auto found = samples_.find(key); found != samples_.end()) return found->second;
    TensorView row = tensor;
    if (tensor.num_dims == 2) {
      row.shape[1] = 1;
      row.data = tensor.data.first(row.bytes_as(row.type));
    }
    const Result<WeightHandle> handle = ForwardingBackend::load_matrix({&row, 1});
    if (handle.ok()) samples_.emplace(key, *handle);
    return handle;
  }

  // Memory taken so far, of the device or by this process, including memory that was not written to.
  uint64_t taken() {
    return uses_gpu_ ? *available_ - std::min(*available_, backend_.device().free_memory_bytes())
                     : reserved_memory_bytes().value_or(0);
  }

  const std::unique_ptr<Backend> owned_;
  const bool uses_gpu_;
  const std::optional<uint64_t> available_;
  std::map<std::pair<TensorType, uint64_t>, WeightHandle> samples_;
  uint64_t weights_ = 0;
  uint64_t step_ = 0;
  PlannedDevice planned_device_;
};

}  // namespace

Result<MemoryPlan> plan_memory(const EngineFlags& flags, const ModelFiles& files,
                               const BackendFactory& factory) {
  Result<std::unique_ptr<Backend>> backend = factory.make(flags.backend_options());
  if (!backend.ok()) return backend.error();
  auto owned = std::make_unique<PlanningBackend>(*std::move(backend), factory.uses_gpu());
  PlanningBackend& planning = *owned;
  const Result<LoadedModel> loaded = load(flags, files, std::move(owned), {});
  if (!loaded.ok()) return loaded.error();
  return MemoryPlan{.device = planning.device().name(),
                    .max_model_len = loaded->engine->config().max_model_len,
                    .max_num_seqs = flags.max_num_seqs,
                    .weights = planning.weights_bytes(),
                    .kv_cache = loaded->kv_cache_bytes,
                    .step = planning.step_bytes(),
                    .available = planning.available_bytes()};
}

std::optional<std::string> shortage_of(const MemoryPlan& plan) {
  if (!plan.available || plan.total() <= *plan.available) return std::nullopt;
  return "The model needs " + std::to_string(plan.total()) + " bytes of memory; " +
         std::to_string(*plan.available) +
         " are available. Ask for a shorter context or fewer sequences, end what else uses the memory, or "
         "take a "
         "smaller model.";
}

}  // namespace runnel

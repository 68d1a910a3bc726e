#include "cpu-runner/cpu_backend.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cpu-runner/activation.h"
#include "cpu-runner/attention.h"
#include "cpu-runner/kernels/kernels.h"
#include "cpu-runner/kv_cache.h"
#include "cpu-runner/matrix.h"
#include "cpu-runner/product.h"
#include "cpu-runner/rope_angles.h"
#include "cpu-runner/thread_pool.h"
#include "cpu-runner/timing.h"
#include "runner/check.h"
#include "runner/formats/dequantize.h"
#include "runner/formats/quoted.h"
#include "runner/sampling/host_logit_rows.h"

namespace runnel {
namespace {

using Vector = std::vector<float>;

// Handles are indices into these vectors; CHECK catches one that is of another backend or another kind.
class CpuBackend final : public Backend {
 public:
  CpuBackend(std::unique_ptr<ThreadPool> threads, KvType kv_type)
      : threads_(std::move(threads)),
        kernels_(select_kernels()),
        executor_{kernels_, *threads_},
        kv_type_(kv_type) {}

  std::string device() const override {
    const uint32_t count = threads_->num_threads();
    return "cpu, " + std::string(kernels_.name) + ", " + std::to_string(count) +
           (count == 1 ? " thread" : " threads");
  }
  // Every table of kernels and every weight type computes the sums of docs/numerics.md, so one name serves
  // all; what the cache rounds to is the only choice there is.
  std::string numerics_id() const override {
    const std::string name = "cpu-f32-2";
    return kv_type_ == KvType::kF16 ? name : name + "-kv-" + std::string(kv_type_name(kv_type_));
  }

  // Memory that is missing is noticed when it is asked for.
  Result<void> expect_weights(uint64_t) override { return {}; }
  Result<WeightHandle> load_matrix(std::span<const TensorView> stacked) override;
  Result<WeightHandle> load_vector(const TensorView& vector) override;
  ActivationHandle new_activation(uint32_t width) override;
  Result<void> allocate_head(WeightHandle weight) override;
  void set_max_rows(uint32_t max_rows, uint32_t max_head_rows) override;
  uint64_t kv_block_bytes(const KvShape& shape) const override {
    return KvCache::block_bytes(shape, kv_type_);
  }
  Result<void> allocate_kv(const KvShape& shape) override;
  uint64_t free_memory_bytes() const override { return 0; }
  uint64_t weights_bytes() const override;

  std::vector<double> seconds_of(const std::function<void()>& work, uint32_t num_times) override {
    return runnel::seconds_of(work, num_times);
  }
  Result<std::vector<double>> seconds_of_copy(uint64_t bytes, uint32_t num_times) override {
    return runnel::seconds_of_copy(*threads_, bytes, num_times);
  }

  // Each operation is done when it returns.
  void begin_forward(const Batch&) override {}
  void end_forward() override {}
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
  WeightHandle add_weight(std::variant<StackedMatrix, Vector> weight) {
    weights_.push_back(std::move(weight));
    return {static_cast<int32_t>(weights_.size()) - 1};
  }
  const std::variant<StackedMatrix, Vector>& weight(WeightHandle handle) const {
    CHECK(handle.index >= 0 && static_cast<size_t>(handle.index) < weights_.size());
    return weights_[handle.index];
  }
  const StackedMatrix& matrix(WeightHandle handle) const {
    const auto* found = std::get_if<StackedMatrix>(&weight(handle));
    CHECK(found != nullptr);
    return *found;
  }
  const Vector& vector(WeightHandle handle) const {
    const auto* found = std::get_if<Vector>(&weight(handle));
    CHECK(found != nullptr);
    return *found;
  }
  Activation& activation(ActivationHandle handle) {
    CHECK(handle.index >= 0 && static_cast<size_t>(handle.index) < activations_.size());
    return activations_[handle.index];
  }
  void norm_row(const float* in, const Vector& gain, float epsilon, Activation& out, uint32_t row) const {
    kernels_.norm(in, gain.data(), out.width(), epsilon, out.row(row));
    kernels_.block_sums(out.row(row), out.width(), out.sums(row));
  }
  // Calls fn(row) for rows below num_rows, a few to a chunk.
  template <typename Fn>
  void for_each_row(uint32_t num_rows, const Fn& fn) {
    constexpr uint32_t kRowsPerChunk = 4;
    threads_->parallel_for((num_rows + kRowsPerChunk - 1) / kRowsPerChunk, [&](uint32_t chunk) {
      const uint32_t end = std::min((chunk + 1) * kRowsPerChunk, num_rows);
      for (uint32_t row = chunk * kRowsPerChunk; row < end; ++row) fn(row);
    });
  }

  const std::unique_ptr<ThreadPool> threads_;
  const Kernels& kernels_;
  const Executor executor_;
  const KvType kv_type_;

  uint32_t max_rows_ = 0;
  uint32_t max_head_rows_ = 0;
  std::vector<std::variant<StackedMatrix, Vector>> weights_;
  std::vector<Activation> activations_;
  KvCache cache_;
  AttentionWorkspace attention_;
  bool has_cache_ = false;
  RopeAngles angles_;
  Activation head_input_;  // (max_head_rows, hidden)
  std::optional<HostLogitRows> logits_;
};

Result<WeightHandle> CpuBackend::load_matrix(std::span<const TensorView> stacked) {
  CHECK(!stacked.empty());
  StackedMatrix weight;
  for (const TensorView& tensor : stacked) {
    if (tensor.columns() != stacked.front().columns()) {
      return Error{ExitCode::kBadModel, "tensor " + quoted(tensor.name) + " has " +
                                            std::to_string(tensor.columns()) + " columns, unlike " +
                                            quoted(stacked.front().name) + "."};
    }
    Result<TiledMatrix> part = TiledMatrix::from_tensor(tensor, *threads_);
    if (!part) return part.error();
    weight.parts.push_back(*std::move(part));
  }
  return add_weight(std::move(weight));
}

Result<WeightHandle> CpuBackend::load_vector(const TensorView& tensor) {
  if (tensor.num_dims != 1 || (tensor.type != TensorType::kF32 && tensor.type != TensorType::kF16)) {
    return Error{ExitCode::kBadModel, "tensor " + quoted(tensor.name) + " of type " +
                                          std::string(type_name(tensor.type)) +
                                          " is no vector of F32 or F16, as it would have to be."};
  }
  Vector values(tensor.columns());
  dequantize_row(tensor.type, tensor.data, values);
  return add_weight(std::move(values));
}

ActivationHandle CpuBackend::new_activation(uint32_t width) {
  CHECK(max_rows_ > 0);  // set_max_rows comes before the model is loaded
  activations_.emplace_back(max_rows_, width);
  return {static_cast<int32_t>(activations_.size()) - 1};
}

Result<void> CpuBackend::allocate_head(WeightHandle weight) {
  CHECK(max_head_rows_ > 0 && !logits_);
  const StackedMatrix& output = matrix(weight);
  head_input_ = Activation(max_head_rows_, output.columns());
  logits_.emplace(max_head_rows_, static_cast<uint32_t>(output.rows()));
  return {};
}

void CpuBackend::set_max_rows(uint32_t max_rows, uint32_t max_head_rows) {
  CHECK(max_rows > 0 && max_head_rows > 0 && activations_.empty());
  max_rows_ = max_rows;
  max_head_rows_ = max_head_rows;
}

Result<void> CpuBackend::allocate_kv(const KvShape& shape) {
  Result<KvCache> cache = KvCache::allocate(shape, kv_type_);
  if (!cache) return cache.error();
  Result<AttentionWorkspace> workspace =
      AttentionWorkspace::allocate(shape, threads_->num_threads(), max_rows_);
  if (!workspace) return workspace.error();
  cache_ = *std::move(cache);
  attention_ = *std::move(workspace);
  has_cache_ = true;
  return {};
}

uint64_t CpuBackend::weights_bytes() const {
  uint64_t bytes = 0;
  for (const auto& entry : weights_) {
    if (const auto* floats = std::get_if<Vector>(&entry)) {
      bytes += floats->size() * sizeof(float);
    } else {
      for (const TiledMatrix& part : std::get<StackedMatrix>(entry).parts) bytes += part.bytes();
    }
  }
  return bytes;
}

void CpuBackend::embed(const Batch& batch, WeightHandle table, ActivationHandle out) {
  const StackedMatrix& rows = matrix(table);
  Activation& to = activation(out);
  CHECK(rows.parts.size() == 1 && rows.columns() == to.width() && batch.num_rows() <= to.max_rows());
  for_each_row(batch.num_rows(), [&](uint32_t row) {
    rows.parts[0].copy_row(batch.token_ids[row], {to.row(row), to.width()});
  });
}

void CpuBackend::norm(const Batch& batch, ActivationHandle in, WeightHandle gain, float epsilon,
                      ActivationHandle out) {
  const Activation& from = activation(in);
  const Vector& gains = vector(gain);
  Activation& to = activation(out);
  CHECK(from.width() == to.width() && gains.size() == to.width() && batch.num_rows() <= to.max_rows());
  for_each_row(batch.num_rows(), [&](uint32_t row) { norm_row(from.row(row), gains, epsilon, to, row); });
}

void CpuBackend::linear(const Batch& batch, ActivationHandle in, WeightHandle weight, WeightHandle bias,
                        Into into, ActivationHandle out) {
  const StackedMatrix& rows = matrix(weight);
  Activation& to = activation(out);
  CHECK(to.width() == rows.rows() && batch.num_rows() <= to.max_rows());
  const std::span<const float> biases =
      bias ? std::span<const float>(vector(bias)) : std::span<const float>();
  multiply_rows(executor_, rows, activation(in), batch.num_rows(), biases, into == Into::kAdd, to.row(0),
                to.stride());
}

void CpuBackend::glu(const Batch& batch, ActivationHandle in, WeightHandle gate_up, ActivationHandle out) {
  gated_multiply_rows(executor_, matrix(gate_up), activation(in), batch.num_rows(), activation(out));
}

void CpuBackend::rope_store(const Batch& batch, uint32_t layer, const AttentionShape& shape, const Rope& rope,
                            ActivationHandle qkv) {
  CHECK(has_cache_);
  angles_.prepare(batch.positions, rope, *threads_);
  rope_and_store(executor_, batch, layer, shape, rope, angles_, cache_, activation(qkv));
}

void CpuBackend::attend(const Batch& batch, uint32_t layer, const AttentionShape& shape, ActivationHandle qkv,
                        ActivationHandle out) {
  CHECK(has_cache_);
  attend_rows(executor_, batch, layer, shape, cache_, attention_, activation(qkv), activation(out));
}

LogitRows& CpuBackend::head(ActivationHandle in, std::span<const uint32_t> rows, WeightHandle gain,
                            float epsilon, WeightHandle weight) {
  const Activation& from = activation(in);
  const StackedMatrix& output = matrix(weight);
  const auto num_rows = static_cast<uint32_t>(rows.size());
  CHECK(logits_ && vector(gain).size() == from.width());
  CHECK(head_input_.width() == from.width() && logits_->vocab_size() == output.rows());

  for_each_row(num_rows, [&](uint32_t i) {
    CHECK(rows[i] < from.max_rows());
    norm_row(from.row(rows[i]), vector(gain), epsilon, head_input_, i);
  });
  const std::span<float> logits = logits_->start(num_rows);
  multiply_rows(executor_, output, head_input_, num_rows, {}, /*add=*/false, logits.data(),
                logits_->vocab_size());
  return *logits_;
}

}  // namespace

Result<std::unique_ptr<Backend>> make_cpu_backend(const BackendOptions& options) {
  Result<std::unique_ptr<ThreadPool>> threads = ThreadPool::create(options.num_threads);
  if (!threads) return threads.error();
  return std::unique_ptr<Backend>(std::make_unique<CpuBackend>(*std::move(threads), options.kv_type));
}

}  // namespace runnel

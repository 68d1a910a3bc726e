#include "cpu-runner/cpu_backend.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cpu-runner/activation.h"
#include "cpu-runner/attention.h"
#include "cpu-runner/cpu_device.h"
#include "cpu-runner/kernels/kernels.h"
#include "cpu-runner/kv_cache.h"
#include "cpu-runner/matrix.h"
#include "cpu-runner/product.h"
#include "cpu-runner/rope_angles.h"
#include "cpu-runner/thread_pool.h"
#include "runner/check.h"
#include "runner/formats/quoted.h"
#include "runner/sampling/host_logit_rows.h"

namespace runnel {
namespace {

using Vector = std::vector<float>;

// Handles are indices of weights_; CHECK catches one that is of another backend or another kind.
class CpuBackend final : public Backend {
 public:
  CpuBackend(std::unique_ptr<ThreadPool> threads, KvType kv_type)
      : threads_(std::move(threads)),
        kernels_(select_kernels()),
        executor_{kernels_, *threads_},
        device_(executor_),
        kv_type_(kv_type) {}

  ComputeDevice& device() override { return device_; }
  // Every table of kernels and every weight type computes the sums of docs/numerics.md, so one name serves
  // all; what the cache rounds to is the only choice there is.
  std::string numerics_id() const override {
    const std::string name = "cpu-f32-2";
    return kv_type_ == KvType::kF16 ? name : name + "-kv-" + std::string(kv_type_name(kv_type_));
  }

  // Memory that is missing is noticed when it is asked for.
  Result<void> expect_weights(uint64_t) override { return {}; }
  Result<WeightHandle> load_matrix(std::span<const TensorView> stacked) override;
  Result<WeightHandle> load_vector(const std::string&, std::span<const float> values) override {
    return add_weight(Vector(values.begin(), values.end()));
  }
  Result<void> prepare(const DecoderSpec& spec, const StepLimits& limits) override;
  uint64_t kv_block_bytes(const KvShape& shape) const override {
    return KvCache::block_bytes(shape, kv_type_);
  }
  Result<void> allocate_kv(const KvShape& shape) override;
  uint64_t weights_bytes() const override;

  // Each operation is done when it returns.
  void begin_forward(const Batch&) override {}
  void end_forward() override {}
  void embed(const Batch& batch, const EmbeddingSpec& embedding) override;
  void qkv(const Batch& batch, const LayerSpec& layer) override;
  void attend(const Batch& batch, const LayerSpec& layer) override;
  void project(const Batch& batch, const ProjectSpec& project) override;
  void ffn(const Batch& batch, const FfnSpec& ffn) override;
  LogitRows& head(const HeadSpec& head, std::span<const HeadRow> rows) override;

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
  std::span<const float> bias(WeightHandle handle) const {
    return handle ? std::span<const float>(vector(handle)) : std::span<const float>();
  }
  // One row, made ready for a product.
  void norm_row(const float* in, const NormSpec& norm, Activation& out, uint32_t row) const {
    const Vector& gain = vector(norm.gain);
    CHECK(gain.size() == out.width());
    kernels_.norm(in, gain.data(), out.width(), norm.epsilon, out.row(row));
    kernels_.block_sums(out.row(row), out.width(), out.sums(row));
  }
  void norm_rows(uint32_t num_rows, const NormSpec& norm) {
    for_each_row(num_rows, [&](uint32_t row) { norm_row(hidden_.row(row), norm, normed_, row); });
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
  CpuDevice device_;
  const KvType kv_type_;

  std::vector<std::variant<StackedMatrix, Vector>> weights_;
  // (max_rows, width): what flows between the operations.
  Activation hidden_;  // the residual stream
  Activation normed_;
  Activation qkv_;
  Activation attended_;
  Activation gated_;
  KvCache cache_;
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

Result<void> CpuBackend::prepare(const DecoderSpec& spec, const StepLimits& limits) {
  CHECK(limits.max_rows > 0 && limits.max_head_rows > 0 && !logits_);
  const Result<DecoderWidths> widths = widths_of(spec);
  if (!widths) return widths.error();
  hidden_ = Activation(limits.max_rows, widths->hidden);
  normed_ = Activation(limits.max_rows, widths->hidden);
  qkv_ = Activation(limits.max_rows, widths->qkv);
  attended_ = Activation(limits.max_rows, widths->attended);
  gated_ = Activation(limits.max_rows, widths->gated);
  head_input_ = Activation(limits.max_head_rows, widths->hidden);
  logits_.emplace(limits.max_head_rows, spec.head.vocab_size);
  return {};
}

Result<void> CpuBackend::allocate_kv(const KvShape& shape) {
  Result<KvCache> cache = KvCache::allocate(shape, kv_type_);
  if (!cache) return cache.error();
  cache_ = *std::move(cache);
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

void CpuBackend::embed(const Batch& batch, const EmbeddingSpec& embedding) {
  const StackedMatrix& table = matrix(embedding.table);
  CHECK(table.parts.size() == 1 && table.columns() == hidden_.width());
  CHECK(batch.num_rows() <= hidden_.max_rows());
  for_each_row(batch.num_rows(), [&](uint32_t row) {
    table.parts[0].copy_row(batch.token_ids[row], {hidden_.row(row), hidden_.width()});
  });
}

void CpuBackend::qkv(const Batch& batch, const LayerSpec& layer) {
  CHECK(has_cache_ && batch.num_rows() <= qkv_.max_rows());
  const QkvSpec& qkv = layer.qkv;
  norm_rows(batch.num_rows(), qkv.norm);
  multiply_rows(executor_, matrix(qkv.weight), normed_, batch.num_rows(), bias(qkv.bias), /*add=*/false,
                qkv_.row(0), qkv_.stride());
  angles_.prepare(batch.positions, qkv.rope, *threads_);
  rope_and_store(executor_, batch, layer.index, layer.attention, qkv.rope, angles_, cache_, qkv_);
}

void CpuBackend::attend(const Batch& batch, const LayerSpec& layer) {
  CHECK(has_cache_);
  attend_rows(executor_, batch, layer.index, layer.attention, cache_, qkv_, attended_);
}

void CpuBackend::project(const Batch& batch, const ProjectSpec& project) {
  const Activation& in = project.input == ProjectInput::kAttended ? attended_ : gated_;
  multiply_rows(executor_, matrix(project.weight), in, batch.num_rows(), bias(project.bias), /*add=*/true,
                hidden_.row(0), hidden_.stride());
}

void CpuBackend::ffn(const Batch& batch, const FfnSpec& ffn) {
  norm_rows(batch.num_rows(), ffn.norm);
  gated_multiply_rows(executor_, matrix(ffn.gate_up), normed_, batch.num_rows(), gated_);
}

LogitRows& CpuBackend::head(const HeadSpec& head, std::span<const HeadRow> rows) {
  const StackedMatrix& output = matrix(head.weight);
  const auto num_rows = static_cast<uint32_t>(rows.size());
  CHECK(logits_ && logits_->vocab_size() == output.rows());
  const std::span<float> logits = logits_->start(rows);
  for_each_row(num_rows, [&](uint32_t i) {
    CHECK(rows[i].row < hidden_.max_rows());
    norm_row(hidden_.row(rows[i].row), head.norm, head_input_, i);
  });
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

#include "cpu-runner/cpu_backend.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cpu-runner/attention/attention.h"
#include "cpu-runner/attention/kv_cache.h"
#include "cpu-runner/attention/rope_angles.h"
#include "cpu-runner/cpu_device.h"
#include "cpu-runner/isa.h"
#include "cpu-runner/kernels/kernels.h"
#include "cpu-runner/matrix/activation.h"
#include "cpu-runner/matrix/expert_rows.h"
#include "cpu-runner/matrix/matrix.h"
#include "cpu-runner/matrix/product.h"
#include "cpu-runner/matrix/weight_arena.h"
#include "cpu-runner/sampling/drawn_rows.h"
#include "cpu-runner/thread_pool.h"
#include "runner/check.h"
#include "runner/formats/in_quotes.h"

namespace runnel {
namespace {

using Vector = std::vector<float>;

// Handles are indices of weights_. CHECK catches a handle of another backend or of another kind.
class CpuBackend final : public Backend {
 public:
  CpuBackend(const Kernels& kernels, std::unique_ptr<ThreadPool> threads, const BackendOptions& options)
      : threads_(std::move(threads)),
        kernels_(kernels),
        executor_{kernels_, *threads_, options.activations},
        device_(executor_),
        kv_type_(options.kv_type),
        weights_file_(options.weights_file),
        arena_(weights_file_ == nullptr ? WeightArena() : WeightArena(*weights_file_, *threads_)) {}

  ComputeDevice& device() override { return device_; }
  // Every table of kernels and every weight type computes the sums of docs/numerics.md, so they share one
  // name.
  std::string numerics_id() const override { return runnel::numerics_id(executor_.activations, kv_type_); }

  Result<uint64_t> matrix_bytes(std::span<const TensorView> stacked) const override;
  uint64_t kv_block_bytes(const KvShape& shape) const override {
    return KvCache::block_bytes(shape, kv_type_);
  }
  Result<StepMemory> step_memory(const DecoderSpec& spec, const StepLimits& limits,
                                 const KvShape& shape) const override;

  Result<void> expect_weights(uint64_t bytes, const std::string& identity) override {
    return arena_.expect(bytes, identity);
  }
  bool needs_values() const override { return !arena_.is_filled(); }
  Result<WeightHandle> load_matrix(std::span<const TensorView> stacked) override;
  Result<WeightHandle> load_vector(const std::string&, std::span<const float> values) override {
    return add_weight(Vector(values.begin(), values.end()));
  }
  Result<void> prepare(const DecoderSpec& spec, const StepLimits& limits) override;
  Result<void> allocate_kv(const KvShape& shape) override;
  uint64_t weights_bytes() const override;

  // Each operation is complete when it returns.
  void begin_forward(const Batch&) override {}
  void end_forward() override {}
  void embed(const Batch& batch, const EmbeddingSpec& embedding) override;
  void qkv(const Batch& batch, const LayerSpec& layer) override;
  void attend(const Batch& batch, const LayerSpec& layer) override;
  void project(const Batch& batch, const ProjectSpec& project) override;
  void ffn(const Batch& batch, const FfnSpec& ffn) override;
  LogitRows& head(const HeadSpec& head, std::span<const HeadRow> rows) override;
  std::vector<float> read_states(const NormSpec& norm, std::span<const uint32_t> rows) override;
  std::vector<float> read_rows(Flow flow, uint32_t num_rows) override;
  std::vector<float> read_kv(const LayerSpec& layer, const BatchSequence& sequence,
                             uint32_t num_positions) override {
    CHECK(has_cache_);
    return cache_.read(layer.kv.layer, sequence.block_tables[layer.kv.group], num_positions);
  }

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
  // Computes the norm of one row and makes it ready for a product.
  void norm_row(const float* in, const NormSpec& norm, Activation& out, uint32_t row) const {
    const Vector& gain = vector(norm.gain);
    CHECK(gain.size() == out.width());
    if (norm.kind == NormKind::kRms) {
      kernels_.norm(in, gain.data(), out.width(), norm.epsilon, out.row(row));
    } else {
      const Vector& norm_bias = vector(norm.bias);
      CHECK(norm_bias.size() == out.width());
      kernels_.layer_norm(in, gain.data(), norm_bias.data(), out.width(), norm.epsilon, out.row(row));
    }
    make_ready(executor_, out, row);
  }
  HeadNorm head_norm(const NormSpec& norm) const {
    CHECK(norm.kind == NormKind::kRms);
    return norm ? HeadNorm{vector(norm.gain), norm.epsilon} : HeadNorm{};
  }
  // hidden = hidden + norm of the product's rows in projected_.
  void add_normed_rows(uint32_t num_rows, const NormSpec& norm) {
    const Vector& gain = vector(norm.gain);
    CHECK(norm.kind == NormKind::kRms && gain.size() == hidden_.width());
    for_each_row(num_rows, [&](uint32_t row) {
      float* values = projected_.row(row);
      kernels_.norm(values, gain.data(), hidden_.width(), norm.epsilon, values);
      float* to = hidden_.row(row);
      for (uint32_t i = 0; i < hidden_.width(); ++i) to[i] = values[i] + to[i];
    });
  }
  void norm_rows(uint32_t num_rows, const NormSpec& norm) {
    for_each_row(num_rows, [&](uint32_t row) { norm_row(hidden_.row(row), norm, normed_, row); });
  }
  // Calls fn(row) for rows below num_rows, a few rows to a chunk.
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

  const std::shared_ptr<MemoryFile> weights_file_;
  WeightArena arena_;
  std::vector<std::variant<StackedMatrix, Vector>> weights_;
  // (max_rows, width): what flows between the operations.
  Activation hidden_;  // the residual stream
  Activation normed_;
  Activation qkv_;
  Activation attended_;
  Activation gated_;
  Activation projected_;  // results of products that a norm follows
  ExpertRows experts_;    // for models with experts
  KvCache cache_;
  AttentionWorkspace attention_;
  bool has_cache_ = false;
  const DecoderSpec* spec_ = nullptr;  // set by prepare
  std::vector<RopeAngles> angles_;     // one for each rope of spec_
  Activation head_input_;              // (max_head_rows, hidden)
  std::optional<DrawnRows> logits_;
};

Result<uint64_t> CpuBackend::matrix_bytes(std::span<const TensorView> stacked) const {
  CHECK(!stacked.empty());
  uint64_t bytes = 0;
  for (const TensorView& tensor : stacked) {
    if (tensor.columns() != stacked.front().columns()) {
      return Error{ExitCode::kBadModel, "tensor " + in_quotes(tensor.name) + " has " +
                                            std::to_string(tensor.columns()) + " columns, unlike " +
                                            in_quotes(stacked.front().name) + "."};
    }
    const Result<uint64_t> of_part = TiledMatrix::bytes_of(tensor);
    if (!of_part) return of_part.error();
    bytes += *of_part;
  }
  return bytes;
}

Result<StepMemory> CpuBackend::step_memory(const DecoderSpec& spec, const StepLimits& limits,
                                           const KvShape& shape) const {
  const Result<DecoderWidths> widths = widths_of(spec);
  if (!widths) return widths.error();
  StepMemory memory{};
  for (const uint32_t width : {widths->hidden, widths->hidden, widths->qkv, widths->attended,
                               widths->has_output_norm ? widths->hidden : 0})
    memory.rows += Activation::bytes(limits.max_rows, width);
  memory.rows += widths->experts.num_experts > 0 ? ExpertRows::bytes(limits.max_rows, *widths)
                                                 : Activation::bytes(limits.max_rows, widths->gated);
  for (const RopeSpec& rope : spec.ropes)
    memory.rows += uint64_t{limits.max_rows} * rope.pairs.rotary_dim * sizeof(float);
  memory.attention = AttentionWorkspace::bytes(shape, threads_->num_threads(), limits.max_rows);
  memory.logits = Activation::bytes(limits.max_head_rows, widths->hidden) +
                  DrawnRows::bytes(*threads_, limits.max_head_rows, spec.head.vocab_size);
  return memory;
}

Result<WeightHandle> CpuBackend::load_matrix(std::span<const TensorView> stacked) {
  if (const Result<uint64_t> bytes = matrix_bytes(stacked); !bytes) return bytes.error();
  StackedMatrix weight;
  for (const TensorView& tensor : stacked) {
    Result<TiledMatrix> part = TiledMatrix::from_tensor(tensor, arena_, *threads_);
    if (!part) return part.error();
    weight.parts.push_back(*std::move(part));
  }
  return add_weight(std::move(weight));
}

Result<void> CpuBackend::prepare(const DecoderSpec& spec, const StepLimits& limits) {
  CHECK(limits.max_rows > 0 && limits.max_head_rows > 0 && !logits_);
  if (const auto finished = arena_.finish(); !finished) return finished;
  const Result<DecoderWidths> widths = widths_of(spec);
  if (!widths) return widths.error();
  hidden_ = Activation(limits.max_rows, widths->hidden);
  normed_ = Activation(limits.max_rows, widths->hidden);
  qkv_ = Activation(limits.max_rows, widths->qkv);
  attended_ = Activation(limits.max_rows, widths->attended);
  if (widths->has_output_norm) projected_ = Activation(limits.max_rows, widths->hidden);
  if (widths->experts.num_experts > 0)
    experts_ = ExpertRows(limits.max_rows, *widths);
  else
    gated_ = Activation(limits.max_rows, widths->gated);
  spec_ = &spec;
  angles_.resize(spec.ropes.size());
  head_input_ = Activation(limits.max_head_rows, widths->hidden);
  logits_.emplace(kernels_.draw, *threads_, limits.max_head_rows, spec.head.vocab_size);
  return {};
}

Result<void> CpuBackend::allocate_kv(const KvShape& shape) {
  Result<KvCache> cache = KvCache::allocate(shape, kv_type_);
  if (!cache) return cache.error();
  Result<AttentionWorkspace> workspace =
      AttentionWorkspace::allocate(shape, threads_->num_threads(), attended_.max_rows());
  if (!workspace) return workspace.error();
  cache_ = *std::move(cache);
  attention_ = *std::move(workspace);
  has_cache_ = true;
  return {};
}

uint64_t CpuBackend::weights_bytes() const {
  uint64_t bytes = arena_.bytes();
  for (const auto& entry : weights_) {
    if (const auto* floats = std::get_if<Vector>(&entry)) bytes += floats->size() * sizeof(float);
  }
  return bytes;
}

void CpuBackend::embed(const Batch& batch, const EmbeddingSpec& embedding) {
  const StackedMatrix& table = matrix(embedding.table);
  CHECK(table.parts.size() == 1 && table.columns() == hidden_.width());
  CHECK(batch.num_rows() <= hidden_.max_rows());
  const TiledMatrix* positions = embedding.positions ? &matrix(embedding.positions).parts[0] : nullptr;
  CHECK(positions == nullptr || positions->columns() == hidden_.width());
  for_each_row(batch.num_rows(), [&](uint32_t row) {
    const std::span<float> out(hidden_.row(row), hidden_.width());
    table.parts[0].copy_row(batch.token_ids[row], out);
    if (embedding.scale != 1.0f) {
      for (float& value : out) value = value * embedding.scale;
    }
    if (positions == nullptr) return;
    std::vector<float> of_position(out.size());
    positions->copy_row(batch.positions[row], of_position);
    for (size_t i = 0; i < out.size(); ++i) out[i] = out[i] + of_position[i];
  });
}

void CpuBackend::qkv(const Batch& batch, const LayerSpec& layer) {
  CHECK(has_cache_ && batch.num_rows() <= qkv_.max_rows());
  const QkvSpec& qkv = layer.qkv;
  norm_rows(batch.num_rows(), qkv.norm);
  multiply_rows(executor_, matrix(qkv.weight), normed_, batch.num_rows(), bias(qkv.bias), /*add=*/false,
                qkv_.row(0), qkv_.stride());
  const RopeSpec& rope = spec_->ropes.at(qkv.rope);
  RopeAngles& angles = angles_[qkv.rope];
  angles.prepare(batch.positions, rope, *threads_);
  const HeadRotation rotation{rope.pairs, angles, head_norm(qkv.query_norm), head_norm(qkv.key_norm)};
  rope_and_store(executor_, batch, layer.kv, layer.attention, rotation, cache_, qkv_);
}

void CpuBackend::attend(const Batch& batch, const LayerSpec& layer) {
  CHECK(has_cache_);
  attend_rows(executor_, batch, layer.kv, layer.attention, cache_, attention_, qkv_, attended_);
}

void CpuBackend::project(const Batch& batch, const ProjectSpec& project) {
  if (project.experts.num_experts > 0)
    return experts_.add_output(executor_, matrix(project.weight), batch.num_rows(), hidden_);
  const Activation& in = project.input == ProjectInput::kAttended ? attended_ : gated_;
  if (project.norm) {
    multiply_rows(executor_, matrix(project.weight), in, batch.num_rows(), bias(project.bias), /*add=*/false,
                  projected_.row(0), projected_.stride());
    return add_normed_rows(batch.num_rows(), project.norm);
  }
  multiply_rows(executor_, matrix(project.weight), in, batch.num_rows(), bias(project.bias), /*add=*/true,
                hidden_.row(0), hidden_.stride());
}

void CpuBackend::ffn(const Batch& batch, const FfnSpec& ffn) {
  norm_rows(batch.num_rows(), ffn.norm);
  const StackedMatrix& weight = matrix(ffn.gate_up);
  if (ffn.experts.num_experts > 0) {
    return experts_.gate(executor_, matrix(ffn.experts.router), weight, ffn.nonlinearity, normed_,
                         batch.num_rows());
  }
  CHECK(weight.parts.size() == (ffn.has_gate ? 2 : 1));
  const GatedMatrices matrices{ffn.has_gate ? &weight.parts.front() : nullptr, weight.parts.back(),
                               bias(ffn.bias), ffn.nonlinearity};
  gated_multiply_rows(executor_, matrices, normed_, batch.num_rows(), gated_);
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
  logits_->draw();
  return *logits_;
}

std::vector<float> CpuBackend::read_states(const NormSpec& norm, std::span<const uint32_t> rows) {
  CHECK(rows.size() <= head_input_.max_rows());
  for_each_row(static_cast<uint32_t>(rows.size()), [&](uint32_t i) {
    CHECK(rows[i] < hidden_.max_rows());
    norm_row(hidden_.row(rows[i]), norm, head_input_, i);
  });
  std::vector<float> states;
  states.reserve(rows.size() * head_input_.width());
  for (uint32_t i = 0; i < rows.size(); ++i)
    states.insert(states.end(), head_input_.row(i), head_input_.row(i) + head_input_.width());
  return states;
}

std::vector<float> CpuBackend::read_rows(Flow flow, uint32_t num_rows) {
  const std::pair<Flow, const Activation*> flows[] = {{Flow::kHidden, &hidden_},
                                                      {Flow::kNormed, &normed_},
                                                      {Flow::kQkv, &qkv_},
                                                      {Flow::kAttended, &attended_},
                                                      {Flow::kGated, &gated_}};
  const Activation& from =
      *std::ranges::find(flows, flow, &std::pair<Flow, const Activation*>::first)->second;
  CHECK(num_rows <= from.max_rows());
  std::vector<float> rows;
  for (uint32_t row = 0; row < num_rows; ++row)
    rows.insert(rows.end(), from.row(row), from.row(row) + from.width());
  return rows;
}

}  // namespace

Result<std::unique_ptr<Backend>> make_cpu_backend(const BackendOptions& options) {
  const Result<const Kernels*> kernels = kernels_for(options.isa);
  if (!kernels) return kernels.error();
  Result<std::unique_ptr<ThreadPool>> threads = ThreadPool::create(options.num_threads);
  if (!threads) return threads.error();
  return std::unique_ptr<Backend>(std::make_unique<CpuBackend>(**kernels, *std::move(threads), options));
}

}  // namespace runnel

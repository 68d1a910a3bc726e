#include "cuda-runner/cuda_backend.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cuda-runner/cuda_compute_device.h"
#include "cuda-runner/device/device.h"
#include "cuda-runner/device/error.h"
#include "cuda-runner/device_activation.h"
#include "cuda-runner/device_logit_rows.h"
#include "cuda-runner/device_weights.h"
#include "cuda-runner/forward_pass.h"
#include "cuda-runner/kernels/attend.h"
#include "cuda-runner/kernels/embed.h"
#include "cuda-runner/kernels/experts.h"
#include "cuda-runner/kernels/make_ready.h"
#include "cuda-runner/kernels/norm.h"
#include "cuda-runner/kernels/rope_store.h"
#include "cuda-runner/kernels/soft_cap.h"
#include "cuda-runner/kv_memory.h"
#include "cuda-runner/load_kernels.h"
#include "cuda-runner/rope_tables.h"
#include "cuda-runner/step_inputs.h"
#include "runner/check.h"
#include "runner/system/processors.h"
#include "runner/system/start_times.h"

namespace runnel {
namespace {

class CudaBackend final : public Backend {
 public:
  CudaBackend(Device device, Stream stream, const BackendOptions& options)
      : device_(std::move(device)),
        stream_(std::move(stream)),
        compute_device_(device_, stream_),
        kv_type_(options.kv_type),
        start_times_(options.start_times),
        pass_(options.enforce_eager) {}

  // Not part of the constructor, since it can fail. The weights keep a pointer to stream_.
  Result<void> make_room_for_weights(uint32_t num_threads) {
    Result<DeviceWeights> weights = DeviceWeights::create(stream_, num_threads);
    if (!weights) return weights.error();
    weights_.emplace(*std::move(weights));
    return {};
  }

  ComputeDevice& device() override { return compute_device_; }
  std::string numerics_id() const override { return runnel::numerics_id(ActivationType::kI8, kv_type_); }

  Result<uint64_t> matrix_bytes(std::span<const TensorView> stacked) const override {
    return DeviceWeights::matrix_bytes(stacked);
  }
  uint64_t kv_block_bytes(const KvShape& shape) const override {
    return KvMemory::block_bytes(shape, kv_type_);
  }
  Result<StepMemory> step_memory(const DecoderSpec& spec, const StepLimits& limits,
                                 const KvShape& shape) const override;

  Result<void> expect_weights(uint64_t bytes, const std::string& identity) override;
  Result<WeightHandle> load_matrix(std::span<const TensorView> stacked) override {
    return weights_->add_matrix(stacked);
  }
  Result<WeightHandle> load_vector(const std::string& name, std::span<const float> values) override {
    return weights_->add_vector(name, values);
  }
  Result<void> prepare(const DecoderSpec& spec, const StepLimits& limits) override;
  Result<void> allocate_kv(const KvShape& shape) override;
  uint64_t weights_bytes() const override { return weights_->num_bytes(); }
  uint32_t num_graphs(uint32_t max_sequences) const override {
    return pass_.num_graphs(std::min(max_sequences, max_rows_));
  }

  void begin_forward(const Batch& batch) override;
  void end_forward() override;
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
    CHECK(cache_ && pass_.is_eager());
    return cache_->read(layer.kv.layer, sequence.block_tables[layer.kv.group], num_positions, stream_);
  }

 private:
  const StackedMatrix& matrix(WeightHandle handle) const { return weights_->matrix(handle); }
  const DeviceVector& vector(WeightHandle handle) const { return weights_->vector(handle); }
  DeviceNorm device_norm(const NormSpec& norm) const {
    const bool is_centred = norm.kind == NormKind::kLayer;
    return {vector(norm.gain).view(), norm.epsilon, is_centred,
            is_centred ? vector(norm.bias).view() : Global<const float>()};
  }
  // The norm of each head, if it is of each.
  HeadNorm head_norm(const QkvSpec& qkv, const NormSpec& norm) const {
    return norm && !qkv.norms_heads_together ? HeadNorm{true, vector(norm.gain).view(), norm.epsilon}
                                             : HeadNorm{};
  }
  // Launches the computation of angles if it is the first use of them in a step.
  Rotation rotation_of(const QkvSpec& qkv, uint32_t num_rows) {
    return {spec_->ropes.at(qkv.rope).pairs,
            {head_norm(qkv, qkv.query_norm), head_norm(qkv, qkv.key_norm)},
            ropes_.angles(qkv.rope, inputs_.positions(), num_rows, stream_)};
  }
  // In captured steps each sequence has one row.
  bool attention_rotates(const LayerSpec& layer) const {
    return !pass_.is_eager() && attend_rotates(layer.attention);
  }
  ExpertUses expert_uses() { return {expert_ids_.view(), expert_weights_.view(), experts_.num_used}; }
  // Computes normed_ as the norm of hidden_, or as hidden_ if there is no norm.
  void norm_rows(const NormSpec& norm, uint32_t count);
  // Replaces queries and keys by their norms, each of all heads together.
  void norm_heads_together(const LayerSpec& layer, uint32_t count);
  // Computes the input of the output matrix as the norm of the chosen rows of hidden_.
  void norm_chosen(const NormSpec& norm, std::span<const HeadRow> rows);
  void expert_ffn(const FfnSpec& ffn, const DeviceMatrix& gate, const DeviceMatrix& up, uint32_t count);
  void multiply_parts(const StackedMatrix& parts, const ReadyRows& in, uint32_t count, WeightHandle bias,
                      Epilogue epilogue, const FloatRows& out);
  void end_part(const char* part, const std::string& remark = "") {
    if (start_times_ != nullptr) start_times_->end(part, remark);
  }

  const Device device_;
  Stream stream_;
  CudaComputeDevice compute_device_;
  const KvType kv_type_;
  const std::shared_ptr<StartTimes> start_times_;  // null: nobody asks
  std::optional<DeviceWeights> weights_;

  uint32_t max_rows_ = 0;
  const DecoderSpec* spec_ = nullptr;  // set by prepare
  // The values that pass between the operations; set by prepare.
  std::optional<DeviceActivation> hidden_;  // the residual stream
  std::optional<DeviceActivation> normed_;
  std::optional<DeviceActivation> qkv_;
  std::optional<DeviceActivation> attended_;
  std::optional<DeviceActivation> gated_;      // with experts, a row for each use
  std::optional<DeviceActivation> projected_;  // results of products, before the norm that follows
  // Only for models with experts.
  ExpertsSpec experts_;
  std::optional<DeviceActivation> router_logits_;
  DeviceBuffer<uint32_t> expert_ids_;
  DeviceBuffer<float> expert_weights_;
  std::optional<DeviceLogitRows> logits_;

  std::optional<KvMemory> cache_;
  StepInputs inputs_;
  RopeTables ropes_;
  DeviceBuffer<float> attend_results_;
  DeviceBuffer<uint32_t> attend_arrivals_;
  uint32_t max_positions_ = 0;

  ForwardPass pass_;
  std::chrono::steady_clock::time_point pass_began_at_;
};

// --- computed before anything is allocated

// The widths of what flows between the operations, each with its number of rows.
struct FlowSize {
  uint32_t num_rows;
  uint32_t width;
};

std::array<FlowSize, 7> flow_sizes(const DecoderWidths& widths, uint32_t max_rows) {
  const uint32_t num_uses = max_rows * std::max(widths.experts.num_used, 1u);
  return {{{max_rows, widths.hidden},
           {max_rows, widths.hidden},
           {max_rows, widths.qkv},
           {max_rows, widths.attended},
           {num_uses, widths.gated},
           {widths.has_output_norm ? max_rows : 0, widths.hidden},
           {widths.experts.num_experts > 0 ? max_rows : 0, widths.experts.num_experts}}};
}

// What attention needs to know of steps: a shape without its scale and window, and the limits of steps.
struct AttendSizes {
  AttentionShape shape;
  AttendLimits limits;
};

AttendSizes attend_sizes(const KvShape& shape, uint32_t max_rows) {
  return {{shape.num_heads, shape.num_kv_heads, shape.head_dim, 1.0f},
          {max_rows, shape.max_positions, uint64_t{shape.num_blocks} * shape.block_size}};
}

StepInputsShape inputs_shape(const DecoderSpec& spec, const KvShape& shape, const AttendSizes& attend) {
  StepInputsShape inputs{attend.limits.max_rows, num_kv_groups(spec), KvMemory::max_table_blocks(shape), {}};
  for (const LayerSpec& layer : spec.layers) {
    const uint32_t window = layer.attention.window;
    if (std::ranges::find(inputs.attend_plans, window, &AttendPlanShape::window) != inputs.attend_plans.end())
      continue;
    inputs.attend_plans.push_back({window, attend_groups(attend.shape), shape.num_kv_heads,
                                   attend_tile_rows(attend.shape), attend.limits.max_rows,
                                   max_cut_splits(attend.shape, attend.limits)});
  }
  return inputs;
}

// Attention that sees ahead, norms of sums and GELU by the error function have no kernels; encoders alone
// have them.
Result<DecoderWidths> supported_widths_of(const DecoderSpec& spec) {
  if (!spec.layers.front().attention.sees_ahead) return widths_of(spec);
  return Error{ExitCode::kBadModel,
               "encoders are computed on the CPU only; start cpu-runner, or the gateway with --backend cpu."};
}

Result<StepMemory> CudaBackend::step_memory(const DecoderSpec& spec, const StepLimits& limits,
                                            const KvShape& shape) const {
  const Result<DecoderWidths> widths = supported_widths_of(spec);
  if (!widths) return widths.error();
  StepMemory memory{};
  for (const FlowSize& flow : flow_sizes(*widths, limits.max_rows))
    memory.rows += DeviceActivation(flow.num_rows, flow.width).num_bytes();
  if (widths->experts.num_experts > 0) {
    const size_t num_uses = size_t{limits.max_rows} * widths->experts.num_used;
    memory.rows += device_bytes(num_uses, sizeof(uint32_t)) + device_bytes(num_uses, sizeof(float));
  }
  memory.rows += RopeTables::bytes(limits.max_rows, spec.ropes);
  const AttendSizes attend = attend_sizes(shape, limits.max_rows);
  memory.attention = StepInputs::bytes(inputs_shape(spec, shape, attend)) +
                     device_bytes(attend_result_floats(attend.shape, attend.limits), sizeof(float)) +
                     device_bytes(attend_arrivals(attend.shape, attend.limits), sizeof(uint32_t)) +
                     kv_block_bytes(shape);  // the spare block
  memory.logits = DeviceLogitRows::bytes(limits.max_head_rows, widths->hidden, spec.head.vocab_size);
  return memory;
}

// --- while loading

Result<void> CudaBackend::expect_weights(uint64_t bytes, const std::string&) {
  const uint64_t free_bytes = device_.free_bytes();
  if (bytes <= free_bytes) return {};
  return Error{ExitCode::kSystem,
               "its weights need " + std::to_string(bytes) + " bytes of GPU memory; " +
                   std::to_string(free_bytes) + " of " + std::to_string(device_.total_bytes()) +
                   " bytes are free. Use a smaller model, or stop other programs that use the GPU.",
               MemoryShortage{bytes, free_bytes}};
}

Result<void> CudaBackend::prepare(const DecoderSpec& spec, const StepLimits& limits) {
  CHECK(limits.max_rows > 0 && limits.max_head_rows > 0 && !logits_);
  const Result<DecoderWidths> widths = supported_widths_of(spec);
  if (!widths) return widths.error();
  end_part("weights", weights_->finish_upload());
  load_kernels(spec, weights_->matrix_types(), kv_type_);
  end_part("kernels");
  max_rows_ = limits.max_rows;
  experts_ = widths->experts;
  const std::array flows = {&hidden_, &normed_, &qkv_, &attended_, &gated_, &projected_, &router_logits_};
  const auto sizes = flow_sizes(*widths, max_rows_);
  for (size_t i = 0; i < flows.size(); ++i) {
    if (sizes[i].num_rows == 0) continue;
    if (const auto allocated = flows[i]->emplace(sizes[i].num_rows, sizes[i].width).allocate(stream_);
        !allocated)
      return allocated;
  }
  if (experts_.num_experts > 0) {
    const uint32_t num_uses = max_rows_ * experts_.num_used;
    const Result<void> allocated = allocate_all("the experts of a step's rows", Wanted{expert_ids_, num_uses},
                                                Wanted{expert_weights_, num_uses});
    if (!allocated) return allocated;
  }
  spec_ = &spec;
  Result<DeviceLogitRows> logits =
      DeviceLogitRows::allocate(limits.max_head_rows, widths->hidden, spec.head.vocab_size, stream_);
  if (!logits) return logits.error();
  logits_.emplace(*std::move(logits));
  end_part("memory of a step");
  return {};
}

Result<void> CudaBackend::allocate_kv(const KvShape& shape) {
  CHECK(shape.num_heads > 0);
  stream_.synchronize();
  pass_.forget_graphs();
  // All of it is freed first, to make room for the new one.
  cache_.reset();
  inputs_ = StepInputs();
  attend_results_ = DeviceBuffer<float>();
  attend_arrivals_ = DeviceBuffer<uint32_t>();
  Result<KvMemory> cache = KvMemory::allocate(shape, kv_type_, stream_);
  if (!cache) return cache.error();
  cache_.emplace(*std::move(cache));
  const AttendSizes attend = attend_sizes(shape, max_rows_);
  Result<StepInputs> inputs = StepInputs::allocate(inputs_shape(*spec_, shape, attend), stream_);
  if (!inputs) return inputs.error();
  inputs_ = *std::move(inputs);
  Result<RopeTables> ropes = RopeTables::allocate(max_rows_, spec_->ropes, stream_);
  if (!ropes) return ropes.error();
  ropes_ = *std::move(ropes);
  max_positions_ = shape.max_positions;
  const Result<void> allocated =
      allocate_all("attention's intermediate results",
                   Wanted{attend_results_, attend_result_floats(attend.shape, attend.limits)},
                   Wanted{attend_arrivals_, attend_arrivals(attend.shape, attend.limits)});
  if (!allocated) return allocated;
  stream_.fill_with_zeros(attend_arrivals_);
  return {};
}

// --- one step

void CudaBackend::begin_forward(const Batch& batch) {
  CHECK(cache_);
  pass_began_at_ = std::chrono::steady_clock::now();
  ropes_.start_step();
  pass_.plan(batch, max_rows_);
  inputs_.send(batch, pass_.num_rows(), cache_->spare_block(), stream_);
  pass_.begin(stream_);
}

void CudaBackend::end_forward() {
  const bool is_captured = !pass_.is_eager() && !pass_.is_replay();
  pass_.end(stream_);
  if (!is_captured || start_times_ == nullptr) return;
  const auto took = std::chrono::steady_clock::now() - pass_began_at_;
  std::fprintf(stderr, "A graph of %u rows was captured in %s ms.\n", pass_.num_rows(),
               milliseconds_text(took).c_str());
}

void CudaBackend::embed(const Batch& batch, const EmbeddingSpec& embedding) {
  const StackedMatrix& table = matrix(embedding.table);
  CHECK(table.size() == 1 && table[0].columns == hidden_->width());
  if (pass_.is_replay()) return;
  EmbeddingTables tables{.tokens = table[0].view(), .scale = embedding.scale};
  if (embedding.positions) {
    tables.has_positions = true;
    tables.positions = matrix(embedding.positions)[0].view();
    CHECK(tables.positions.columns == hidden_->width());
  }
  expect_success(runnel::embed(tables, inputs_.token_ids(), inputs_.positions(), pass_.num_rows(batch),
                               hidden_->floats(), stream_.get()),
                 "looking up embeddings");
}

void CudaBackend::norm_rows(const NormSpec& norm, uint32_t count) {
  if (!norm) {
    expect_success(make_ready(hidden_->floats(), count, normed_->ready(), stream_.get()), "copying rows");
    return;
  }
  CHECK(vector(norm.gain).size() == hidden_->width());
  expect_success(
      runnel::norm(hidden_->floats(), {}, false, count, device_norm(norm), normed_->ready(), stream_.get()),
      "computing a norm");
}

void CudaBackend::multiply_parts(const StackedMatrix& parts, const ReadyRows& in, uint32_t count,
                                 WeightHandle bias, Epilogue epilogue, const FloatRows& out) {
  CHECK(parts[0].columns == in.width && (!bias || vector(bias).size() == rows_of(parts)));
  const Global<const float> biases = bias ? vector(bias).view() : Global<const float>(nullptr, 0);
  uint32_t first_output = 0;
  for (const UploadedMatrix& part : parts) {
    expect_success(multiply(part.view(), in, count, biases, static_cast<bool>(bias), epilogue, out,
                            first_output, stream_.get()),
                   "multiplying by a matrix");
    first_output += part.rows;
  }
}

void CudaBackend::qkv(const Batch& batch, const LayerSpec& layer) {
  const QkvSpec& qkv = layer.qkv;
  const StackedMatrix& weight = matrix(qkv.weight);
  CHECK(rows_of(weight) == qkv_->width());
  const Rope& rope = spec_->ropes.at(qkv.rope).pairs;
  CHECK(rope.rotary_dim <= layer.attention.head_dim && rope.rotary_dim % 2 == 0);
  if (pass_.is_replay()) return;
  const uint32_t count = pass_.num_rows(batch);
  norm_rows(qkv.norm, count);
  multiply_parts(weight, normed_->ready(), count, qkv.bias, Epilogue::kReplace, qkv_->floats());
  if (qkv.norms_heads_together) norm_heads_together(layer, count);
  const Rotation rotation = rotation_of(qkv, count);
  if (attention_rotates(layer)) return;
  expect_success(rope_store(layer.attention, rotation, inputs_.rows(layer.kv.group), count, qkv_->floats(),
                            cache_->view(), layer.kv.layer, stream_.get()),
                 "storing keys and values");
}

void CudaBackend::norm_heads_together(const LayerSpec& layer, uint32_t count) {
  const AttentionShape& shape = layer.attention;
  const NormedColumns queries{0, shape.num_heads * shape.head_dim, device_norm(layer.qkv.query_norm)};
  const NormedColumns keys{queries.width, shape.num_kv_heads * shape.head_dim,
                           device_norm(layer.qkv.key_norm)};
  CHECK(vector(layer.qkv.query_norm.gain).size() == queries.width);
  CHECK(vector(layer.qkv.key_norm.gain).size() == keys.width);
  expect_success(norm_columns(qkv_->floats(), count, queries, keys, stream_.get()),
                 "computing norms of queries and keys");
}

void CudaBackend::attend(const Batch& batch, const LayerSpec& layer) {
  if (pass_.is_replay()) return;
  const AttendInputs inputs{layer.attention,
                            layer.kv.layer,
                            pass_.num_rows(batch),
                            inputs_.rows(layer.kv.group),
                            inputs_.attend_work(layer.attention.window),
                            qkv_->floats(),
                            cache_->view(),
                            attention_rotates(layer),
                            rotation_of(layer.qkv, pass_.num_rows(batch))};
  expect_success(runnel::attend(inputs, max_positions_, {attend_results_.view(), attend_arrivals_.view()},
                                attended_->ready(), stream_.get()),
                 "computing attention");
}

void CudaBackend::project(const Batch& batch, const ProjectSpec& project) {
  const StackedMatrix& weight = matrix(project.weight);
  CHECK(rows_of(weight) == hidden_->width() * std::max(project.experts.num_experts, 1u));
  if (pass_.is_replay()) return;
  const uint32_t count = pass_.num_rows(batch);
  if (project.experts.num_experts > 0) {
    expect_success(add_expert_output(weight[0].view(), hidden_->width(), gated_->ready(), count,
                                     expert_uses(), hidden_->floats(), stream_.get()),
                   "adding up what experts give");
    return;
  }
  DeviceActivation& in = project.input == ProjectInput::kAttended ? *attended_ : *gated_;
  if (!project.norm) {
    multiply_parts(weight, in.ready(), count, project.bias, Epilogue::kAdd, hidden_->floats());
    return;
  }
  multiply_parts(weight, in.ready(), count, project.bias, Epilogue::kReplace, projected_->floats());
  expect_success(add_normed(projected_->floats(), count, hidden_->width(), device_norm(project.norm),
                            hidden_->floats(), stream_.get()),
                 "adding a norm");
}

void CudaBackend::ffn(const Batch& batch, const FfnSpec& ffn) {
  const StackedMatrix& weight = matrix(ffn.gate_up);
  const uint32_t num_rows = gated_->width() * std::max(ffn.experts.num_experts, 1u);
  CHECK(rows_of(weight) == (ffn.has_gate ? 2 : 1) * num_rows && weight[0].columns == normed_->width());
  CHECK(!ffn.bias || (!ffn.has_gate && vector(ffn.bias).size() == gated_->width()));
  if (pass_.is_replay()) return;
  const uint32_t count = pass_.num_rows(batch);
  norm_rows(ffn.norm, count);
  const DeviceMatrix gate = part_of(weight, 0, num_rows);
  const DeviceMatrix up = ffn.has_gate ? part_of(weight, num_rows, num_rows) : gate;
  if (ffn.experts.num_experts > 0) return expert_ffn(ffn, gate, up, count);
  if (ffn.has_gate) {
    expect_success(
        gated_multiply(gate, up, ffn.nonlinearity, normed_->ready(), count, gated_->ready(), stream_.get()),
        "multiplying by gate and up");
    return;
  }
  const Global<const float> bias = ffn.bias ? vector(ffn.bias).view() : Global<const float>(nullptr, 0);
  expect_success(activated_multiply(up, bias, static_cast<bool>(ffn.bias), ffn.nonlinearity, normed_->ready(),
                                    count, gated_->ready(), stream_.get()),
                 "multiplying without a gate");
}

void CudaBackend::expert_ffn(const FfnSpec& ffn, const DeviceMatrix& gate, const DeviceMatrix& up,
                             uint32_t count) {
  multiply_parts(matrix(ffn.experts.router), normed_->ready(), count, {}, Epilogue::kReplace,
                 router_logits_->floats());
  expect_success(
      choose_experts(router_logits_->floats(), experts_.num_experts, count, expert_uses(), stream_.get()),
      "choosing experts");
  expect_success(expert_gated_multiply(gate, up, ffn.nonlinearity, normed_->ready(), count, expert_uses(),
                                       gated_->ready(), stream_.get()),
                 "multiplying by experts' gate and up");
}

LogitRows& CudaBackend::head(const HeadSpec& head, std::span<const HeadRow> rows) {
  const StackedMatrix& output = matrix(head.weight);
  const auto count = static_cast<uint32_t>(rows.size());
  CHECK(logits_ && logits_->vocab_size() == rows_of(output));
  norm_chosen(head.norm, rows);
  multiply_parts(output, logits_->input().ready(), count, {}, Epilogue::kReplace, logits_->logits());
  if (head.softcap != 0.0f) {
    expect_success(soft_cap(logits_->logits(), count, logits_->vocab_size(), head.softcap, stream_.get()),
                   "capping logits");
  }
  logits_->launch(inputs_.positions());
  return *logits_;
}

void CudaBackend::norm_chosen(const NormSpec& norm, std::span<const HeadRow> rows) {
  CHECK(!rows.empty() && vector(norm.gain).size() == hidden_->width());
  CHECK(std::ranges::all_of(rows, [&](const HeadRow& row) { return row.row < hidden_->max_rows(); }));
  logits_->choose(rows);
  expect_success(runnel::norm(hidden_->floats(), logits_->chosen(), true, static_cast<uint32_t>(rows.size()),
                              device_norm(norm), logits_->input().ready(), stream_.get()),
                 "computing a norm");
}

std::vector<float> CudaBackend::read_states(const NormSpec& norm, std::span<const uint32_t> rows) {
  CHECK(logits_);
  std::vector<HeadRow> chosen;
  for (const uint32_t row : rows) chosen.push_back({.row = row});
  norm_chosen(norm, chosen);
  return logits_->input().read(static_cast<uint32_t>(rows.size()), stream_);
}

std::vector<float> CudaBackend::read_rows(Flow flow, uint32_t num_rows) {
  CHECK(pass_.is_eager());
  const std::pair<Flow, const DeviceActivation*> flows[] = {{Flow::kHidden, &*hidden_},
                                                            {Flow::kNormed, &*normed_},
                                                            {Flow::kQkv, &*qkv_},
                                                            {Flow::kAttended, &*attended_},
                                                            {Flow::kGated, &*gated_}};
  return std::ranges::find(flows, flow, &std::pair<Flow, const DeviceActivation*>::first)
      ->second->read(num_rows, stream_);
}

}  // namespace

Result<std::unique_ptr<Backend>> make_cuda_backend(const BackendOptions& options) {
  Result<Device> device = Device::open(static_cast<int>(options.gpu_device), options.start_times.get());
  if (!device) return device.error();
  auto backend = std::make_unique<CudaBackend>(*std::move(device), Stream(), options);
  const uint32_t num_threads = options.num_threads == 0 ? usable_processors() : options.num_threads;
  const auto made = backend->make_room_for_weights(std::min(num_threads, kMaxPackingThreads));
  if (!made) return made.error();
  if (options.start_times != nullptr) options.start_times->end("pinned memory");
  return std::unique_ptr<Backend>(std::move(backend));
}

}  // namespace runnel

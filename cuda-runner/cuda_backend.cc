#include "cuda-runner/cuda_backend.h"

#include <algorithm>
#include <bit>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cuda-runner/decode_graphs.h"
#include "cuda-runner/device/device.h"
#include "cuda-runner/device/error.h"
#include "cuda-runner/device_activation.h"
#include "cuda-runner/device_logit_rows.h"
#include "cuda-runner/kernels/attend.h"
#include "cuda-runner/kernels/embed.h"
#include "cuda-runner/kernels/norm.h"
#include "cuda-runner/kernels/rope_store.h"
#include "cuda-runner/kv_memory.h"
#include "cuda-runner/load_kernels.h"
#include "cuda-runner/rope_tables.h"
#include "cuda-runner/step_inputs.h"
#include "cuda-runner/timing.h"
#include "cuda-runner/weight_upload.h"
#include "runner/check.h"
#include "runner/formats/quoted.h"

namespace runnel {
namespace {

// Matrices that are multiplied as one, their rows one below the other; each keeps its own type.
using StackedMatrix = std::vector<UploadedMatrix>;
using Vector = DeviceBuffer<float>;

uint32_t rows_of(const StackedMatrix& matrix) {
  uint32_t sum = 0;
  for (const UploadedMatrix& part : matrix) sum += part.rows;
  return sum;
}

// Handles are indices into these vectors; CHECK catches one that is of another backend or another kind.
class CudaBackend final : public Backend {
 public:
  CudaBackend(Device device, Stream stream, const BackendOptions& options)
      : device_(std::move(device)),
        stream_(std::move(stream)),
        kv_type_(options.kv_type),
        enforce_eager_(options.enforce_eager) {}

  // The stream has its place by now.
  Result<void> open_upload() {
    Result<WeightUpload> upload = WeightUpload::create(stream_);
    if (!upload) return upload.error();
    upload_.emplace(*std::move(upload));
    return {};
  }

  std::string device() const override;
  std::string numerics_id() const override {
    const std::string name = "cuda-i8-1";
    return kv_type_ == KvType::kF16 ? name : name + "-kv-" + std::string(kv_type_name(kv_type_));
  }

  Result<void> expect_weights(uint64_t bytes) override;
  Result<WeightHandle> load_matrix(std::span<const TensorView> stacked) override;
  Result<WeightHandle> load_vector(const TensorView& vector) override;
  ActivationHandle new_activation(uint32_t width) override;
  Result<void> allocate_head(WeightHandle weight) override;
  void set_max_rows(uint32_t max_rows, uint32_t max_head_rows) override;
  uint64_t kv_block_bytes(const KvShape& shape) const override {
    return KvMemory::block_bytes(shape, kv_type_);
  }
  Result<void> allocate_kv(const KvShape& shape) override;
  uint64_t free_memory_bytes() const override { return device_.free_bytes(); }
  uint64_t weights_bytes() const override { return weights_bytes_; }

  std::vector<double> seconds_of(const std::function<void()>& work, uint32_t num_times) override {
    CHECK(batch_ != nullptr && pass_ == Pass::kEager);
    return runnel::seconds_of(stream_, work, num_times);
  }
  Result<std::vector<double>> seconds_of_copy(uint64_t bytes, uint32_t num_times) override {
    return runnel::seconds_of_copy(stream_, bytes, num_times);
  }

  void begin_forward(const Batch& batch) override;
  void end_forward() override;
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
  // What becomes of the operations of a forward pass.
  enum class Pass {
    kEager,      // each is launched
    kCapturing,  // each goes into a graph, which is launched at the end
    kReplaying,  // a graph stands for all of them
  };

  WeightHandle add_weight(std::variant<StackedMatrix, Vector> weight);
  const StackedMatrix& matrix(WeightHandle handle) const;
  const Vector& vector(WeightHandle handle) const;
  DeviceActivation& activation(ActivationHandle handle);
  // Rows that an operation of this pass computes. The batch may have lost some since the pass began; a graph
  // computes them all the same.
  uint32_t num_rows(const Batch& batch) const {
    CHECK(batch.num_rows() <= num_rows_);
    return pass_ == Pass::kEager ? batch.num_rows() : num_rows_;
  }
  void multiply_parts(const StackedMatrix& parts, const ReadyRows& in, uint32_t count, const Vector* bias,
                      Into into, const FloatRows& out);

  const Device device_;
  Stream stream_;
  const KvType kv_type_;
  std::optional<WeightUpload> upload_;

  uint32_t max_rows_ = 0;
  uint32_t max_head_rows_ = 0;
  std::vector<std::variant<StackedMatrix, Vector>> weights_;
  uint64_t weights_bytes_ = 0;
  std::deque<DeviceActivation> activations_;
  bool has_activations_ = false;  // in memory
  std::optional<DeviceLogitRows> logits_;

  std::optional<KvMemory> cache_;
  StepInputs inputs_;
  RopeTables ropes_;
  DeviceBuffer<float> attend_workspace_;
  uint32_t max_positions_ = 0;

  Pass pass_ = Pass::kEager;
  const Batch* batch_ = nullptr;  // of the pass
  uint32_t num_rows_ = 0;         // of the pass, those that fill it up included
  // A whole pass brings what is made at first use, which cannot be made while capturing.
  bool has_passed_ = false;
  const bool enforce_eager_;
  DecodeGraphs graphs_;
  std::optional<GraphCapture> capture_;  // while kCapturing
};

std::string CudaBackend::device() const {
  const int capability = device_.compute_capability();
  return "cuda, " + device_.name() + ", compute capability " + std::to_string(capability / 10) + "." +
         std::to_string(capability % 10);
}

WeightHandle CudaBackend::add_weight(std::variant<StackedMatrix, Vector> weight) {
  weights_.push_back(std::move(weight));
  return {static_cast<int32_t>(weights_.size()) - 1};
}

const StackedMatrix& CudaBackend::matrix(WeightHandle handle) const {
  CHECK(handle.index >= 0 && static_cast<size_t>(handle.index) < weights_.size());
  const auto* found = std::get_if<StackedMatrix>(&weights_[handle.index]);
  CHECK(found != nullptr);
  return *found;
}

const Vector& CudaBackend::vector(WeightHandle handle) const {
  CHECK(handle.index >= 0 && static_cast<size_t>(handle.index) < weights_.size());
  const auto* found = std::get_if<Vector>(&weights_[handle.index]);
  CHECK(found != nullptr);
  return *found;
}

DeviceActivation& CudaBackend::activation(ActivationHandle handle) {
  CHECK(handle.index >= 0 && static_cast<size_t>(handle.index) < activations_.size());
  return activations_[handle.index];
}

// --- while loading

Result<void> CudaBackend::expect_weights(uint64_t bytes) {
  const uint64_t free_bytes = device_.free_bytes();
  if (bytes <= free_bytes) return {};
  return Error{ExitCode::kSystem,
               "its weights need " + std::to_string(bytes) + " bytes of the GPU's memory, of " +
                   std::to_string(device_.total_bytes()) + " there are " + std::to_string(free_bytes) +
                   " free. Use a smaller model, or end what else uses the GPU.",
               MemoryShortage{bytes, free_bytes}};
}

Result<WeightHandle> CudaBackend::load_matrix(std::span<const TensorView> stacked) {
  CHECK(!stacked.empty());
  constexpr uint64_t kMaxSize = uint64_t{1} << 30;  // of either side: indices stay in 32 bits
  StackedMatrix weight;
  for (const TensorView& tensor : stacked) {
    if (tensor.num_dims != 2 || tensor.rows() > kMaxSize || tensor.columns() > kMaxSize) {
      return Error{ExitCode::kBadModel,
                   "tensor " + quoted(tensor.name) + " is no matrix of a size that can be multiplied."};
    }
    if (tensor.columns() != stacked.front().columns()) {
      return Error{ExitCode::kBadModel, "tensor " + quoted(tensor.name) + " has " +
                                            std::to_string(tensor.columns()) + " columns, unlike " +
                                            quoted(stacked.front().name) + "."};
    }
    Result<UploadedMatrix> part = upload_->matrix(tensor);
    if (!part) return part.error();
    weights_bytes_ += part->num_bytes();
    weight.push_back(*std::move(part));
  }
  return add_weight(std::move(weight));
}

Result<WeightHandle> CudaBackend::load_vector(const TensorView& tensor) {
  if (tensor.num_dims != 1 || (tensor.type != TensorType::kF32 && tensor.type != TensorType::kF16)) {
    return Error{ExitCode::kBadModel, "tensor " + quoted(tensor.name) + " of type " +
                                          std::string(type_name(tensor.type)) +
                                          " is no vector of F32 or F16, as it would have to be."};
  }
  Result<Vector> buffer = upload_->vector(tensor);
  if (!buffer) return buffer.error();
  weights_bytes_ += buffer->num_bytes();
  return add_weight(*std::move(buffer));
}

ActivationHandle CudaBackend::new_activation(uint32_t width) {
  CHECK(max_rows_ > 0 && !has_activations_);  // set_max_rows comes before the model, the cache behind it
  activations_.emplace_back(max_rows_, width);
  return {static_cast<int32_t>(activations_.size()) - 1};
}

Result<void> CudaBackend::allocate_head(WeightHandle weight) {
  CHECK(max_head_rows_ > 0 && !logits_);
  const StackedMatrix& output = matrix(weight);
  Result<DeviceLogitRows> logits =
      DeviceLogitRows::allocate(max_head_rows_, output[0].columns, rows_of(output), stream_);
  if (!logits) return logits.error();
  logits_.emplace(*std::move(logits));
  return {};
}

void CudaBackend::set_max_rows(uint32_t max_rows, uint32_t max_head_rows) {
  CHECK(max_rows > 0 && max_head_rows > 0 && activations_.empty());
  max_rows_ = max_rows;
  max_head_rows_ = max_head_rows;
}

Result<void> CudaBackend::allocate_kv(const KvShape& shape) {
  CHECK(shape.num_heads > 0);
  stream_.synchronize();
  graphs_.clear();
  cache_.reset();  // first, so that there is room for the other one
  if (!std::exchange(has_activations_, true)) {
    for (DeviceActivation& each : activations_) {
      if (const auto allocated = each.allocate(); !allocated) return allocated;
    }
    Result<RopeTables> ropes = RopeTables::allocate(max_rows_, shape.head_dim);
    if (!ropes) return ropes.error();
    ropes_ = *std::move(ropes);
  }
  Result<KvMemory> cache = KvMemory::allocate(shape, kv_type_, stream_);
  if (!cache) return cache.error();
  cache_.emplace(*std::move(cache));
  Result<StepInputs> inputs = StepInputs::allocate(max_rows_, cache_->max_table_blocks());
  if (!inputs) return inputs.error();
  inputs_ = *std::move(inputs);
  max_positions_ = shape.max_positions;
  const AttentionShape attention{shape.num_heads, shape.num_kv_heads, shape.head_dim, 1.0f};
  Result<DeviceBuffer<float>> workspace = DeviceBuffer<float>::allocate(
      attend_workspace_floats(attention, max_rows_, max_positions_), "attention's intermediate results");
  if (!workspace) return workspace.error();
  attend_workspace_ = *std::move(workspace);
  return {};
}

// --- one step

void CudaBackend::begin_forward(const Batch& batch) {
  CHECK(cache_ && batch_ == nullptr && batch.num_rows() > 0 && batch.num_rows() <= max_rows_);
  batch_ = &batch;
  ropes_.start_step();
  const bool is_decode = batch.sequences.size() == batch.num_rows();
  const std::optional<uint32_t> padded = DecodeGraphs::padded_rows(batch.num_rows());
  const bool has_graph = has_passed_ && !enforce_eager_ && is_decode && padded && *padded <= max_rows_;
  num_rows_ = has_graph ? *padded : batch.num_rows();
  inputs_.send(batch, num_rows_, cache_->spare_block(), stream_);
  if (!has_graph) {
    pass_ = Pass::kEager;
  } else if (graphs_.find(num_rows_) != nullptr) {
    pass_ = Pass::kReplaying;
  } else {
    pass_ = Pass::kCapturing;
    capture_.emplace(stream_);
  }
}

void CudaBackend::end_forward() {
  CHECK(batch_ != nullptr);
  const bool is_wanted = batch_->num_rows() > 0;
  batch_ = nullptr;
  // A pass that nobody waits for ended before its last operation.
  has_passed_ |= is_wanted;
  if (pass_ == Pass::kEager) return;
  if (pass_ == Pass::kCapturing) {
    if (is_wanted) graphs_.add(num_rows_, capture_->end());
    capture_.reset();
  }
  if (is_wanted) graphs_.find(num_rows_)->launch(stream_);
}

void CudaBackend::embed(const Batch& batch, WeightHandle table, ActivationHandle out) {
  const StackedMatrix& rows = matrix(table);
  DeviceActivation& to = activation(out);
  CHECK(rows.size() == 1 && rows[0].columns == to.width());
  if (pass_ == Pass::kReplaying) return;
  expect_success(
      runnel::embed(rows[0].view(), inputs_.token_ids(), num_rows(batch), to.floats(), stream_.get()),
      "looking up embeddings");
}

void CudaBackend::norm(const Batch& batch, ActivationHandle in, WeightHandle gain, float epsilon,
                       ActivationHandle out) {
  DeviceActivation& from = activation(in);
  DeviceActivation& to = activation(out);
  CHECK(from.width() == to.width() && vector(gain).size() == to.width());
  if (pass_ == Pass::kReplaying) return;
  expect_success(runnel::norm(from.floats(), {}, false, num_rows(batch), vector(gain).view(), epsilon,
                              to.ready(), stream_.get()),
                 "computing a norm");
}

void CudaBackend::multiply_parts(const StackedMatrix& parts, const ReadyRows& in, uint32_t count,
                                 const Vector* bias, Into into, const FloatRows& out) {
  const Epilogue epilogue = into == Into::kAdd ? Epilogue::kAdd : Epilogue::kReplace;
  const Global<const float> biases = bias != nullptr ? bias->view() : Global<const float>(nullptr, 0);
  uint32_t first_output = 0;
  for (const UploadedMatrix& part : parts) {
    expect_success(
        multiply(part.view(), in, count, biases, bias != nullptr, epilogue, out, first_output, stream_.get()),
        "multiplying by a matrix");
    first_output += part.rows;
  }
}

void CudaBackend::linear(const Batch& batch, ActivationHandle in, WeightHandle weight, WeightHandle bias,
                         Into into, ActivationHandle out) {
  const StackedMatrix& parts = matrix(weight);
  DeviceActivation& from = activation(in);
  DeviceActivation& to = activation(out);
  const Vector* biases = bias ? &vector(bias) : nullptr;
  CHECK(parts[0].columns == from.width() && rows_of(parts) == to.width());
  CHECK(biases == nullptr || biases->size() == to.width());
  if (pass_ == Pass::kReplaying) return;
  multiply_parts(parts, from.ready(), num_rows(batch), biases, into, to.floats());
}

void CudaBackend::glu(const Batch& batch, ActivationHandle in, WeightHandle gate_up, ActivationHandle out) {
  const StackedMatrix& parts = matrix(gate_up);
  DeviceActivation& from = activation(in);
  DeviceActivation& to = activation(out);
  CHECK(parts.size() == 2 && parts[0].rows == parts[1].rows && parts[0].rows == to.width());
  CHECK(parts[0].columns == from.width());
  if (pass_ == Pass::kReplaying) return;
  expect_success(gated_multiply(parts[0].view(), parts[1].view(), from.ready(), num_rows(batch), to.ready(),
                                stream_.get()),
                 "multiplying by gate and up");
}

void CudaBackend::rope_store(const Batch& batch, uint32_t layer, const AttentionShape& shape,
                             const Rope& rope, ActivationHandle qkv) {
  DeviceActivation& rows = activation(qkv);
  CHECK(rows.width() == (shape.num_heads + 2 * shape.num_kv_heads) * shape.head_dim);
  CHECK(rope.rotary_dim <= shape.head_dim && rope.rotary_dim % 2 == 0);
  if (pass_ == Pass::kReplaying) return;
  const uint32_t count = num_rows(batch);
  const Global<const float> angles = ropes_.angles(rope, inputs_.positions(), count, stream_);
  expect_success(runnel::rope_store(shape, rope, angles, inputs_.rows(), count, rows.floats(), cache_->view(),
                                    layer, stream_.get()),
                 "storing keys and values");
}

void CudaBackend::attend(const Batch& batch, uint32_t layer, const AttentionShape& shape,
                         ActivationHandle qkv, ActivationHandle out) {
  DeviceActivation& from = activation(qkv);
  DeviceActivation& to = activation(out);
  CHECK(from.width() == (shape.num_heads + 2 * shape.num_kv_heads) * shape.head_dim);
  CHECK(to.width() == shape.num_heads * shape.head_dim);
  if (pass_ == Pass::kReplaying) return;
  const AttendInputs inputs{shape, layer, num_rows(batch), inputs_.rows(), from.floats(), cache_->view()};
  expect_success(runnel::attend(inputs, max_positions_, attend_workspace_.view(), to.ready(), stream_.get()),
                 "computing attention");
}

LogitRows& CudaBackend::head(ActivationHandle in, std::span<const uint32_t> rows, WeightHandle gain,
                             float epsilon, WeightHandle weight) {
  DeviceActivation& from = activation(in);
  const StackedMatrix& output = matrix(weight);
  const auto count = static_cast<uint32_t>(rows.size());
  CHECK(logits_ && count > 0 && vector(gain).size() == from.width());
  CHECK(logits_->input().width() == from.width() && logits_->vocab_size() == rows_of(output));
  CHECK(std::ranges::all_of(rows, [&](uint32_t row) { return row < from.max_rows(); }));

  logits_->choose(rows);
  expect_success(runnel::norm(from.floats(), logits_->chosen(), true, count, vector(gain).view(), epsilon,
                              logits_->input().ready(), stream_.get()),
                 "computing a norm");
  multiply_parts(output, logits_->input().ready(), count, nullptr, Into::kReplace, logits_->logits());
  return *logits_;
}

}  // namespace

Result<std::unique_ptr<Backend>> make_cuda_backend(const BackendOptions& options) {
  Result<Device> device = Device::open(options.gpu_device);
  if (!device) return device.error();
  load_kernels();
  auto backend = std::make_unique<CudaBackend>(*std::move(device), Stream(), options);
  if (const auto opened = backend->open_upload(); !opened) return opened.error();
  return std::unique_ptr<Backend>(std::move(backend));
}

}  // namespace runnel

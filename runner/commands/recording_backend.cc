#include "runner/commands/recording_backend.h"

#include <utility>

#include "runner/check.h"

namespace runnel {
namespace {

constexpr uint64_t kFloatBytes = sizeof(float);

// "attn_q" of "blk.3.attn_q.weight".
std::string name_in_layer(const std::string& tensor) {
  const std::string kLayer = "blk.";
  const std::string kEnd = ".weight";
  size_t begin = 0;
  if (tensor.starts_with(kLayer)) begin = tensor.find('.', kLayer.size()) + 1;
  return tensor.substr(begin, tensor.size() - begin - (tensor.ends_with(kEnd) ? kEnd.size() : 0));
}

}  // namespace

Result<WeightHandle> RecordingBackend::load_matrix(std::span<const TensorView> stacked) {
  return note(ForwardingBackend::load_matrix(stacked), stacked);
}

Result<WeightHandle> RecordingBackend::load_vector(const TensorView& vector) {
  return note(ForwardingBackend::load_vector(vector), {&vector, 1});
}

Result<WeightHandle> RecordingBackend::note(Result<WeightHandle> handle,
                                            std::span<const TensorView> tensors) {
  if (!handle.ok()) return handle;
  Weight weight{};
  for (const TensorView& tensor : tensors) {
    weight.columns = tensor.columns();
    weight.names.append(" ").append(name_in_layer(tensor.name));
    weight.rows += tensor.rows();
    weight.bytes += tensor.data.size();
  }
  weights_[handle->index] = weight;
  return handle;
}

ActivationHandle RecordingBackend::new_activation(uint32_t width) {
  const ActivationHandle handle = ForwardingBackend::new_activation(width);
  widths_[handle.index] = width;
  return handle;
}

// Of its own, for as many rows as a batch has: all of them are measured.
Result<void> RecordingBackend::allocate_head(WeightHandle output) {
  head_input_ = new_activation(static_cast<uint32_t>(weight(output).columns));
  head_output_ = new_activation(static_cast<uint32_t>(weight(output).rows));
  return {};
}

Result<void> RecordingBackend::allocate_kv(const KvShape& shape) {
  kv_position_bytes_ = kv_block_bytes(shape) / shape.num_layers / shape.block_size;
  return ForwardingBackend::allocate_kv(shape);
}

void RecordingBackend::record(const Batch& batch, RecordedOperation operation) {
  batch_ = &batch;
  operation.run(batch);
  operations_.push_back(std::move(operation));
}

void RecordingBackend::embed(const Batch& batch, WeightHandle table, ActivationHandle out) {
  const uint64_t table_row_bytes = weight(table).bytes / weight(table).rows;
  record(batch, {.name = "embed" + weight(table).names,
                 .run = [=, this](const Batch& rows) { backend_.embed(rows, table, out); },
                 .row_bytes = table_row_bytes + width(out) * kFloatBytes});
}

void RecordingBackend::norm(const Batch& batch, ActivationHandle in, WeightHandle gain, float epsilon,
                            ActivationHandle out) {
  record(batch, {.name = "norm" + weight(gain).names,
                 .run = [=, this](const Batch& rows) { backend_.norm(rows, in, gain, epsilon, out); },
                 .weight_bytes = weight(gain).bytes,
                 .row_bytes = (width(in) + width(out)) * kFloatBytes});
}

void RecordingBackend::linear(const Batch& batch, ActivationHandle in, WeightHandle matrix, WeightHandle bias,
                              Into into, ActivationHandle out) {
  const uint64_t num_written = (into == Into::kAdd ? 2 : 1) * width(out);  // adding reads them first
  record(batch, {.name = "linear" + weight(matrix).names,
                 .run = [=, this](const Batch& rows) { backend_.linear(rows, in, matrix, bias, into, out); },
                 .weight_bytes = weight(matrix).bytes + (bias ? weight(bias).bytes : 0),
                 .row_bytes = (width(in) + num_written) * kFloatBytes});
}

void RecordingBackend::glu(const Batch& batch, ActivationHandle in, WeightHandle gate_up,
                           ActivationHandle out) {
  record(batch, {.name = "glu" + weight(gate_up).names,
                 .run = [=, this](const Batch& rows) { backend_.glu(rows, in, gate_up, out); },
                 .weight_bytes = weight(gate_up).bytes,
                 .row_bytes = (width(in) + width(out)) * kFloatBytes});
}

void RecordingBackend::rope_store(const Batch& batch, uint32_t layer, const AttentionShape& shape,
                                  const Rope& rope, ActivationHandle qkv) {
  const uint64_t num_turned = uint64_t{shape.num_heads} * shape.head_dim;
  record(batch, {.name = "rope_store",
                 .stores_kv = true,
                 .run = [=, this](const Batch& rows) { backend_.rope_store(rows, layer, shape, rope, qkv); },
                 .row_bytes = (width(qkv) + num_turned) * kFloatBytes + kv_position_bytes_});
}

void RecordingBackend::attend(const Batch& batch, uint32_t layer, const AttentionShape& shape,
                              ActivationHandle qkv, ActivationHandle out) {
  const uint64_t num_queries = uint64_t{shape.num_heads} * shape.head_dim;
  record(batch, {.name = "attend",
                 .run = [=, this](const Batch& rows) { backend_.attend(rows, layer, shape, qkv, out); },
                 .row_bytes = (num_queries + width(out)) * kFloatBytes,
                 .position_bytes = kv_position_bytes_});
}

LogitRows& RecordingBackend::head(ActivationHandle in, std::span<const uint32_t>, WeightHandle gain,
                                  float epsilon, WeightHandle weight) {
  CHECK(batch_ != nullptr);
  norm(*batch_, in, gain, epsilon, head_input_);
  linear(*batch_, head_input_, weight, {}, Into::kReplace, head_output_);
  return no_logits_;
}

}  // namespace runnel

#include "runner/bench/recording_backend.h"

#include <utility>

namespace runnel {
namespace {

constexpr uint64_t kFloatBytes = sizeof(float);

// "attn_q" for "blk.3.attn_q.weight".
std::string name_in_layer(const std::string& tensor) {
  const std::string kLayer = "blk.";
  const std::string kEnd = ".weight";
  size_t begin = 0;
  if (tensor.starts_with(kLayer)) begin = tensor.find('.', kLayer.size()) + 1;
  return tensor.substr(begin, tensor.size() - begin - (tensor.ends_with(kEnd) ? kEnd.size() : 0));
}

}  // namespace

Result<WeightHandle> RecordingBackend::load_matrix(std::span<const TensorView> stacked) {
  const Result<WeightHandle> handle = ForwardingBackend::load_matrix(stacked);
  if (!handle.ok()) return handle;
  Weight weight{};
  for (const TensorView& tensor : stacked) {
    weight.names.append(" ").append(name_in_layer(tensor.name));
    weight.rows += tensor.rows();
    weight.bytes += tensor.data.size();
    weight.count += tensor.rows() * tensor.columns();
  }
  weights_[handle->index] = weight;
  return handle;
}

Result<WeightHandle> RecordingBackend::load_vector(const std::string& name, std::span<const float> values) {
  const Result<WeightHandle> handle = ForwardingBackend::load_vector(name, values);
  if (!handle.ok()) return handle;
  Weight weight{.names = " ", .rows = 1, .bytes = values.size_bytes()};
  weight.names += name_in_layer(name);
  weights_[handle->index] = weight;
  return handle;
}

Result<void> RecordingBackend::prepare(const DecoderSpec& spec, const StepLimits& limits) {
  const Result<DecoderWidths> widths = widths_of(spec);
  if (!widths.ok()) return widths.error();
  widths_ = *widths;
  return ForwardingBackend::prepare(spec, limits);
}

Result<void> RecordingBackend::allocate_kv(const KvShape& shape) {
  kv_position_bytes_ = kv_block_bytes(shape) / shape.num_layers / shape.block_size;
  return ForwardingBackend::allocate_kv(shape);
}

void RecordingBackend::embed(const Batch& batch, const EmbeddingSpec& embedding) {
  const Weight& table = weight(embedding.table);
  record({.name = "embed" + table.names,
          .run = [=, this](const Batch& rows) { backend_.embed(rows, embedding); },
          .row_bytes = table.bytes / table.rows + widths_.hidden * kFloatBytes});
  backend_.embed(batch, embedding);
}

void RecordingBackend::qkv(const Batch& batch, const LayerSpec& layer) {
  const QkvSpec& qkv = layer.qkv;
  record({.name = "qkv" + names(qkv.norm.gain) + names(qkv.weight) + names(qkv.bias),
          .stores_kv = true,
          .run = [=, this](const Batch& rows) { backend_.qkv(rows, layer); },
          .weight_bytes = bytes(qkv.norm.gain) + bytes(qkv.weight) + bytes(qkv.bias),
          .row_bytes = (widths_.hidden + widths_.attended) * kFloatBytes + kv_position_bytes_,
          .row_products = products(qkv.weight)});
  backend_.qkv(batch, layer);
}

void RecordingBackend::attend(const Batch& batch, const LayerSpec& layer) {
  record({.name = "attend",
          .run = [=, this](const Batch& rows) { backend_.attend(rows, layer); },
          .row_bytes = 2 * uint64_t{widths_.attended} * kFloatBytes,
          .position_bytes = kv_position_bytes_,
          // A query with a key, and a weight with a value.
          .position_products = 2 * uint64_t{widths_.attended}});
  backend_.attend(batch, layer);
}

void RecordingBackend::project(const Batch& batch, const ProjectSpec& project) {
  const uint64_t input = project.input == ProjectInput::kAttended ? widths_.attended : widths_.gated;
  record({.name = "project" + names(project.weight) + names(project.bias),
          .run = [=, this](const Batch& rows) { backend_.project(rows, project); },
          .weight_bytes = bytes(project.weight) + bytes(project.bias),
          // The values that the product is added to are read first.
          .row_bytes = (input + 2 * uint64_t{widths_.hidden}) * kFloatBytes,
          .row_products = products(project.weight, project.experts)});
  backend_.project(batch, project);
}

void RecordingBackend::ffn(const Batch& batch, const FfnSpec& ffn) {
  record({.name = "ffn" + names(ffn.norm.gain) + names(ffn.gate_up),
          .run = [=, this](const Batch& rows) { backend_.ffn(rows, ffn); },
          .weight_bytes = bytes(ffn.norm.gain) + bytes(ffn.gate_up),
          .row_bytes = (widths_.hidden + widths_.gated) * kFloatBytes,
          .row_products = products(ffn.gate_up, ffn.experts)});
  backend_.ffn(batch, ffn);
}

LogitRows& RecordingBackend::head(const HeadSpec& head, std::span<const HeadRow> rows) {
  const auto run = [=, this](const Batch& batch) {
    std::vector<HeadRow> all;
    for (uint32_t row = 0; row < batch.num_rows(); ++row) all.push_back({.row = row});
    backend_.head(head, all);
  };
  record({.name = "head" + names(head.norm.gain) + names(head.weight),
          .run = run,
          .weight_bytes = bytes(head.norm.gain) + bytes(head.weight),
          .row_bytes = (widths_.hidden + uint64_t{head.vocab_size}) * kFloatBytes,
          .row_products = products(head.weight)});
  return backend_.head(head, rows);
}

}  // namespace runnel

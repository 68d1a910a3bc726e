#include "runner/commands/layer_watch.h"

namespace runnel {

Result<void> LayerWatch::prepare(const DecoderSpec& spec, const StepLimits& limits) {
  const LayerSpec& first = spec.layers.front();
  attention_ = first.attention;
  changes_keys_ = first.qkv.key_norm || spec.ropes.at(first.qkv.rope).pairs.rotary_dim > 0;
  return ForwardingBackend::prepare(spec, limits);
}

void LayerWatch::qkv(const Batch& batch, const LayerSpec& layer) {
  is_first_layer_ = layer.index == 0;
  if (is_first_layer_) keep("before", Flow::kHidden, batch);
  backend_.qkv(batch, layer);
  if (!is_first_layer_) return;
  keep("norm", Flow::kNormed, batch);
  keep("qkv", Flow::kQkv, batch);
  const BatchSequence& sequence = batch.sequences.front();
  values_["cache"] = backend_.flows().read_kv(layer, sequence, sequence.first_position + sequence.num_rows);
}

void LayerWatch::attend(const Batch& batch, const LayerSpec& layer) {
  backend_.attend(batch, layer);
  if (is_first_layer_) keep("attended", Flow::kAttended, batch);
}

void LayerWatch::ffn(const Batch& batch, const FfnSpec& ffn) {
  backend_.ffn(batch, ffn);
  if (!is_first_layer_) return;
  keep("ffn_norm", Flow::kNormed, batch);
  if (ffn.experts.num_experts == 0) keep("gated", Flow::kGated, batch);
}

void LayerWatch::project(const Batch& batch, const ProjectSpec& project) {
  backend_.project(batch, project);
  if (!is_first_layer_) return;
  // What was added to the hidden state.
  const bool is_of_attention = project.input == ProjectInput::kAttended;
  keep("block", Flow::kHidden, batch);
  std::vector<float>& added = values_[is_of_attention ? "attention" : "ffn"];
  added = values_["block"];
  for (size_t i = 0; i < added.size(); ++i) added[i] -= values_["before"][i];
  values_["before"] = values_["block"];
}

}  // namespace runnel

#include "runner/backend/decoder_spec.h"

#include <algorithm>
#include <string>

#include "runner/check.h"

namespace runnel {
namespace {

uint32_t qkv_width(const AttentionShape& shape) {
  return (shape.num_heads + 2 * shape.num_kv_heads) * shape.head_dim;
}

Error differs(const LayerSpec& layer, const char* what, uint32_t width, uint32_t first) {
  return {ExitCode::kBadModel, "layer " + std::to_string(layer.index) + " has " + what + " of " +
                                   std::to_string(width) + " values, and the first layer of " +
                                   std::to_string(first) + "; layers of different widths are not supported."};
}

}  // namespace

Result<DecoderWidths> widths_of(const DecoderSpec& spec) {
  CHECK(!spec.layers.empty());
  const LayerSpec& first = spec.layers.front();
  const DecoderWidths widths{.hidden = spec.hidden_size,
                             .qkv = qkv_width(first.attention),
                             .attended = first.attention.num_heads * first.attention.head_dim,
                             .gated = first.ffn.width,
                             .experts = first.ffn.experts,
                             .has_output_norm = std::ranges::any_of(spec.layers, [](const LayerSpec& layer) {
                               return layer.attention_output.norms_product() ||
                                      layer.ffn_output.norms_product();
                             })};
  for (const LayerSpec& layer : spec.layers) {
    const uint32_t qkv = qkv_width(layer.attention);
    const uint32_t attended = layer.attention.num_heads * layer.attention.head_dim;
    if (qkv != widths.qkv) return differs(layer, "queries, keys and values", qkv, widths.qkv);
    if (attended != widths.attended) return differs(layer, "queries", attended, widths.attended);
    if (layer.ffn.width != widths.gated)
      return differs(layer, "a feed-forward part", layer.ffn.width, widths.gated);
    if (layer.ffn.experts.num_experts != widths.experts.num_experts ||
        layer.ffn.experts.num_used != widths.experts.num_used)
      return differs(layer, "experts", layer.ffn.experts.num_experts, widths.experts.num_experts);
  }
  return widths;
}

uint32_t num_kv_groups(const DecoderSpec& spec) {
  uint32_t count = 0;
  for (const LayerSpec& layer : spec.layers) count = std::max(count, layer.kv.group + 1);
  return count;
}

}  // namespace runnel

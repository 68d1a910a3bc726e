#include "runner/models/granite.h"

#include <utility>

#include "runner/models/layer_tensors.h"
#include "runner/models/rope.h"

namespace runnel {
namespace {

// The residual stream divided by the factor r of what is added to it: nothing needs a factor then but the
// embedding. A norm gives the same of both, if its epsilon is divided by r * r.
ModelConfig divided_by_residual_scale(ModelConfig config) {
  const double scale = config.residual_scale;
  config.embedding_scale /= scale;
  config.norm_epsilon = static_cast<float>(double{config.norm_epsilon} / (scale * scale));
  return config;
}

}  // namespace

Result<void> read_granite(const HyperParameters& parameters, ModelConfig& config) {
  constexpr double kMinScale = 1e-4;
  constexpr double kMaxScale = 1e4;
  constexpr const char* kFinetuned = "rope.scaling.finetuned";  // false means that nothing rotates
  if (parameters.has(kFinetuned))
    return parameters.error("has " + parameters.key(kFinetuned) + ", which is not supported");
  for (const auto& [name, field] : {std::pair("embedding_scale", &config.embedding_scale),
                                    std::pair("residual_scale", &config.residual_scale),
                                    std::pair("attention.scale", &config.attention_scale),
                                    std::pair("logit_scale", &config.logit_divisor)}) {
    const Result<double> value = parameters.number(name, kMinScale, kMaxScale, {});
    if (!value) return value.error();
    *field = static_cast<float>(*value);  // the precision that GGUF has
  }
  return {};
}

DecoderSpec granite_spec(const ModelConfig& config, WeightLoader& loader) {
  const ModelConfig divided = divided_by_residual_scale(config);
  DecoderSpec spec = usual_decoder(divided, loader);
  spec.embedding.scale = static_cast<float>(divided.embedding_scale);
  spec.ropes.push_back(usual_rope(neighbour_pairs(config), config));
  for (uint32_t index = 0; index < config.num_layers; ++index) {
    spec.layers.push_back(LayerTensors(index, divided, loader).usual_layer());
    spec.layers.back().attention.scale = static_cast<float>(config.attention_scale);
  }
  return spec;
}

}  // namespace runnel

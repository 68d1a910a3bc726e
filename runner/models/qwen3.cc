#include "runner/models/qwen3.h"

#include "runner/models/experts.h"
#include "runner/models/layer_tensors.h"
#include "runner/models/rope.h"

namespace runnel {
namespace {

constexpr uint64_t kNumAnswers = 2;

}  // namespace

Result<void> read_qwen3moe(const HyperParameters& parameters, ModelConfig& config) {
  return read_experts(parameters, "expert_feed_forward_length", config);
}

DecoderSpec qwen3_spec(const ModelConfig& config, WeightLoader& loader) {
  DecoderSpec spec = usual_decoder(config, loader);
  spec.ropes.push_back(usual_rope(split_pairs(config), config));
  for (uint32_t index = 0; index < config.num_layers; ++index) {
    LayerTensors tensors(index, config, loader);
    spec.layers.push_back(tensors.usual_layer());
    tensors.add_head_norms(spec.layers.back().qkv);
  }
  // llama.cpp's converter gives rerankers a head of the output matrix's rows for "yes" and "no". The matrix
  // itself gives these logits; the gateway checks the labels.
  if (const std::string head = "cls.output.weight"; loader.has(head))
    loader.leave(head, kNumAnswers, config.hidden_size);
  return spec;
}

}  // namespace runnel

#include "runner/models/smollm3.h"

#include "runner/models/layer_tensors.h"
#include "runner/models/rope.h"

namespace runnel {
namespace {

// Indices into DecoderSpec::ropes.
enum : uint32_t { kUsualRope, kNoRope };

constexpr uint32_t kNoRopeEvery = 4;  // no file says so

}  // namespace

DecoderSpec smollm3_spec(const ModelConfig& config, WeightLoader& loader) {
  DecoderSpec spec = usual_decoder(config, loader);
  spec.ropes.push_back(usual_rope(neighbour_pairs(config), config));
  spec.ropes.push_back({.pairs = {0, false}, .frequencies = {}});
  for (uint32_t index = 0; index < config.num_layers; ++index) {
    spec.layers.push_back(LayerTensors(index, config, loader).usual_layer());
    spec.layers.back().qkv.rope = (index + 1) % kNoRopeEvery == 0 ? kNoRope : kUsualRope;
  }
  return spec;
}

}  // namespace runnel

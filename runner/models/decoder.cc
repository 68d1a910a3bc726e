#include "runner/models/decoder.h"

#include <algorithm>

namespace runnel {
namespace {

// Calls end_forward() however the pass ends.
class ForwardPass {
 public:
  ForwardPass(Backend& backend, const Batch& batch) : backend_(backend) { backend_.begin_forward(batch); }
  ~ForwardPass() { backend_.end_forward(); }
  ForwardPass(const ForwardPass&) = delete;
  ForwardPass& operator=(const ForwardPass&) = delete;

 private:
  Backend& backend_;
};

}  // namespace

Result<std::unique_ptr<Model>> Decoder::create(const ModelConfig& config, DecoderSpec spec, Backend& backend,
                                               const StepLimits& limits) {
  std::unique_ptr<Decoder> decoder(new Decoder(config, std::move(spec), backend));
  for (RopeSpec& rope : decoder->spec_.ropes) {
    if (config.max_positions <= rope.max_short_positions) rope.frequencies = rope.short_frequencies;
    decoder->config_.max_short_positions =
        std::max(decoder->config_.max_short_positions, rope.max_short_positions);
  }
  if (const auto prepared = backend.prepare(decoder->spec_, limits); !prepared) return prepared.error();
  return std::unique_ptr<Model>(std::move(decoder));
}

void Decoder::forward(Batch& batch, const BetweenLayers& between_layers) {
  const ForwardPass pass(backend_, batch);
  backend_.embed(batch, spec_.embedding);
  for (const LayerSpec& layer : spec_.layers) {
    if (layer.index > 0) between_layers(batch);
    if (batch.num_rows() == 0) return;
    backend_.qkv(batch, layer);
    backend_.attend(batch, layer);
    backend_.project(batch, layer.attention_output);
    backend_.ffn(batch, layer.ffn);
    backend_.project(batch, layer.ffn_output);
  }
}

}  // namespace runnel

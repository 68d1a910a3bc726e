#include "runner/models/llama.h"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "runner/check.h"
#include "runner/models/weight_loader.h"

namespace runnel {
namespace {

// Ended however the pass ends.
class ForwardPass {
 public:
  ForwardPass(Backend& backend, const Batch& batch) : backend_(backend) { backend_.begin_forward(batch); }
  ~ForwardPass() { backend_.end_forward(); }
  ForwardPass(const ForwardPass&) = delete;
  ForwardPass& operator=(const ForwardPass&) = delete;

 private:
  Backend& backend_;
};

struct Layer {
  WeightHandle attention_norm;    // (hidden)
  WeightHandle query_key_value;   // (heads + 2 kv heads, hidden), heads of head_dim rows
  WeightHandle attention_output;  // (hidden, heads)
  WeightHandle ffn_norm;          // (hidden)
  WeightHandle gate_up;           // (2 ffn, hidden)
  WeightHandle down;              // (hidden, ffn)
};

struct Weights {
  WeightHandle embedding;  // (vocab, hidden)
  std::vector<Layer> layers;
  WeightHandle output_norm;  // (hidden)
  WeightHandle output;       // (vocab, hidden); the embedding again where the file ties them
};

class Llama final : public Model {
 public:
  Llama(const ModelConfig& config, Weights weights, Backend& backend)
      : config_(config),
        attention_{config.num_heads, config.num_kv_heads, config.head_dim,
                   1.0f / std::sqrt(static_cast<float>(config.head_dim)), config.sliding_window},
        // GGUF stores the rows of this architecture's queries and keys so that a pair's two values are
        // neighbours.
        rope_{config.rotary_dim, config.rope_theta, /*interleaved=*/true},
        weights_(std::move(weights)),
        backend_(backend),
        hidden_(backend.new_activation(config.hidden_size)),
        normed_(backend.new_activation(config.hidden_size)),
        query_key_value_(
            backend.new_activation((config.num_heads + 2 * config.num_kv_heads) * config.head_dim)),
        attended_(backend.new_activation(config.num_heads * config.head_dim)),
        gated_(backend.new_activation(config.ffn_size)) {}

  const ModelConfig& config() const override { return config_; }

  void forward(Batch& batch, const BetweenLayers& between_layers) override {
    using enum Backend::Into;
    const ForwardPass pass(backend_, batch);
    backend_.embed(batch, weights_.embedding, hidden_);
    for (uint32_t index = 0; index < config_.num_layers; ++index) {
      if (index > 0) between_layers(batch);
      if (batch.num_rows() == 0) return;
      const Layer& layer = weights_.layers[index];
      backend_.norm(batch, hidden_, layer.attention_norm, config_.norm_epsilon, normed_);
      backend_.linear(batch, normed_, layer.query_key_value, kNoBias, kReplace, query_key_value_);
      backend_.rope_store(batch, index, attention_, rope_, query_key_value_);
      backend_.attend(batch, index, attention_, query_key_value_, attended_);
      backend_.linear(batch, attended_, layer.attention_output, kNoBias, kAdd, hidden_);

      backend_.norm(batch, hidden_, layer.ffn_norm, config_.norm_epsilon, normed_);
      backend_.glu(batch, normed_, layer.gate_up, gated_);
      backend_.linear(batch, gated_, layer.down, kNoBias, kAdd, hidden_);
    }
  }

  LogitRows& logits(std::span<const uint32_t> rows) override {
    return backend_.head(hidden_, rows, weights_.output_norm, config_.norm_epsilon, weights_.output);
  }

 private:
  static constexpr WeightHandle kNoBias{};

  const ModelConfig config_;
  const AttentionShape attention_;
  const Rope rope_;
  const Weights weights_;
  Backend& backend_;
  const ActivationHandle hidden_;  // the residual stream
  const ActivationHandle normed_;
  const ActivationHandle query_key_value_;
  const ActivationHandle attended_;
  const ActivationHandle gated_;
};

Weights load_weights(WeightLoader& loader, const ModelConfig& config) {
  const uint64_t hidden = config.hidden_size;
  const uint64_t query_rows = uint64_t{config.num_heads} * config.head_dim;
  const uint64_t kv_rows = uint64_t{config.num_kv_heads} * config.head_dim;
  Weights weights;
  weights.embedding = loader.matrix({{"token_embd.weight", config.vocab_size}}, hidden);
  for (uint32_t index = 0; index < config.num_layers; ++index) {
    const std::string block = "blk." + std::to_string(index) + ".";
    weights.layers.push_back({
        .attention_norm = loader.vector(block + "attn_norm.weight", hidden),
        .query_key_value = loader.matrix({{block + "attn_q.weight", query_rows},
                                          {block + "attn_k.weight", kv_rows},
                                          {block + "attn_v.weight", kv_rows}},
                                         hidden),
        .attention_output = loader.matrix({{block + "attn_output.weight", hidden}}, query_rows),
        .ffn_norm = loader.vector(block + "ffn_norm.weight", hidden),
        .gate_up = loader.matrix({{block + "ffn_gate.weight", config.ffn_size},  //
                                  {block + "ffn_up.weight", config.ffn_size}},
                                 hidden),
        .down = loader.matrix({{block + "ffn_down.weight", hidden}}, config.ffn_size),
    });
  }
  weights.output_norm = loader.vector("output_norm.weight", hidden);
  weights.output = loader.has("output.weight") ? loader.matrix({{"output.weight", config.vocab_size}}, hidden)
                                               : weights.embedding;
  return weights;
}

}  // namespace

Result<std::unique_ptr<Model>> load_llama(const GgufFile& file, const ModelConfig& config, Backend& backend,
                                          const LoadProgressFn& progress) {
  WeightLoader loader(file, backend, progress);
  Weights weights = load_weights(loader, config);
  const Result<void> loaded = loader.finish();
  if (!loaded) return loaded.error();
  if (const auto allocated = backend.allocate_head(weights.output); !allocated) return allocated.error();
  return std::unique_ptr<Model>(std::make_unique<Llama>(config, std::move(weights), backend));
}

}  // namespace runnel

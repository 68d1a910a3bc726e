// Reads the hyper-parameters of a file. Every number that the program later divides by, multiplies or
// reserves memory with is checked here, so that later code need not check it again.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "runner/backend/numerics.h"
#include "runner/formats/in_quotes.h"
#include "runner/models/architectures.h"
#include "runner/models/hyper_parameters.h"
#include "runner/models/registry.h"

namespace runnel {
namespace {

constexpr uint64_t kMaxLayers = 1024;
constexpr uint64_t kMaxHiddenSize = 1 << 16;
constexpr uint64_t kMaxHeads = 1024;
constexpr uint64_t kMaxHeadDim = 256;
constexpr uint64_t kMaxFfnSize = 1 << 20;
constexpr uint64_t kMaxVocabSize = 1 << 24;
constexpr uint64_t kMaxTrainedLength = 1 << 30;  // positions
// A model that was trained for more positions is served with these. The first pair of a head rotates by one
// radian a position, and sin_cos_f64 is accurate enough below 2^20.
constexpr uint32_t kMaxContextLength = 1 << 20;
constexpr double kMaxRopeTheta = 1e12;
constexpr double kMaxRopeFactor = 1e6;

// Refuses variants that other programs support and this one would compute wrongly.
Result<void> refuse_variants(const HyperParameters& parameters, const Architecture& architecture) {
  for (const char* name : {"attn_logit_softcapping", "final_logit_softcapping"}) {
    if (architecture.has_softcaps) break;
    const Result<double> cap = parameters.number(name, -1e9, 1e9, 0.0);
    if (!cap) return cap.error();
    if (*cap != 0.0) return parameters.error("has " + parameters.key(name) + ", which is not supported");
  }
  if (!architecture.has_experts) {
    const Result<uint32_t> experts = parameters.count_or_none("expert_count", kMaxExperts);
    if (!experts) return experts.error();
    if (*experts != 0)
      return parameters.error("has " + parameters.key("expert_count") +
                              ", which is not supported for this architecture");
  }
  return {};
}

// Reads YaRN's numbers, with the defaults of llama.cpp and transformers. The magnitude grows with the factor.
Result<void> read_yarn(const HyperParameters& parameters, ModelConfig& config) {
  constexpr double kMinTurns = 1e-3;
  constexpr double kMaxTurns = 1e6;
  constexpr double kMaxMagnitude = 16.0;
  for (const char* name : {"rope.scaling.yarn_ext_factor", "rope.scaling.yarn_attn_factor",
                           "rope.scaling.yarn_log_multiplier"}) {
    if (parameters.has(name))
      return parameters.error("has " + parameters.key(name) + ", which is not supported");
  }
  if (config.rope_theta <= 1.0)
    return parameters.error("asks for rope scaling \"yarn\" of pairs that all turn equally fast");
  const auto original = parameters.count("rope.scaling.original_context_length", kMaxTrainedLength);
  if (!original) return original.error();
  const auto fast = parameters.number("rope.scaling.yarn_beta_fast", kMinTurns, kMaxTurns, 32.0);
  if (!fast) return fast.error();
  const auto slow = parameters.number("rope.scaling.yarn_beta_slow", kMinTurns, *fast, 1.0);
  if (!slow) return slow.error();
  const auto magnitude =
      parameters.number("rope.scaling.attn_factor", 1.0 / kMaxMagnitude, kMaxMagnitude, 1.0);
  if (!magnitude) return magnitude.error();
  config.original_context_length = *original;
  config.yarn_fast_turns = *fast;
  config.yarn_slow_turns = *slow;
  config.rope_magnitude = *magnitude * (1.0 + 0.1 * log_f64(config.rope_factor));
  return {};
}

// Reads how positions are scaled: by one factor, or by YaRN. The factors of Llama 3 and of Phi-3 are tensors.
Result<void> read_rope_scaling(const HyperParameters& parameters, const Architecture& architecture,
                               ModelConfig& config) {
  const Result<std::optional<std::string>> type = parameters.text("rope.scaling.type");
  if (!type) return type.error();
  const std::string name = type->value_or("none");
  if (name != "none" && name != "linear" && name != architecture.rope_scaling)
    return parameters.error("asks for rope scaling " + in_quotes(name) + ", which is not supported");
  config.rope_factor = 1.0;
  for (const char* key : {"rope.scale_linear", "rope.scaling.factor"}) {
    const Result<double> value = parameters.number(key, 1.0, kMaxRopeFactor, config.rope_factor);
    if (!value) return value.error();
    config.rope_factor = *value;
  }
  if (name == "yarn") return read_yarn(parameters, config);
  if (architecture.rope_scaling != "longrope" && parameters.has("rope.scaling.attn_factor")) {
    return parameters.error("has " + parameters.key("rope.scaling.attn_factor") +
                            ", which is not supported for this architecture");
  }
  return {};
}

Result<uint32_t> vocabulary_size(const ModelFile& file, const HyperParameters& parameters) {
  const TensorView* embedding = file.find_tensor("token_embd.weight");
  if (embedding == nullptr) return parameters.error("lacks " + file.what_of("token_embd.weight"));
  const uint64_t rows = embedding->rows();
  if (rows > kMaxVocabSize) {
    return parameters.error("has a vocabulary of " + std::to_string(rows) + " tokens; at most " +
                            std::to_string(kMaxVocabSize) + " are supported");
  }
  const uint64_t num_tokens = file.array_length("tokenizer.ggml.tokens").value_or(rows);
  if (num_tokens > rows) {
    return parameters.error("names " + std::to_string(num_tokens) + " tokens but has weights for " +
                            std::to_string(rows));
  }
  return static_cast<uint32_t>(rows);
}

Result<const Architecture*> checked_architecture(const ModelFile& file, std::string_view expected) {
  const std::optional<std::string> found = file.text("general.architecture");
  if (!found) return Error{ExitCode::kBadModel, file.path() + " lacks metadata general.architecture."};
  const Architecture* architecture = find_architecture(*found);
  if (architecture == nullptr) {
    const std::string_view missing = missing_operations(*found);
    const std::string reason = missing.empty() ? "" : ": it needs " + std::string(missing);
    return Error{ExitCode::kBadModel, file.path() + " is of architecture " + in_quotes(*found) +
                                          ", which is not supported" + reason +
                                          "; supported: " + architecture_names() + "."};
  }
  if (!expected.empty() && *found != expected) {
    return Error{ExitCode::kBadModel, file.path() + " is of architecture " + in_quotes(*found) + ", not " +
                                          in_quotes(expected) + " as was asked for."};
  }
  return architecture;
}

// Reads the number of heads and their widths; hidden_size must be set already.
Result<void> read_heads(const HyperParameters& parameters, ModelConfig& config) {
  const auto num_heads = parameters.count("attention.head_count", kMaxHeads);
  if (!num_heads) return num_heads.error();
  const auto num_kv_heads = parameters.count("attention.head_count_kv", kMaxHeads, *num_heads);
  if (!num_kv_heads) return num_kv_heads.error();
  if (*num_heads % *num_kv_heads != 0) {
    return parameters.error("has " + std::to_string(*num_heads) + " query heads and " +
                            std::to_string(*num_kv_heads) +
                            " key heads; the first number must be a multiple of the second");
  }
  const uint32_t even_share = config.hidden_size / *num_heads;
  const auto head_dim = parameters.count("attention.key_length", kMaxHeadDim, even_share);
  if (!head_dim) return head_dim.error();
  if (*head_dim == even_share && config.hidden_size % *num_heads != 0) {
    return parameters.error("has a width of " + std::to_string(config.hidden_size) +
                            ", which is not a multiple of its " + std::to_string(*num_heads) + " heads");
  }
  if (*head_dim > kMaxHeadDim) {
    return parameters.error("has heads of " + std::to_string(*head_dim) + " values; at most " +
                            std::to_string(kMaxHeadDim) + " are supported");
  }
  const auto value_dim = parameters.count("attention.value_length", kMaxHeadDim, *head_dim);
  if (!value_dim) return value_dim.error();
  if (*value_dim != *head_dim) {
    return parameters.error("has keys of " + std::to_string(*head_dim) + " and values of " +
                            std::to_string(*value_dim) + " numbers; they must be equal");
  }
  const auto rotary_dim = parameters.count("rope.dimension_count", *head_dim, *head_dim);
  if (!rotary_dim) return rotary_dim.error();
  if (*rotary_dim % 2 != 0) {
    return parameters.error("has " + parameters.key("rope.dimension_count") + " " +
                            std::to_string(*rotary_dim) + "; it must be even");
  }
  config.num_heads = *num_heads;
  config.num_kv_heads = *num_kv_heads;
  config.head_dim = *head_dim;
  config.rotary_dim = *rotary_dim;
  return {};
}

// Reads the sizes that every architecture has. Each must be at least one and within the limit above.
Result<void> read_sizes(const HyperParameters& parameters, ModelConfig& config) {
  const std::pair<const char*, std::pair<uint64_t, uint32_t*>> counts[] = {
      {"block_count", {kMaxLayers, &config.num_layers}},
      {"embedding_length", {kMaxHiddenSize, &config.hidden_size}},
      {"feed_forward_length", {kMaxFfnSize, &config.ffn_size}},
      {"context_length", {kMaxTrainedLength, &config.context_length}},
  };
  for (const auto& [name, limit_and_field] : counts) {
    const Result<uint32_t> value = parameters.count(name, limit_and_field.first);
    if (!value) return value.error();
    *limit_and_field.second = *value;
  }
  config.context_length = std::min(config.context_length, kMaxContextLength);
  if (config.context_length < 2)
    return parameters.error("has " + parameters.key("context_length") + " 1; a prompt and an answer need 2");
  return {};
}

}  // namespace

Result<ModelConfig> read_config(const ModelFile& file, std::string_view expected_architecture) {
  const Result<const Architecture*> architecture = checked_architecture(file, expected_architecture);
  if (!architecture) return architecture.error();
  const HyperParameters parameters(file, std::string((*architecture)->name));
  if (const auto known = refuse_variants(parameters, **architecture); !known) return known.error();

  ModelConfig config{};
  config.architecture = (*architecture)->name;
  if (const auto sizes = read_sizes(parameters, config); !sizes) return sizes.error();
  config.max_positions = config.context_length;
  if (const auto heads = read_heads(parameters, config); !heads) return heads.error();
  // With less than 1, a pair would rotate faster than one radian a position.
  const Result<double> theta = parameters.number("rope.freq_base", 1.0, kMaxRopeTheta, 10'000.0);
  if (!theta) return theta.error();
  config.rope_theta = *theta;
  if (const auto scaling = read_rope_scaling(parameters, **architecture, config); !scaling)
    return scaling.error();
  // Zero is refused, since the norm of a row of zeros would divide by it.
  const Result<double> epsilon = parameters.number((*architecture)->epsilon_key, 1e-30, 1.0, {});
  if (!epsilon) return epsilon.error();
  config.norm_epsilon = static_cast<float>(*epsilon);
  // Mistral's files have a window of 4096 positions. Some files without a window say zero.
  const Result<uint32_t> window =
      parameters.count_or_none("attention.sliding_window", std::numeric_limits<uint32_t>::max());
  if (!window) return window.error();
  config.sliding_window = *window;
  const Result<uint32_t> vocab_size = vocabulary_size(file, parameters);
  if (!vocab_size) return vocab_size.error();
  config.vocab_size = *vocab_size;
  if ((*architecture)->read != nullptr) {
    if (const auto read = (*architecture)->read(parameters, config); !read) return read.error();
  }
  return config;
}

}  // namespace runnel

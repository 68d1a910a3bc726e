// Hyper-parameters from a file's metadata. Every number that the program later divides by, multiplies or
// reserves memory with is bounded here, so that nothing after it has to ask again.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "runner/formats/quoted.h"
#include "runner/models/architectures.h"
#include "runner/models/registry.h"

namespace runnel {
namespace {

constexpr uint64_t kMaxLayers = 1024;
constexpr uint64_t kMaxHiddenSize = 1 << 16;
constexpr uint64_t kMaxHeads = 1024;
constexpr uint64_t kMaxHeadDim = 256;
constexpr uint64_t kMaxFfnSize = 1 << 20;
constexpr uint64_t kMaxVocabSize = 1 << 24;
// The first pair of a head turns by one radian a position, and sin_cos_f64 is exact enough below 2^20.
constexpr uint64_t kMaxContextLength = 1 << 20;
constexpr double kMaxRopeTheta = 1e12;

class Metadata {
 public:
  Metadata(const GgufFile& file, std::string architecture)
      : file_(file), architecture_(std::move(architecture)) {}

  std::string key(std::string_view name) const { return architecture_ + "." + std::string(name); }

  Error error(const std::string& sentence) const {
    return Error{ExitCode::kBadModel, file_.path() + " " + sentence + "."};
  }

  // A whole number from 1 to max; the default stands in for a key that is not there.
  Result<uint32_t> count(std::string_view name, uint64_t max, std::optional<uint32_t> otherwise = {}) const {
    if (file_.find(key(name)) == nullptr) {
      if (otherwise) return *otherwise;
      return error("lacks metadata " + key(name));
    }
    const std::optional<uint64_t> value = file_.unsigned_integer(key(name));
    if (!value) return error("has a " + key(name) + " that is no unsigned integer");
    if (*value < 1 || *value > max) {
      return error("has " + key(name) + " " + std::to_string(*value) + "; it must be from 1 to " +
                   std::to_string(max));
    }
    return static_cast<uint32_t>(*value);
  }

  // A number in [min, max], which a NaN is not.
  Result<double> number(std::string_view name, double min, double max,
                        std::optional<double> otherwise) const {
    if (file_.find(key(name)) == nullptr) {
      if (otherwise) return *otherwise;
      return error("lacks metadata " + key(name));
    }
    const std::optional<double> value = file_.number(key(name));
    if (!value) return error("has a " + key(name) + " that is no floating-point number");
    if (!(*value >= min && *value <= max)) {
      return error("has " + key(name) + " " + std::to_string(*value) +
                   ", outside of what can be computed with");
    }
    return *value;
  }

 private:
  const GgufFile& file_;
  std::string architecture_;
};

// Variants that other programs run and this one would get wrong.
Result<void> refuse_variants(const GgufFile& file, const Metadata& metadata) {
  if (file.find(metadata.key("rope.scaling.type")) != nullptr) {
    const std::string type = file.text(metadata.key("rope.scaling.type")).value_or("of no text");
    if (type != "none")
      return metadata.error("asks for rope scaling " + quoted(type) + ", which is not supported");
  }
  for (const char* name : {"rope.scale_linear", "rope.scaling.factor"}) {
    if (file.find(metadata.key(name)) != nullptr && file.number(metadata.key(name)) != 1.0) {
      return metadata.error("has " + metadata.key(name) + "; scaled rope is not supported");
    }
  }
  const std::string experts = metadata.key("expert_count");
  if (file.find(experts) != nullptr && file.unsigned_integer(experts) != 0)
    return metadata.error("has " + experts + ", which is not supported");
  return {};
}

Result<uint32_t> vocabulary_size(const GgufFile& file, const Metadata& metadata) {
  const TensorView* embedding = file.find_tensor("token_embd.weight");
  if (embedding == nullptr) return metadata.error("lacks tensor \"token_embd.weight\"");
  const uint64_t rows = embedding->rows();
  if (rows > kMaxVocabSize) {
    return metadata.error("has a vocabulary of " + std::to_string(rows) + " tokens; at most " +
                          std::to_string(kMaxVocabSize) + " are supported");
  }
  const uint64_t num_tokens = file.array_length("tokenizer.ggml.tokens").value_or(rows);
  if (num_tokens > rows) {
    return metadata.error("names " + std::to_string(num_tokens) + " tokens but has weights for " +
                          std::to_string(rows));
  }
  return static_cast<uint32_t>(rows);
}

Result<std::string> checked_architecture(const GgufFile& file, std::string_view expected) {
  const std::optional<std::string> found = file.text("general.architecture");
  if (!found) return Error{ExitCode::kBadModel, file.path() + " lacks metadata general.architecture."};
  if (find_architecture(*found) == nullptr) {
    return Error{ExitCode::kBadModel, file.path() + " is of architecture " + quoted(*found) +
                                          ", which is not supported; supported: " + architecture_names() +
                                          "."};
  }
  if (!expected.empty() && *found != expected) {
    return Error{ExitCode::kBadModel, file.path() + " is of architecture " + quoted(*found) + ", not " +
                                          quoted(expected) + " as was asked for."};
  }
  return *found;
}

// Heads and their widths; hidden_size is set already.
Result<void> read_heads(const Metadata& metadata, ModelConfig& config) {
  const auto num_heads = metadata.count("attention.head_count", kMaxHeads);
  if (!num_heads) return num_heads.error();
  const auto num_kv_heads = metadata.count("attention.head_count_kv", kMaxHeads, *num_heads);
  if (!num_kv_heads) return num_kv_heads.error();
  if (*num_heads % *num_kv_heads != 0) {
    return metadata.error("has " + std::to_string(*num_heads) + " heads for queries, which " +
                          std::to_string(*num_kv_heads) + " for keys do not divide");
  }
  const uint32_t even_share = config.hidden_size / *num_heads;
  const auto head_dim = metadata.count("attention.key_length", kMaxHeadDim, even_share);
  if (!head_dim) return head_dim.error();
  if (*head_dim == even_share && config.hidden_size % *num_heads != 0) {
    return metadata.error("has a width of " + std::to_string(config.hidden_size) + ", which its " +
                          std::to_string(*num_heads) + " heads do not divide");
  }
  if (*head_dim > kMaxHeadDim) {
    return metadata.error("has heads of " + std::to_string(*head_dim) + " values; at most " +
                          std::to_string(kMaxHeadDim) + " are supported");
  }
  const auto value_dim = metadata.count("attention.value_length", kMaxHeadDim, *head_dim);
  if (!value_dim) return value_dim.error();
  if (*value_dim != *head_dim) {
    return metadata.error("has keys of " + std::to_string(*head_dim) + " and values of " +
                          std::to_string(*value_dim) + " numbers; they must be equal");
  }
  const auto rotary_dim = metadata.count("rope.dimension_count", *head_dim, *head_dim);
  if (!rotary_dim) return rotary_dim.error();
  if (*rotary_dim % 2 != 0) {
    return metadata.error("has " + metadata.key("rope.dimension_count") + " " + std::to_string(*rotary_dim) +
                          "; it must be even");
  }
  config.num_heads = *num_heads;
  config.num_kv_heads = *num_kv_heads;
  config.head_dim = *head_dim;
  config.rotary_dim = *rotary_dim;
  return {};
}

// Mistral's files have one, of 4096 positions. Zero is how some say that they have none.
Result<uint32_t> sliding_window(const GgufFile& file, const Metadata& metadata) {
  constexpr const char* kName = "attention.sliding_window";
  if (file.unsigned_integer(metadata.key(kName)) == 0) return 0u;
  return metadata.count(kName, std::numeric_limits<uint32_t>::max(), 0u);
}

}  // namespace

Result<ModelConfig> read_config(const GgufFile& file, std::string_view expected_architecture) {
  const Result<std::string> architecture = checked_architecture(file, expected_architecture);
  if (!architecture) return architecture.error();
  const Metadata metadata(file, *architecture);
  const Result<void> known = refuse_variants(file, metadata);
  if (!known) return known.error();

  ModelConfig config{};
  config.architecture = *architecture;
  const std::pair<const char*, std::pair<uint64_t, uint32_t*>> counts[] = {
      {"block_count", {kMaxLayers, &config.num_layers}},
      {"embedding_length", {kMaxHiddenSize, &config.hidden_size}},
      {"feed_forward_length", {kMaxFfnSize, &config.ffn_size}},
      {"context_length", {kMaxContextLength, &config.context_length}},
  };
  for (const auto& [name, limit_and_field] : counts) {
    const Result<uint32_t> value = metadata.count(name, limit_and_field.first);
    if (!value) return value.error();
    *limit_and_field.second = *value;
  }
  if (config.context_length < 2) {
    return metadata.error("has " + metadata.key("context_length") + " 1; a prompt and an answer need 2");
  }
  const Result<void> heads = read_heads(metadata, config);
  if (!heads) return heads.error();
  // Below 1 a pair would turn faster than one radian a position.
  const Result<double> theta = metadata.number("rope.freq_base", 1.0, kMaxRopeTheta, 10'000.0);
  if (!theta) return theta.error();
  config.rope_theta = *theta;
  // Zero is left out: a row of zeros would be divided by it.
  const Result<double> epsilon = metadata.number("attention.layer_norm_rms_epsilon", 1e-30, 1.0, {});
  if (!epsilon) return epsilon.error();
  config.norm_epsilon = static_cast<float>(*epsilon);
  const Result<uint32_t> window = sliding_window(file, metadata);
  if (!window) return window.error();
  config.sliding_window = *window;
  const Result<uint32_t> vocab_size = vocabulary_size(file, metadata);
  if (!vocab_size) return vocab_size.error();
  config.vocab_size = *vocab_size;
  return config;
}

}  // namespace runnel

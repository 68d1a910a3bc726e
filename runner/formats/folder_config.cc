#include "runner/formats/folder_config.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <numbers>
#include <optional>

#include "runner/formats/json_text.h"
#include "runner/formats/quoted.h"

namespace runnel {
namespace {

using nlohmann::json;

constexpr uint64_t kMaxHeadDim = 1 << 16;  // for which factors are computed; models have far less
constexpr uint64_t kMaxLayerTypes = 1 << 16;

// An architecture, and how transformers reads a configuration of it.
struct Family {
  std::string_view model_type;
  std::string_view architecture;
  bool is_tied;                 // unless the configuration says otherwise
  std::string_view activation;  // the only one that is computed
};
constexpr Family kFamilies[] = {
    {"llama", "llama", false, "silu"},
    {"mistral", "llama", false, "silu"},
    {"qwen2", "qwen2", false, "silu"},
    {"qwen3", "qwen3", false, "silu"},
    {"qwen3_moe", "qwen3moe", false, "silu"},
    {"phi3", "phi3", false, "silu"},
    {"gemma3_text", "gemma3", true, "gelu_pytorch_tanh"},
    {"gpt2", "gpt2", true, "gelu_new"},
};

// A value as GGUF's metadata would have it. What is none there is an array, which nobody takes for a number.
GgufValue value_of(const json& value) {
  if (value.is_number_unsigned()) return value.get<uint64_t>();
  if (value.is_number_integer()) return value.get<int64_t>();
  if (value.is_number_float()) return value.get<double>();
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_string()) return value.get<std::string>();
  return GgufArray{0, value.size()};
}

class ConfigReader {
 public:
  ConfigReader(const json& config, const Family& family, const std::string& path)
      : config_(config), family_(family), path_(path) {}

  Result<FolderConfig> read() {
    found_.architecture = family_.architecture;
    put("general.architecture", std::string(family_.architecture));
    refuse_variants();
    require_keys();
    if (family_.architecture == "gpt2") {
      read_gpt2();
    } else {
      read_sizes();
      read_rope();
      read_window();
      if (family_.architecture == "gemma3") read_gemma3();
      if (family_.architecture == "qwen3moe") read_experts();
    }
    found_.vocab_size = count("vocab_size").value_or(0);
    const json* tied = find("tie_word_embeddings");
    if (tied != nullptr && !tied->is_boolean())
      refuse("has a tie_word_embeddings that is neither true nor false");
    found_.is_tied = tied != nullptr && tied->is_boolean() ? tied->get<bool>() : family_.is_tied;
    if (!status_) return status_.error();
    return found_;
  }

 private:
  // The first one is kept.
  void refuse(const std::string& sentence) {
    if (status_) status_ = Error{ExitCode::kBadModel, path_ + " " + sentence + "."};
  }

  // null is as good as missing.
  static const json* find_in(const json& object, const char* name) {
    const auto found = object.find(name);
    return found == object.end() || found->is_null() ? nullptr : &*found;
  }
  const json* find(const char* name) const { return find_in(config_, name); }
  std::optional<uint64_t> count(const char* name) const {
    const json* value = find(name);
    return value != nullptr && value->is_number_unsigned() ? std::optional(value->get<uint64_t>())
                                                           : std::nullopt;
  }
  bool is_true(const char* name) const {
    const json* value = find(name);
    return value != nullptr && *value != false;
  }

  void put(std::string key, GgufValue value) { found_.entries.push_back({std::move(key), std::move(value)}); }
  std::string key_of(const char* name) const { return std::string(family_.architecture) + "." + name; }
  void copy(const char* name, const char* key) {
    if (const json* value = find(name)) put(key_of(key), value_of(*value));
  }
  // As a number with a fraction, of which JSON writes some without.
  void put_number(const json* value, const char* key) {
    if (value == nullptr) return;
    put(key_of(key), value->is_number() ? GgufValue(value->get<double>()) : value_of(*value));
  }

  // What other configurations have and would be computed wrongly here.
  void refuse_variants() {
    if (find("quantization_config") != nullptr)
      refuse("has quantization_config; of safetensors F32, F16 and BF16 are computed");
    for (const char* name : {"hidden_act", "hidden_activation", "activation_function"}) {
      const json* value = find(name);
      if (value == nullptr || *value == family_.activation) continue;
      // Gemma's first configurations say gelu here and mean what hidden_activation says.
      if (family_.architecture == "gemma3" && std::string_view(name) == "hidden_act") continue;
      refuse("has " + std::string(name) + " " +
             runnel::quoted(value->is_string() ? value->get<std::string>() : value->dump(-1, ' ', true)) +
             ", which is not supported; " + std::string(family_.activation) + " is");
    }
    for (const char* name : {"scale_attn_by_inverse_layer_idx", "use_bidirectional_attention"}) {
      if (is_true(name)) refuse("has " + std::string(name) + ", which is not supported");
    }
    if (const json* scales = find("scale_attn_weights"); scales != nullptr && *scales != true)
      refuse("has scale_attn_weights false, which is not supported");
  }

  // What transformers has a default for that is not GGUF's. null may be what it says.
  void require_keys() {
    struct Key {
      const char* name;
      std::initializer_list<std::string_view> model_types;
    };
    for (const Key& key :
         {Key{"num_key_value_heads", {"mistral", "qwen2", "qwen3", "qwen3_moe", "gemma3_text"}},
          Key{"head_dim", {"qwen3", "qwen3_moe", "gemma3_text"}},
          Key{"sliding_window", {"mistral", "gemma3_text"}}}) {
      if (std::ranges::find(key.model_types, family_.model_type) != key.model_types.end() &&
          !config_.contains(key.name))
        refuse("lacks " + std::string(key.name));
    }
  }

  void read_gpt2() {
    copy("n_layer", "block_count");
    copy("n_embd", "embedding_length");
    copy("n_positions", "context_length");
    copy("n_head", "attention.head_count");
    put_number(find("layer_norm_epsilon"), "attention.layer_norm_epsilon");
    if (find("n_inner") != nullptr) {
      copy("n_inner", "feed_forward_length");
    } else if (const auto hidden = count("n_embd"); hidden && *hidden < uint64_t{1} << 60) {
      put(key_of("feed_forward_length"), 4 * *hidden);
    }
  }

  void read_sizes() {
    copy("num_hidden_layers", "block_count");
    copy("hidden_size", "embedding_length");
    copy("intermediate_size", "feed_forward_length");
    copy("max_position_embeddings", "context_length");
    copy("num_attention_heads", "attention.head_count");
    copy("num_key_value_heads", "attention.head_count_kv");
    copy("head_dim", "attention.key_length");
    copy("head_dim", "attention.value_length");
    put_number(find("rms_norm_eps"), "attention.layer_norm_rms_epsilon");
    for (const char* name : {"attn_logit_softcapping", "final_logit_softcapping"})
      put_number(find(name), name);
    const std::optional<uint64_t> hidden = count("hidden_size");
    const std::optional<uint64_t> heads = count("num_attention_heads");
    if (const auto head_dim = count("head_dim")) {
      found_.head_dim = *head_dim;
    } else if (hidden && heads && *heads != 0) {
      found_.head_dim = *hidden / *heads;
    }
  }

  // What rotates heads: rope_parameters of newer configurations, rope_theta and rope_scaling of older ones.
  void read_rope() {
    const json* parameters = find("rope_parameters");
    if (parameters != nullptr && family_.architecture == "gemma3") {
      const json* local = find_in_object(*parameters, "sliding_attention");
      parameters = find_in_object(*parameters, "full_attention");
      if (local == nullptr || parameters == nullptr)
        return refuse("has rope_parameters without full_attention and sliding_attention");
      check_default(*local);
      put_number(find_in_object(*local, "rope_theta"), "rope.freq_base_swa");
    } else {
      put_number(find("rope_local_base_freq"), "rope.freq_base_swa");
    }
    const json* scaling = parameters != nullptr ? parameters : find("rope_scaling");
    if (scaling != nullptr && !scaling->is_object()) return refuse("has rope parameters that are no object");
    const json none = json::object();
    if (scaling == nullptr) scaling = &none;
    const json* theta = find_in(*scaling, "rope_theta");
    if (theta == nullptr) theta = find("rope_theta");
    put_number(theta, "rope.freq_base");
    read_rotary_dim(find_in(*scaling, "partial_rotary_factor"));
    read_scaling(*scaling, theta != nullptr && theta->is_number() ? theta->get<double>() : 10'000.0);
  }

  static const json* find_in_object(const json& value, const char* name) {
    return value.is_object() ? find_in(value, name) : nullptr;
  }

  static std::string rope_type_of(const json& scaling) {
    const json* type = find_in_object(scaling, "rope_type");
    if (type == nullptr) type = find_in_object(scaling, "type");
    if (type == nullptr) return "default";
    if (!type->is_string()) return "?";
    return *type == "su" ? "longrope" : type->get<std::string>();  // as Phi-3's first configurations call it
  }

  void check_default(const json& scaling) {
    if (rope_type_of(scaling) != "default")
      refuse("scales the positions of layers with a window, which is not supported");
  }

  void read_rotary_dim(const json* factor) {
    if (factor == nullptr) factor = find("partial_rotary_factor");
    if (factor == nullptr) return;
    if (!factor->is_number() || !(factor->get<double>() > 0 && factor->get<double>() <= 1))
      return refuse("has a partial_rotary_factor that is not above 0 and at most 1");
    const double share = factor->get<double>();
    if (share != 1.0 && family_.architecture != "phi3")
      return refuse("has a partial_rotary_factor, which is not supported for this architecture");
    if (found_.head_dim > 0 && found_.head_dim <= kMaxHeadDim)
      put(key_of("rope.dimension_count"),
          static_cast<uint64_t>(share * static_cast<double>(found_.head_dim)));
  }

  void read_scaling(const json& scaling, double theta) {
    const std::string type = rope_type_of(scaling);
    if (type == "default") return;
    if (type == "llama3" && family_.architecture == "llama") return read_llama3(scaling, theta);
    put(key_of("rope.scaling.type"), type);
    if (type == "linear") put_number(find_in(scaling, "factor"), "rope.scaling.factor");
    if (type == "longrope" && family_.architecture == "phi3") read_longrope(scaling);
  }

  // Of the first object that has it.
  static std::optional<double> number_in(std::initializer_list<const json*> objects, const char* name) {
    for (const json* object : objects) {
      const json* value = find_in(*object, name);
      if (value != nullptr && value->is_number()) return value->get<double>();
    }
    return std::nullopt;
  }

  // Llama 3's scaling: pairs with long waves turn slower by the factor, those with short ones as ever, and
  // those between by a mean of both. As transformers computes it (modeling_rope_utils).
  void read_llama3(const json& scaling, double theta) {
    const auto factor = number_in({&scaling}, "factor");
    const auto low = number_in({&scaling}, "low_freq_factor");
    const auto high = number_in({&scaling}, "high_freq_factor");
    const auto original = number_in({&scaling, &config_}, "original_max_position_embeddings");
    if (!factor || !low || !high || !original || !(*high > *low)) {
      return refuse(
          "lacks factor, low_freq_factor, a larger high_freq_factor or original_max_position_embeddings, "
          "numbers that rope scaling \"llama3\" needs");
    }
    if (found_.head_dim > kMaxHeadDim) return refuse("has heads of too many values");
    std::vector<float> factors;
    const auto dim = static_cast<double>(found_.head_dim);
    for (uint64_t pair = 0; pair < found_.head_dim / 2; ++pair) {
      const double wave = 2.0 * std::numbers::pi * std::pow(theta, 2.0 * static_cast<double>(pair) / dim);
      const double smooth = std::clamp((*original / wave - *low) / (*high - *low), 0.0, 1.0);
      factors.push_back(static_cast<float>(1.0 / ((1.0 - smooth) / *factor + smooth)));
    }
    if (!factors.empty()) found_.factors.emplace_back("rope_freqs.weight", std::move(factors));
  }

  void read_longrope(const json& scaling) {
    for (const auto& [name, tensor] : {std::pair("short_factor", "rope_factors_short.weight"),
                                       std::pair("long_factor", "rope_factors_long.weight")}) {
      const json* list = find_in(scaling, name);
      std::vector<float> factors;
      if (list != nullptr && list->is_array()) {
        for (const json& value : *list)
          factors.push_back(value.is_number() ? value.get<float>() : std::numeric_limits<float>::quiet_NaN());
      }
      if (factors.empty()) return refuse("lacks " + std::string(name) + ", a list of numbers");
      found_.factors.emplace_back(tensor, std::move(factors));
    }
    const auto original = number_in({&config_, &scaling}, "original_max_position_embeddings");
    const auto longest = number_in({&config_}, "max_position_embeddings");
    if (!original || !longest || !(*original > 1) || *original > *longest)
      return refuse("lacks an original_max_position_embeddings from 2 to max_position_embeddings");
    put(key_of("rope.scaling.original_context_length"), static_cast<uint64_t>(*original));
    // As transformers does it, unless the configuration says it.
    double magnitude = std::sqrt(1.0 + std::log(*longest / *original) / std::log(*original));
    if (const auto said = number_in({&scaling}, "attention_factor")) magnitude = *said;
    put(key_of("rope.scaling.attn_factor"), double{static_cast<float>(magnitude)});  // as GGUF holds it
  }

  // The layers that see everything; none where the configuration does not tell layers apart.
  std::optional<std::vector<bool>> full_layers() {
    const json* types = find("layer_types");
    if (types == nullptr) return std::nullopt;
    std::vector<bool> full;
    if (!types->is_array() || types->size() > kMaxLayerTypes) {
      refuse("has layer_types that are no list");
      return std::nullopt;
    }
    for (const json& type : *types) {
      if (type != "full_attention" && type != "sliding_attention") {
        refuse("has layer_types other than full_attention and sliding_attention");
        return std::nullopt;
      }
      full.push_back(type == "full_attention");
    }
    return full;
  }

  void read_window() {
    const bool is_qwen = family_.model_type.starts_with("qwen");
    if (is_qwen && is_true("use_sliding_window"))
      return refuse("has use_sliding_window true, which is not supported for this architecture");
    if (is_qwen || family_.model_type == "llama") return;
    if (family_.architecture != "gemma3") {
      if (const auto full = full_layers(); full && !full->empty()) {
        if (!std::ranges::all_of(*full, [&](bool one) { return one == full->front(); }))
          return refuse("has layer_types of both kinds, which is not supported for this architecture");
        if (full->front()) return;
      }
    }
    copy("sliding_window", "attention.sliding_window");
  }

  void read_gemma3() {
    const json* scale = find("query_pre_attn_scalar");
    const auto layers = count("num_hidden_layers");
    const auto heads = count("num_attention_heads");
    constexpr uint64_t kLayersOfLargest = 62;  // see gemma3_spec
    uint64_t wanted = found_.head_dim;
    if (layers == kLayersOfLargest && heads && *heads != 0)
      wanted = count("hidden_size").value_or(0) / *heads;
    if (scale != nullptr && *scale != wanted)
      refuse("has a query_pre_attn_scalar other than " + std::to_string(wanted) + ", which is not supported");
    if (const auto full = full_layers()) return read_pattern(*full);
    for (const char* name : {"sliding_window_pattern", "_sliding_window_pattern"})
      if (find(name) != nullptr) return copy(name, "attention.sliding_window_pattern");
  }

  // Every so many-th layer sees everything.
  void read_pattern(const std::vector<bool>& full) {
    const size_t every = static_cast<size_t>(std::ranges::find(full, true) - full.begin()) + 1;
    for (size_t layer = 0; layer < full.size(); ++layer) {
      if (full[layer] != ((layer + 1) % every == 0))
        return refuse("has layer_types in which full_attention does not come every " + std::to_string(every) +
                      " layers, which is not supported");
    }
    put(key_of("attention.sliding_window_pattern"), uint64_t{every});
  }

  void read_experts() {
    copy(find("num_experts") != nullptr ? "num_experts" : "num_local_experts", "expert_count");
    copy("num_experts_per_tok", "expert_used_count");
    copy("moe_intermediate_size", "expert_feed_forward_length");
    const json* norm = find("norm_topk_prob");
    if (norm == nullptr || *norm != true)
      refuse("does not say norm_topk_prob true; other weights of experts are not supported");
    const json* step = find("decoder_sparse_step");
    const json* dense = find("mlp_only_layers");
    if ((step != nullptr && *step != 1) || (dense != nullptr && !dense->empty()))
      refuse("has layers without experts (decoder_sparse_step, mlp_only_layers), which are not supported");
  }

  const json& config_;
  const Family& family_;
  const std::string& path_;
  FolderConfig found_;
  Result<void> status_;
};

}  // namespace

Result<FolderConfig> read_folder_config(std::string_view text, const std::string& path) {
  const Result<json> config = parse_json(text, path);
  if (!config) return config.error();
  if (!config->is_object()) return Error{ExitCode::kBadModel, path + " is no JSON object."};
  if (config->contains("text_config")) {
    return Error{
        ExitCode::kBadModel,
        path + " has text_config: it is of a model that reads more than text, which is not supported."};
  }
  const auto type = config->find("model_type");
  if (type == config->end() || !type->is_string())
    return Error{ExitCode::kBadModel, path + " lacks model_type, a text."};
  for (const Family& family : kFamilies) {
    if (*type == family.model_type) return ConfigReader(*config, family, path).read();
  }
  FolderConfig unknown;
  unknown.is_known = false;
  unknown.architecture = type->get<std::string>();
  unknown.entries = {{"general.architecture", unknown.architecture}};
  return unknown;
}

}  // namespace runnel

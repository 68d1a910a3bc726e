#include "runner/formats/folder_config.h"

#include <algorithm>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>

#include "runner/formats/folder_values.h"
#include "runner/formats/in_quotes.h"
#include "runner/formats/json_text.h"

namespace runnel {
namespace {

using nlohmann::json;

constexpr uint64_t kMaxLayerTypes = 1 << 16;

// An architecture, and the defaults with which transformers reads its configuration.
struct Family {
  std::string_view model_type;
  std::string_view architecture;
  bool is_tied;                 // default, if the configuration does not say it
  std::string_view activation;  // the only supported one
};
constexpr Family kFamilies[] = {
    {"llama", "llama", false, "silu"},
    {"mistral", "llama", false, "silu"},
    {"mixtral", "llama", false, "silu"},
    {"qwen2", "qwen2", false, "silu"},
    {"qwen3", "qwen3", false, "silu"},
    {"qwen3_moe", "qwen3moe", false, "silu"},
    {"phi3", "phi3", false, "silu"},
    {"gemma3_text", "gemma3", true, "gelu_pytorch_tanh"},
    {"glm4", "glm4", false, "silu"},
    {"gemma2", "gemma2", true, "gelu_pytorch_tanh"},
    {"smollm3", "smollm3", true, "silu"},
    {"granite", "granite", false, "silu"},
    {"olmo2", "olmo2", false, "silu"},
    {"gpt2", "gpt2", true, "gelu_new"},
    {"bert", "bert", true, "gelu"},
    {"roberta", "bert", true, "gelu"},
    {"xlm-roberta", "bert", true, "gelu"},
    {"gpt_oss", "gpt-oss", false, "silu"},
    {"nomic_bert", "nomic-bert", true, "silu"},
};

class ConfigReader : private FolderValues {
 public:
  ConfigReader(const json& config, const Family& family, const std::string& path)
      : FolderValues(config, std::string(family.architecture), path), family_(family) {}

  Result<FolderConfig> read() {
    found().architecture = family_.architecture;
    put("general.architecture", std::string(family_.architecture));
    refuse_variants();
    require_keys();
    if (family_.architecture == "gpt2") {
      read_gpt2();
    } else {
      read_sizes();
      read_folder_rope(*this);
      read_window();
      if (is_gemma()) read_gemma();
      if (family_.model_type == "mixtral") read_mixtral();
      if (family_.architecture == "granite") read_granite();
      if (family_.architecture.ends_with("bert")) read_bert();
      if (family_.architecture == "smollm3") read_smollm3();
      if (family_.architecture == "qwen3moe") read_experts();
      if (family_.architecture == "gpt-oss") read_gpt_oss();
    }
    found().vocab_size = count("vocab_size").value_or(0);
    const json* tied = find("tie_word_embeddings");
    if (tied != nullptr && !tied->is_boolean())
      refuse("has a tie_word_embeddings that is neither true nor false");
    found().is_tied = tied != nullptr && tied->is_boolean() ? tied->get<bool>() : family_.is_tied;
    return finish();
  }

 private:
  bool is_gemma() const { return family_.architecture.starts_with("gemma"); }

  // Refuses variants of the architectures that would be computed wrongly here.
  void refuse_variants() {
    const json* quantization = find("quantization_config");
    const json* method = quantization == nullptr ? nullptr : find_in(*quantization, "quant_method");
    // gpt-oss is published so; its tensors say which of them are quantised.
    const bool is_mxfp4 = family_.architecture == "gpt-oss" && method != nullptr && *method == "mxfp4";
    if (quantization != nullptr && !is_mxfp4)
      refuse(
          "has quantization_config, which is not supported; weights in safetensors files must be F32, F16 or "
          "BF16");
    for (const char* name : {"hidden_act", "hidden_activation", "activation_function"}) {
      const json* value = find(name);
      if (value == nullptr || *value == family_.activation) continue;
      // Gemma's first configurations say gelu here, and mean what hidden_activation says.
      if (is_gemma() && std::string_view(name) == "hidden_act") continue;
      refuse("has " + std::string(name) + " " +
             runnel::in_quotes(value->is_string() ? value->get<std::string>() : value->dump(-1, ' ', true)) +
             ", which is not supported; supported: " + std::string(family_.activation));
    }
    for (const char* name : {"scale_attn_by_inverse_layer_idx", "use_bidirectional_attention"}) {
      if (is_true(name)) refuse("has " + std::string(name) + ", which is not supported");
    }
    if (const json* scales = find("scale_attn_weights"); scales != nullptr && *scales != true)
      refuse("has scale_attn_weights false, which is not supported");
  }

  // Requires keys for which transformers has another default than GGUF. Their values may be null.
  void require_keys() {
    struct Key {
      const char* name;
      std::initializer_list<std::string_view> model_types;
    };
    for (const Key& key :
         {Key{"num_key_value_heads",
              {"mistral", "mixtral", "qwen2", "qwen3", "qwen3_moe", "gemma2", "gemma3_text", "glm4",
               "smollm3", "gpt_oss"}},
          Key{"head_dim", {"qwen3", "qwen3_moe", "gemma2", "gemma3_text", "glm4", "gpt_oss"}},
          Key{"num_local_experts", {"mixtral"}},
          Key{"sliding_window", {"mistral", "gemma2", "gemma3_text", "gpt_oss"}}}) {
      if (std::ranges::find(key.model_types, family_.model_type) != key.model_types.end() &&
          !config().contains(key.name))
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
    if (family_.model_type.ends_with("roberta")) {
      read_positions_behind_padding();
    } else {
      copy("max_position_embeddings", "context_length");
    }
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
      found().head_dim = *head_dim;
    } else if (hidden && heads && *heads != 0) {
      found().head_dim = *hidden / *heads;
    }
  }

  // Which layers see all positions. Nothing if the configuration does not distinguish layers.
  std::optional<std::vector<bool>> full_layers() {
    const json* types = find("layer_types");
    if (types == nullptr) return std::nullopt;
    std::vector<bool> full;
    if (!types->is_array() || types->size() > kMaxLayerTypes) {
      refuse("has layer_types that are not a list");
      return std::nullopt;
    }
    for (const json& type : *types) {
      if (type != "full_attention" && type != "sliding_attention") {
        refuse("has layer_types other than full_attention and sliding_attention");
        return std::nullopt;
      }
      full.push_back(type == "full_attention");
    }
    if (const auto layers = count("num_hidden_layers"); layers && full.size() != *layers) {
      refuse("has " + std::to_string(full.size()) + " layer_types for num_hidden_layers " +
             std::to_string(*layers));
      return std::nullopt;
    }
    return full;
  }

  void read_window() {
    const bool may_have_none = family_.model_type.starts_with("qwen") || family_.model_type == "smollm3";
    if (may_have_none && is_true("use_sliding_window"))
      return refuse("has use_sliding_window true, which is not supported for this architecture");
    constexpr std::string_view kWithWindow[] = {"mistral", "mixtral",     "phi3",
                                                "gemma2",  "gemma3_text", "gpt_oss"};
    if (std::ranges::find(kWithWindow, family_.model_type) == std::end(kWithWindow)) return;
    if (!is_gemma() && family_.architecture != "gpt-oss") {
      if (const auto full = full_layers(); full && !full->empty()) {
        if (!std::ranges::all_of(*full, [&](bool one) { return one == full->front(); }))
          return refuse("has layer_types of both kinds, which is not supported for this architecture");
        if (full->front()) return;
      }
    }
    copy("sliding_window", "attention.sliding_window");
  }

  void read_gemma() {
    const json usual_scale = 256;  // transformers' default
    const json* scale = find("query_pre_attn_scalar");
    const auto layers = count("num_hidden_layers");
    const auto heads = count("num_attention_heads");
    const uint64_t layers_of_largest = family_.architecture == "gemma2" ? 46 : 62;  // see gemma.cc
    uint64_t wanted = found().head_dim;
    if (layers == layers_of_largest && heads && *heads != 0)
      wanted = count("hidden_size").value_or(0) / *heads;
    if ((scale == nullptr ? usual_scale : *scale) != wanted)
      refuse("has a query_pre_attn_scalar other than " + std::to_string(wanted) + ", which is not supported");
    for (const char* name : {"attn_logit_softcapping", "final_logit_softcapping"}) {
      // null means none, and not the default.
      if (family_.architecture == "gemma2" && config().contains(name) && find(name) == nullptr)
        put(key_of(name), 0.0);
    }
    if (const auto full = full_layers()) return read_pattern(*full);
    for (const char* name : {"sliding_window_pattern", "_sliding_window_pattern"})
      if (find(name) != nullptr) return copy(name, "attention.sliding_window_pattern");
  }

  // Requires that every n-th layer sees all positions, and stores n.
  void read_pattern(const std::vector<bool>& full) {
    const size_t every = static_cast<size_t>(std::ranges::find(full, true) - full.begin()) + 1;
    for (size_t layer = 0; layer < full.size(); ++layer) {
      if (full[layer] != ((layer + 1) % every == 0))
        return refuse("has layer_types in which full_attention does not come every " + std::to_string(every) +
                      " layers, which is not supported");
    }
    put(key_of("attention.sliding_window_pattern"), uint64_t{every});
  }

  void read_gpt_oss() {
    copy("num_local_experts", "expert_count");
    copy("num_experts_per_tok", "expert_used_count");
    copy("intermediate_size", "expert_feed_forward_length");
    if (const auto full = full_layers()) read_pattern(*full);
    for (const auto& [name, only] : {std::pair("swiglu_alpha", 1.702), std::pair("swiglu_limit", 7.0)}) {
      if (const json* value = find(name); value != nullptr && *value != only)
        refuse("has a " + std::string(name) + " other than " + json(only).dump() +
               ", which is not supported");
    }
    // Without them transformers scales by YaRN.
    if (find("rope_parameters") == nullptr && find("rope_scaling") == nullptr)
      refuse("lacks rope_parameters");
    require_theta();
  }

  void read_bert() {
    put_number(find("layer_norm_eps"), "attention.layer_norm_epsilon");
    const json* positions = find("position_embedding_type");
    if (positions != nullptr && *positions != "absolute")
      refuse("has a position_embedding_type other than absolute, which is not supported");
    if (is_true("is_decoder") || is_true("add_cross_attention"))
      refuse("has is_decoder or add_cross_attention, which are not supported");
    if (family_.architecture == "nomic-bert") require_theta();
  }

  // RoBERTa gives the first token the position behind pad_token_id, so no text uses the rows before it.
  void read_positions_behind_padding() {
    constexpr uint64_t kUsualPadding = 1;  // transformers' default
    const auto padding = find("pad_token_id") == nullptr ? kUsualPadding : count("pad_token_id");
    const auto positions = count("max_position_embeddings");
    if (!padding || !positions || *positions < 2 || *padding > *positions - 2)
      return refuse("lacks a pad_token_id with a position behind it below max_position_embeddings");
    found().first_position = *padding + 1;
    put(key_of("context_length"), *positions - found().first_position);
  }

  void read_mixtral() {
    copy("num_local_experts", "expert_count");
    copy("num_experts_per_tok", "expert_used_count");
    require_theta();
  }

  void read_granite() {
    for (const auto& [name, key] :
         {std::pair("embedding_multiplier", "embedding_scale"),
          std::pair("residual_multiplier", "residual_scale"),
          std::pair("attention_multiplier", "attention.scale"), std::pair("logits_scaling", "logit_scale")}) {
      if (find(name) == nullptr) put(key_of(key), 1.0);
      put_number(find(name), key);
    }
  }

  // Requires that no layer but every fourth one is without rotation, as smollm3_spec has it.
  void read_smollm3() {
    constexpr uint64_t kNoRopeEvery = 4;
    const json* list = find("no_rope_layers");
    const uint64_t layers = count("num_hidden_layers").value_or(0);
    bool is_usual =
        find("no_rope_layer_interval") == nullptr || count("no_rope_layer_interval") == kNoRopeEvery;
    if (list != nullptr) {
      is_usual = list->is_array() && list->size() >= layers && list->size() <= kMaxLayerTypes;
      for (uint64_t layer = 0; is_usual && layer < layers; ++layer)
        is_usual = (*list)[layer] == ((layer + 1) % kNoRopeEvery == 0 ? 0 : 1);
    }
    if (!is_usual)
      refuse("has no_rope_layers or no_rope_layer_interval other than every " + std::to_string(kNoRopeEvery) +
             " layers, which is not supported");
    require_theta();
  }

  // For families whose default in transformers is not GGUF's.
  void require_theta() {
    if (std::ranges::find(found().entries, key_of("rope.freq_base"), &GgufEntry::key) ==
        found().entries.end())
      refuse("lacks rope_theta");
  }

  void read_experts() {
    copy(find("num_experts") != nullptr ? "num_experts" : "num_local_experts", "expert_count");
    copy("num_experts_per_tok", "expert_used_count");
    copy("moe_intermediate_size", "expert_feed_forward_length");
    const json* norm = find("norm_topk_prob");
    if (norm == nullptr || *norm != true)
      refuse("does not set norm_topk_prob to true; other weights of experts are not supported");
    const json* step = find("decoder_sparse_step");
    const json* dense = find("mlp_only_layers");
    if ((step != nullptr && *step != 1) || (dense != nullptr && !dense->empty()))
      refuse("has layers without experts (decoder_sparse_step, mlp_only_layers), which are not supported");
  }

  const Family& family_;
};

}  // namespace

Result<FolderConfig> read_folder_config(std::string_view text, const std::string& path) {
  const Result<json> config = parse_json(text, path);
  if (!config) return config.error();
  if (!config->is_object()) return Error{ExitCode::kBadModel, path + " is not a JSON object."};
  if (config->contains("text_config")) {
    return Error{ExitCode::kBadModel,
                 path + " has text_config, as models that read more than text have; they are not supported."};
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

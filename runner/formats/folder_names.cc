#include "runner/formats/folder_names.h"

#include <algorithm>
#include <initializer_list>

#include "runner/formats/bad_model.h"
#include "runner/formats/in_quotes.h"

namespace runnel {
namespace {

struct Name {
  std::string_view folder;
  std::string_view gguf;
  std::string_view architecture = "";  // only those that begin so; empty: all but those of their own names
};

// Architectures whose names have nothing in common with those of the others.
constexpr bool has_own_names(std::string_view architecture) {
  return architecture == "gpt2" || architecture.ends_with("bert");
}

// prefix: begins all names but the head's if the model was saved with its head (AutoModelForCausalLM). Models
// saved without a head (AutoModel, sentence-transformers) lack it. layers: follows it in names of layers.
struct Body {
  std::string_view prefix;
  std::string_view layers;
};

constexpr Body body_of(std::string_view architecture) {
  if (architecture == "gpt2") return {"transformer.", "h."};
  if (architecture == "bert") return {"bert.", "encoder.layer."};
  if (architecture == "nomic-bert") return {"bert.", "encoder.layers."};
  return {"model.", "layers."};
}

// Names in these tables lack their last part, "weight" or "bias".
constexpr std::string_view kHead = "lm_head";
constexpr std::string_view kGgufHead = "output";
constexpr std::string_view kGgufEmbedding = "token_embd";
constexpr std::string_view kGgufClassifier = "cls";

// Names in classification heads, which no prefix precedes: RoBERTa's, then BERT's, which begins with its
// pooler.
constexpr Name kClassifierNames[] = {
    {"classifier.dense", kGgufClassifier, "bert"},
    {"classifier.out_proj", "cls.output", "bert"},
    {"classifier", "cls.output", "bert"},
};

// Names after the prefix.
constexpr Name kModelNames[] = {
    {"embed_tokens", kGgufEmbedding},
    {"embeddings.word_embeddings", kGgufEmbedding, "nomic-bert"},
    {"embeddings.token_type_embeddings", "token_types", "nomic-bert"},
    {"emb_ln", "token_embd_norm", "nomic-bert"},
    {"norm", "output_norm"},
    {"wte", kGgufEmbedding, "gpt2"},
    {"wpe", "position_embd", "gpt2"},
    {"ln_f", "output_norm", "gpt2"},
    {"embeddings.word_embeddings", kGgufEmbedding, "bert"},
    {"embeddings.position_embeddings", "position_embd", "bert"},
    {"embeddings.token_type_embeddings", "token_types", "bert"},
    {"embeddings.LayerNorm", "token_embd_norm", "bert"},
    {"pooler.dense", kGgufClassifier, "bert"},
};

// Names after the layer's number. # is the number of an expert.
constexpr Name kLayerNames[] = {
    {"input_layernorm", "attn_norm"},
    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},
    {"self_attn.qkv_proj", "attn_qkv"},
    {"self_attn.o_proj", "attn_output"},
    {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"},
    {"post_attention_layernorm", "post_attention_norm", "gemma"},
    {"post_attention_layernorm", "post_attention_norm", "olmo2"},
    {"post_attention_layernorm", "post_attention_norm", "gpt-oss"},
    {"post_attention_layernorm", "ffn_norm"},
    {"pre_feedforward_layernorm", "ffn_norm", "gemma"},
    {"post_feedforward_layernorm", "post_ffw_norm", "gemma"},
    {"post_feedforward_layernorm", "post_ffw_norm", "olmo2"},
    {"mlp.gate_proj", "ffn_gate"},
    {"mlp.up_proj", "ffn_up"},
    {"mlp.gate_up_proj", "ffn_up", "phi3"},
    {"mlp.down_proj", "ffn_down"},
    {"mlp.router", "ffn_gate_inp", "gpt-oss"},
    {"post_self_attn_layernorm", "post_attention_norm", "glm4"},
    {"mlp.gate_up_proj", "ffn_up", "glm4"},
    {"post_mlp_layernorm", "post_ffw_norm", "glm4"},
    {"mlp.gate", "ffn_gate_inp", "qwen3moe"},
    {"mlp.experts.#.gate_proj", "ffn_gate.#", "qwen3moe"},
    {"mlp.experts.#.up_proj", "ffn_up.#", "qwen3moe"},
    {"mlp.experts.#.down_proj", "ffn_down.#", "qwen3moe"},
    {"block_sparse_moe.gate", "ffn_gate_inp", "llama"},
    {"block_sparse_moe.experts.#.w1", "ffn_gate.#", "llama"},
    {"block_sparse_moe.experts.#.w3", "ffn_up.#", "llama"},
    {"block_sparse_moe.experts.#.w2", "ffn_down.#", "llama"},
    {"ln_1", "attn_norm", "gpt2"},
    {"attn.c_attn", "attn_qkv", "gpt2"},
    {"attn.c_proj", "attn_output", "gpt2"},
    {"ln_2", "ffn_norm", "gpt2"},
    {"mlp.c_fc", "ffn_up", "gpt2"},
    {"mlp.c_proj", "ffn_down", "gpt2"},
    {"attention.self.query", "attn_q", "bert"},
    {"attention.self.key", "attn_k", "bert"},
    {"attention.self.value", "attn_v", "bert"},
    {"attention.output.dense", "attn_output", "bert"},
    {"attention.output.LayerNorm", "attn_output_norm", "bert"},
    {"intermediate.dense", "ffn_up", "bert"},
    {"output.dense", "ffn_down", "bert"},
    {"output.LayerNorm", "layer_output_norm", "bert"},
    {"attn.Wqkv", "attn_qkv", "nomic-bert"},
    {"attn.out_proj", "attn_output", "nomic-bert"},
    {"norm1", "attn_output_norm", "nomic-bert"},
    {"mlp.fc11", "ffn_up", "nomic-bert"},
    {"mlp.fc12", "ffn_gate", "nomic-bert"},
    {"mlp.fc2", "ffn_down", "nomic-bert"},
    {"norm2", "layer_output_norm", "nomic-bert"},
};

// Names of gpt-oss in a layer that end in neither "weight" nor "bias".
struct WholeName {
  std::string_view folder;
  std::string_view gguf;
  std::string_view second = "";  // see FolderName
  Arrangement::Kind kind = Arrangement::kSame;
};
constexpr WholeName kGptOssNames[] = {
    {"self_attn.sinks", "attn_sinks.weight"},
    {"mlp.experts.gate_up_proj", "ffn_gate_exps.weight", "ffn_up_exps.weight", Arrangement::kTransposed},
    {"mlp.experts.gate_up_proj_bias", "ffn_gate_exps.bias", "ffn_up_exps.bias", Arrangement::kInterleaved},
    {"mlp.experts.down_proj", "ffn_down_exps.weight", "", Arrangement::kTransposed},
    {"mlp.experts.down_proj_bias", "ffn_down_exps.bias"},
    // The same matrices in MXFP4.
    {"mlp.experts.gate_up_proj_blocks", "ffn_gate_exps.weight", "ffn_up_exps.weight",
     Arrangement::kMxfp4Blocks},
    {"mlp.experts.gate_up_proj_scales", "ffn_gate_exps.weight", "ffn_up_exps.weight",
     Arrangement::kMxfp4Scales},
    {"mlp.experts.down_proj_blocks", "ffn_down_exps.weight", "", Arrangement::kMxfp4Blocks},
    {"mlp.experts.down_proj_scales", "ffn_down_exps.weight", "", Arrangement::kMxfp4Scales},
};

// Ends of the names of constants that older programs saved with the weights: masks, numbers of positions, and
// frequencies that follow from the configuration.
constexpr std::string_view kSavedConstants[] = {".rotary_emb.inv_freq", ".attn.masked_bias", ".attn.bias",
                                                "embeddings.position_ids"};
// The layer of BERT behind the first token, for predicting whether a text follows another, or for
// classification. Vectors of texts are made without it.
constexpr std::string_view kPooler = "pooler.dense.";

// The parts, with points between them.
std::string join(std::initializer_list<std::string_view> parts) {
  std::string text;
  for (const std::string_view part : parts) {
    if (!text.empty()) text += '.';
    text += part;
  }
  return text;
}

template <size_t kSize>
std::optional<std::string_view> look_up(const Name (&names)[kSize], std::string_view name,
                                        std::string_view architecture) {
  for (const Name& one : names) {
    const bool is_for_it =
        one.architecture.empty() ? !has_own_names(architecture) : architecture.starts_with(one.architecture);
    if (is_for_it && one.folder == name) return one.gguf;
  }
  return std::nullopt;
}

// A row for this architecture takes precedence over a row for all.
template <size_t kSize>
std::optional<std::string_view> look_up_gguf(const Name (&names)[kSize], std::string_view gguf,
                                             std::string_view architecture) {
  std::optional<std::string_view> found;
  for (const Name& one : names) {
    if (one.gguf != gguf) continue;
    if (!one.architecture.empty() && architecture.starts_with(one.architecture)) return one.folder;
    if (!found && one.architecture.empty() && !has_own_names(architecture)) found = one.folder;
  }
  return found;
}

// Removes a number and the point after it from the front of the text. Nothing if the text begins otherwise.
std::optional<std::string_view> take_number(std::string_view& text) {
  constexpr size_t kMaxDigits = 6;
  const size_t end = text.find('.');
  if (end == std::string_view::npos || end == 0 || end > kMaxDigits) return std::nullopt;
  const std::string_view digits = text.substr(0, end);
  if (!std::ranges::all_of(digits, [](char c) { return c >= '0' && c <= '9'; })) return std::nullopt;
  text.remove_prefix(end + 1);
  return digits;
}

bool take_prefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

std::optional<std::string> with_expert(std::optional<std::string_view> name, std::string_view expert) {
  if (!name) return std::nullopt;
  std::string text(*name);
  if (const size_t at = text.find('#'); at != std::string::npos) text.replace(at, 1, expert);
  return text;
}

// name: after the layer's number, such as "self_attn.q_proj" and "mlp.experts.3.up_proj".
std::optional<std::string> layer_name_of(std::string_view name, std::string_view architecture) {
  constexpr std::string_view kExperts = ".experts.";
  const size_t at = name.find(kExperts);
  if (at == std::string_view::npos) return with_expert(look_up(kLayerNames, name, architecture), "");
  const std::string_view before = name.substr(0, at + kExperts.size());
  name.remove_prefix(before.size());
  const std::optional<std::string_view> expert = take_number(name);
  if (!expert) return std::nullopt;
  const std::string wanted = std::string(before) + "#." + std::string(name);
  return with_expert(look_up(kLayerNames, wanted, architecture), *expert);
}

// Makes "mlp.experts.3.up_proj" of "ffn_up.3", and "mlp.experts.0.up_proj" of "ffn_up_exps".
std::optional<std::string> folder_layer_name_of(std::string_view gguf, std::string_view architecture) {
  constexpr std::string_view kAll = "_exps";
  std::string_view expert;
  if (const size_t point = gguf.rfind('.'); point != std::string_view::npos) {
    expert = gguf.substr(point + 1);
    gguf = gguf.substr(0, point);
  } else if (gguf.ends_with(kAll)) {
    expert = "0";
    gguf.remove_suffix(kAll.size());
  }
  const std::string wanted = expert.empty() ? std::string(gguf) : join({gguf, "#"});
  return with_expert(look_up_gguf(kLayerNames, wanted, architecture), expert);
}

Arrangement::Kind kind_of(std::string_view gguf, std::string_view type, std::string_view architecture) {
  if (architecture.starts_with("gemma") && gguf.ends_with("norm")) return Arrangement::kLessOne;
  const bool has_neighbours =
      architecture == "llama" || architecture == "granite" || architecture == "smollm3";
  if (has_neighbours && (gguf == "attn_q" || gguf == "attn_k")) return Arrangement::kHalvedHeads;
  const bool is_layer_matrix =
      gguf == "attn_qkv" || gguf == "attn_output" || gguf == "ffn_up" || gguf == "ffn_down";
  if (architecture == "gpt2" && type == "weight" && is_layer_matrix) return Arrangement::kTransposed;
  return Arrangement::kSame;
}

}  // namespace

Result<FolderNames> FolderNames::of(std::string_view architecture,
                                    const std::function<bool(const std::string&)>& has_tensor,
                                    const std::string& path) {
  const std::string bare = join({*look_up_gguf(kModelNames, kGgufEmbedding, architecture), "weight"});
  std::string_view prefix = body_of(architecture).prefix;
  if (architecture == "bert" && has_tensor("roberta." + bare)) prefix = "roberta.";
  const std::string prefixed = std::string(prefix) + bare;
  const bool is_bare = has_tensor(bare);
  if (is_bare && has_tensor(prefixed)) {
    return bad_model(path, "has tensors " + in_quotes(prefixed) + " and " + in_quotes(bare) +
                               ", of which only one can be the embedding");
  }
  return FolderNames(architecture, is_bare ? "" : prefix, has_tensor("classifier.weight"));
}

std::optional<std::string_view> FolderNames::take_layer(std::string_view& name) const {
  if (!take_prefix(name, prefix_) || !take_prefix(name, body_of(architecture_).layers)) return std::nullopt;
  return take_number(name);
}

std::optional<FolderName> FolderNames::gguf_name_of(std::string_view name) const {
  for (const std::string_view end : kSavedConstants) {
    if (name.ends_with(end)) return FolderName{};
  }
  if (std::string_view stem = name; architecture_ == "gpt-oss") {
    const std::optional<std::string_view> layer = take_layer(stem);
    const auto found = std::ranges::find(kGptOssNames, stem, &WholeName::folder);
    if (layer && found != std::end(kGptOssNames)) {
      return FolderName{join({"blk", *layer, found->gguf}), found->kind,
                        found->second.empty() ? "" : join({"blk", *layer, found->second})};
    }
  }
  if (architecture_ == "bert" && !uses_pooler_ && name.find(kPooler) != std::string_view::npos)
    return FolderName{};
  const size_t point = name.rfind('.');
  if (point == std::string_view::npos) return std::nullopt;
  const std::string_view type = name.substr(point + 1);
  if (type != "weight" && type != "bias") return std::nullopt;
  std::string_view stem = name.substr(0, point);
  if (stem == kHead) return FolderName{join({kGgufHead, type})};
  if (const auto found = look_up(kClassifierNames, stem, architecture_))
    return FolderName{join({*found, type})};
  if (std::string_view after = stem; take_prefix(after, prefix_)) {
    if (const auto found = look_up(kModelNames, after, architecture_))
      return FolderName{join({*found, type}), kind_of(*found, type, architecture_)};
  }
  const std::optional<std::string_view> layer = take_layer(stem);
  if (!layer) return std::nullopt;
  const std::optional<std::string> found = layer_name_of(stem, architecture_);
  if (!found) return std::nullopt;
  return FolderName{join({"blk", *layer, *found, type}), kind_of(*found, type, architecture_)};
}

std::optional<std::string> FolderNames::folder_name_of(std::string_view gguf_name) const {
  const size_t point = gguf_name.rfind('.');
  if (point == std::string_view::npos) return std::nullopt;
  const std::string_view type = gguf_name.substr(point + 1);
  std::string_view stem = gguf_name.substr(0, point);
  if (stem == kGgufHead) return join({kHead, type});
  if (uses_pooler_ && stem == "cls.output") return join({"classifier", type});
  if (const auto found = look_up_gguf(kClassifierNames, stem, architecture_); found && !uses_pooler_)
    return join({*found, type});
  if (const auto found = look_up_gguf(kModelNames, stem, architecture_))
    return prefix_ + join({*found, type});
  if (!take_prefix(stem, "blk.")) return std::nullopt;
  const std::optional<std::string_view> layer = take_number(stem);
  if (!layer) return std::nullopt;
  const std::string of_layer = prefix_ + std::string(body_of(architecture_).layers);
  for (const WholeName& one : kGptOssNames) {
    const std::string whole = join({stem, type});
    if (architecture_ == "gpt-oss" && (one.gguf == whole || one.second == whole))
      return of_layer + join({*layer, one.folder});
  }
  const std::optional<std::string> found = folder_layer_name_of(stem, architecture_);
  if (!found) return std::nullopt;
  return of_layer + join({*layer, *found, type});
}

}  // namespace runnel

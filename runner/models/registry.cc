#include "runner/models/registry.h"

#include <algorithm>
#include <utility>

#include "runner/models/architectures.h"
#include "runner/models/bert.h"
#include "runner/models/decoder.h"
#include "runner/models/gemma.h"
#include "runner/models/glm4.h"
#include "runner/models/gpt2.h"
#include "runner/models/gpt_oss.h"
#include "runner/models/granite.h"
#include "runner/models/kv_groups.h"
#include "runner/models/llama.h"
#include "runner/models/olmo2.h"
#include "runner/models/phi3.h"
#include "runner/models/qwen2.h"
#include "runner/models/qwen3.h"
#include "runner/models/smollm3.h"
#include "runner/models/weight_loader.h"

namespace runnel {
namespace {

constexpr Architecture kArchitectures[] = {
    {.name = "llama", .read = read_llama, .spec = llama_spec, .has_experts = true},
    {.name = "qwen2", .read = nullptr, .spec = qwen2_spec},
    {.name = "qwen3", .read = nullptr, .spec = qwen3_spec},
    {.name = "gpt2",
     .read = read_gpt2,
     .spec = gpt2_spec,
     .epsilon_key = "attention.layer_norm_epsilon",
     .rope_scaling = ""},
    {.name = "bert",
     .read = read_bert,
     .spec = bert_spec,
     .epsilon_key = "attention.layer_norm_epsilon",
     .rope_scaling = ""},
    {.name = "nomic-bert",
     .read = read_nomic_bert,
     .spec = nomic_bert_spec,
     .epsilon_key = "attention.layer_norm_epsilon",
     .rope_scaling = ""},
    {.name = "gemma2", .read = read_gemma2, .spec = gemma2_spec, .has_softcaps = true},
    {.name = "gemma3", .read = read_gemma3, .spec = gemma3_spec, .rope_scaling = ""},
    {.name = "phi3", .read = read_phi3, .spec = phi3_spec, .rope_scaling = "longrope"},
    {.name = "glm4", .read = read_glm4, .spec = glm4_spec},
    {.name = "granite", .read = read_granite, .spec = granite_spec},
    {.name = "smollm3", .read = nullptr, .spec = smollm3_spec},
    {.name = "olmo2", .read = read_olmo2, .spec = olmo2_spec},
    {.name = "qwen3moe", .read = read_qwen3moe, .spec = qwen3_spec, .has_experts = true},
    {.name = "gpt-oss", .read = read_gpt_oss, .spec = gpt_oss_spec, .has_experts = true},
};

// Architectures that need another operation, by their names in GGUF files and in config.json. The gateway
// says the same (gateway/models/model.ts).
struct Unsupported {
  std::string_view name;
  std::string_view missing;
};
constexpr Unsupported kUnsupported[] = {
    {"bloom", "ALiBi, biases of scores by distance"},
    {"jina-bert-v2", "ALiBi, biases of scores by distance"},
    {"mpt", "ALiBi, biases of scores by distance"},
    {"new", "NTK scaling of rotations in an encoder"},
    {"deepseek2", "compressed keys and values (MLA)"},
    {"deepseek_v2", "compressed keys and values (MLA)"},
    {"deepseek_v3", "compressed keys and values (MLA)"},
    {"minicpm3", "compressed keys and values (MLA)"},
    {"deepseek", "experts that every token uses"},
    {"glm4moe", "experts that every token uses"},
    {"glm4_moe", "experts that every token uses"},
    {"qwen2moe", "experts that every token uses"},
    {"qwen2_moe", "experts that every token uses"},
    {"falcon-h1", "state space layers"},
    {"falcon_h1", "state space layers"},
    {"granitehybrid", "state space layers"},
    {"granitemoehybrid", "state space layers"},
    {"jamba", "state space layers"},
    {"mamba", "state space layers"},
    {"mamba2", "state space layers"},
    {"nemotron_h", "state space layers"},
    {"qwen3next", "recurrent layers"},
    {"qwen3_next", "recurrent layers"},
    {"rwkv6", "recurrent layers"},
    {"rwkv7", "recurrent layers"},
    {"cohere", "attention and a feed-forward part side by side"},
    {"cohere2", "attention and a feed-forward part side by side"},
    {"command-r", "attention and a feed-forward part side by side"},
    {"falcon", "attention and a feed-forward part side by side"},
    {"gptneox", "attention and a feed-forward part side by side"},
    {"gpt_neox", "attention and a feed-forward part side by side"},
    {"phi", "attention and a feed-forward part side by side"},
    {"phi2", "attention and a feed-forward part side by side"},
    {"qwen2vl", "positions of several axes (M-RoPE)"},
    {"qwen2_vl", "positions of several axes (M-RoPE)"},
    {"qwen2_5_vl", "positions of several axes (M-RoPE)"},
    {"qwen3vl", "positions of several axes (M-RoPE)"},
    {"qwen3_vl", "positions of several axes (M-RoPE)"},
    {"llama4", "attention in chunks"},
    {"gemma3n", "several residual streams"},
    {"mllama", "attention to another text or an image"},
    {"t5", "attention to another text or an image"},
    {"mpnet", "biases of scores by learned distances"},
    {"t5encoder", "biases of scores by learned distances"},
    {"deberta-v2", "scores by relative positions"},
    {"modern-bert", "windows of rows that see ahead"},
    {"modernbert", "windows of rows that see ahead"},
    {"nomic-bert-moe", "experts in an encoder"},
};

}  // namespace

const Architecture* find_architecture(std::string_view name) {
  for (const Architecture& architecture : kArchitectures) {
    if (architecture.name == name) return &architecture;
  }
  return nullptr;
}

std::string architecture_names() {
  std::string names;
  for (const Architecture& architecture : kArchitectures) {
    if (!names.empty()) names += ", ";
    names += architecture.name;
  }
  return names;
}

std::string_view missing_operations(std::string_view architecture) {
  for (const Unsupported& one : kUnsupported) {
    if (one.name == architecture) return one.missing;
  }
  return {};
}

Result<DecoderSpec> load_weights(const ModelFile& file, const ModelConfig& config, Backend& backend,
                                 const LoadProgressFn& progress) {
  WeightLoader loader(file, backend, progress);
  DecoderSpec spec = find_architecture(config.architecture)->spec(config, loader);
  if (const Result<void> loaded = loader.finish(); !loaded) return loaded.error();
  const KvGroups groups = kv_groups_of(config);
  for (LayerSpec& layer : spec.layers) layer.kv = groups.places[layer.index];
  return spec;
}

Result<std::unique_ptr<Model>> load_model(const ModelFile& file, std::string_view expected_architecture,
                                          uint32_t max_positions, Backend& backend, const StepLimits& limits,
                                          const LoadProgressFn& progress) {
  Result<ModelConfig> config = read_config(file, expected_architecture);
  if (!config) return config.error();
  if (max_positions != 0) config->max_positions = std::min(max_positions, config->context_length);
  Result<DecoderSpec> spec = load_weights(file, *config, backend, progress);
  if (!spec) return spec.error();
  Result<std::unique_ptr<Model>> model = Decoder::create(*config, *std::move(spec), backend, limits);
  if (!model) return Error{model.error().exit_code, file.path() + ": " + model.error().message};
  return model;
}

}  // namespace runnel

#include "runner/commands/inspect.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <span>

#include "runner/commands/memory_plan.h"
#include "runner/formats/model_file.h"
#include "runner/models/registry.h"

namespace runnel {
namespace {

using nlohmann::ordered_json;

// What a step reads of the weights, and the parameters that a row is multiplied by before the head.
// Embeddings are only looked up, unless the embedding is also the head.
struct StepWeights {
  uint64_t bytes = 0;
  uint64_t layer_parameters = 0;
};

StepWeights step_weights_of(std::span<const TensorView> tensors) {
  const bool has_output =
      std::ranges::any_of(tensors, [](const TensorView& tensor) { return tensor.name == "output.weight"; });
  StepWeights weights;
  for (const TensorView& tensor : tensors) {
    const bool is_tied_head = tensor.name == "token_embd.weight" && !has_output;
    const bool is_embedding = tensor.name.find("_embd.weight") != std::string::npos;
    if (!is_embedding || is_tied_head) weights.bytes += tensor.data.size();
    if (tensor.name.starts_with("blk.") && tensor.num_dims > 1)
      weights.layer_parameters += tensor.columns() * tensor.rows();
  }
  return weights;
}

// How positions are scaled before heads are rotated; null if they are not scaled.
ordered_json rope_scaling_of(const ModelFile& file, const ModelConfig& config) {
  if (file.find_tensor("rope_factors_long.weight") != nullptr) {
    return {{"type", "longrope"},
            {"original_context_length", config.original_context_length},
            {"magnitude", config.rope_magnitude}};
  }
  if (file.find_tensor("rope_freqs.weight") != nullptr) return {{"type", "llama3"}};
  if (config.yarn_fast_turns != 0.0) {
    return {{"type", "yarn"},
            {"factor", config.rope_factor},
            {"original_context_length", config.original_context_length},
            {"magnitude", config.rope_magnitude}};
  }
  if (config.rope_factor != 1.0) return {{"type", "linear"}, {"factor", config.rope_factor}};
  return nullptr;
}

// Properties of layers that differ from model to model.
ordered_json layers_of(const ModelFile& file, const ModelConfig& config) {
  const auto has = [&](const char* tensor) { return file.find_tensor(tensor) != nullptr; };
  ordered_json window = nullptr;
  if (config.sliding_window != 0) window = {{"positions", config.sliding_window}};
  if (config.local_window != 0) {
    window = {{"positions", config.local_window},
              {"global_every", config.global_every},
              {"rope_theta", config.local_rope_theta}};
  }
  ordered_json experts = nullptr;
  if (config.num_experts != 0) {
    experts = {{"count", config.num_experts},
               {"used", config.num_used_experts},
               {"ffn_size", config.expert_ffn_size}};
  }
  return {{"norm", has("blk.0.attn_norm.bias") ? "layer" : "rms"},
          {"has_head_norms", has("blk.0.attn_q_norm.weight")},
          {"has_output_norms", has("blk.0.post_attention_norm.weight")},
          {"positions", has("position_embd.weight") ? "learned" : "rotary"},
          {"rope_scaling", rope_scaling_of(file, config)},
          {"sliding_window", window},
          {"experts", experts}};
}

ordered_json describe(const ModelFile& file, const ModelConfig& config) {
  struct Total {
    uint64_t num_tensors = 0;
    uint64_t bytes = 0;
  };
  std::map<std::string, Total> by_type;
  uint64_t num_parameters = 0;
  for (const TensorView& tensor : file.tensors()) {
    Total& total = by_type[std::string(type_name(tensor.type))];
    ++total.num_tensors;
    total.bytes += tensor.data.size();
    num_parameters += tensor.columns() * tensor.rows();
  }
  const StepWeights step = step_weights_of(file.tensors());
  ordered_json tensors = ordered_json::object();
  for (const auto& [type, total] : by_type)
    tensors[type] = {{"tensors", total.num_tensors}, {"bytes", total.bytes}};
  return {{"architecture", config.architecture},
          {"num_parameters", num_parameters},
          {"num_layers", config.num_layers},
          {"hidden_size", config.hidden_size},
          {"num_heads", config.num_heads},
          {"num_kv_heads", config.num_kv_heads},
          {"head_dim", config.head_dim},
          {"ffn_size", config.ffn_size},
          {"vocab_size", config.vocab_size},
          {"context_length", config.context_length},
          {"rotary_dim", config.rotary_dim},
          {"rope_theta", config.rope_theta},
          {"norm_epsilon", config.norm_epsilon},
          {"layers", layers_of(file, config)},
          {"gguf_version", file.gguf_version() ? ordered_json(*file.gguf_version()) : ordered_json(nullptr)},
          {"file_bytes", file.file_bytes()},
          {"identity", file.identity()},
          {"step_weight_bytes", step.bytes},
          {"layer_matrix_parameters", step.layer_parameters},
          {"tensors", tensors}};
}

// Adds the lines of the plan, their sum, and what may be used. Returns why the model cannot be served here.
std::optional<Error> add_plan(ordered_json& description, const EngineFlags& flags, const ModelFile& file,
                              const BackendFactory& factory) {
  if (const auto checked = check_block_size(flags.block_size); !checked.ok()) return checked.error();
  const Result<std::unique_ptr<Backend>> backend = factory.make(flags.backend_options());
  if (!backend.ok()) return backend.error();
  const Result<MemoryPlan> plan = plan_memory(flags, file, **backend, usable_memory(flags, **backend));
  if (!plan.ok()) return plan.error();
  description["device"] = (*backend)->device().name();
  description["max_model_len"] = plan->max_model_len;
  description["max_num_seqs"] = flags.max_num_seqs;
  description["num_kvcache_blocks"] = plan->num_blocks;
  description["kv_block_layers"] = plan->shape.num_layers;
  description["kv_group_windows"] = plan->windows;
  description["process_bytes"] = plan->process;
  description["weights_bytes"] = plan->weights;
  description["kv_cache_bytes"] = plan->kv_cache;
  description["rows_bytes"] = plan->step.rows;
  description["attention_bytes"] = plan->step.attention;
  description["logits_bytes"] = plan->step.logits;
  description["requests_bytes"] = plan->requests;
  description["memory_bytes"] = plan->total();
  if (plan->available) description["available_bytes"] = *plan->available;
  return shortage_of(*plan);
}

void print_description(const ordered_json& description, std::ostream& out) {
  for (const auto& [key, value] : description.items()) {
    if (key == "tensors" || value.is_null()) continue;
    if (key == "layers") {
      print_description(value, out);
      continue;
    }
    out << key << ": " << (value.is_string() ? value.get<std::string>() : value.dump()) << '\n';
  }
  if (!description.contains("tensors")) return;
  for (const auto& [type, total] : description["tensors"].items())
    out << "tensors of " << type << ": " << total["tensors"] << ", " << total["bytes"] << " bytes\n";
}

}  // namespace

Result<void> inspect(const EngineFlags& flags, const BackendFactory& factory, bool json, std::ostream& out) {
  const Result<ModelFiles> opened = ModelFiles::open(flags.model);
  if (!opened.ok()) return opened.error();
  const Result<ModelFile> file = read_model_file(flags, *opened);
  if (!file.ok()) return file.error();
  const Result<ModelConfig> config = read_config(*file, flags.architecture);
  if (!config.ok()) return config.error();
  ordered_json description = describe(*file, *config);
  // A model that cannot be served is no failure of inspect.
  const std::optional<Error> obstacle = add_plan(description, flags, *file, factory);
  description["obstacle"] = obstacle ? ordered_json(obstacle->message) : ordered_json(nullptr);
  if (json) {
    // Text from a file need not be UTF-8.
    out << description.dump(-1, ' ', false, ordered_json::error_handler_t::replace) << std::endl;
  } else {
    print_description(description, out);
    out.flush();
  }
  return {};
}

}  // namespace runnel

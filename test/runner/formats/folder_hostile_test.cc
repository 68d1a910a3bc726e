// Folders with faults. Each is refused within a second, with a sentence that names the fault.
// gguf_hostile_test does the same for GGUF files. Each class of fault, and where it is tested:
//
//   lengths of headers, cut files          safetensors_test; here: a header as long as any that is read
//   shapes, sizes that overflow            safetensors_test: a tensor that is described wrongly
//   data outside of the file, overlapping  safetensors_test: tensors fill the data, each byte one's
//   names that come twice                  safetensors_test; here: a tensor in two files
//   deep, long and wrong JSON              safetensors_test, folder_test
//   shards, their index, escapes by it     folder_test; here: an index that names what it may not
//   names with and without a prefix        here: names without their prefix
//   links                                  here: links are followed, to regular files alone
//   values of config.json                  here: hostile values of every key
//   cut while it is mapped                 here: weights cut short while they are mapped
//   all of these in any mixture            test/fuzz/folder_target
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <ctime>
#include <functional>

#include "cpu-runner/cpu_backend.h"
#include "runner/formats/safetensors.h"
#include "runner/models/registry.h"
#include "test/fixtures/golden_models.h"
#include "test/fixtures/safetensors_writer.h"

namespace runnel {
namespace {

using namespace test;
using nlohmann::json;

constexpr double kMaxSeconds = 1.0;

double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// "accepted", or the refusal without the folder's path, when the folder is read or when the model is loaded.
std::string outcome_of(const ModelFolder& folder, ExitCode wanted = ExitCode::kBadModel) {
  const double begin = processor_seconds();
  const Result<ModelFile> file = ModelFile::open(folder.path());
  Result<void> outcome = file ? Result<void>() : Result<void>(file.error());
  if (file) {
    const auto backend = make_cpu_backend({.num_threads = 1});
    REQUIRE(backend.ok());
    const auto model = load_model(*file, "", 0, **backend, {.max_rows = 8, .max_head_rows = 8}, {});
    if (!model) outcome = model.error();
  }
  // Code with AddressSanitizer takes several times as long.
#ifndef __SANITIZE_ADDRESS__
  CHECK(processor_seconds() - begin < kMaxSeconds);
#else
  (void)begin;
#endif
  if (outcome) return "accepted";
  CHECK(outcome.error().exit_code == wanted);
  std::string message = outcome.error().message;
  CHECK(message.ends_with("."));
  for (size_t at; (at = message.find(folder.path())) != std::string::npos;)
    message.replace(at, folder.path().size(), "FOLDER");
  CHECK(message.find("FOLDER") != std::string::npos);
  return message;
}

SafetensorsWriter weights_of(const std::string& model) {
  return safetensors_of(golden_model_path(model + "/model.safetensors"));
}

const std::vector<json>& hostile_values() {
  static const std::vector<json> values = {
      nullptr, true, 0, -1, 0.5, 1e300, uint64_t{1} << 63, "x", json::array(), json::object({{"a", 1}})};
  return values;
}

// Calls fn with the place of each value of the configuration that is no object.
void each_place(const json& value, const json::json_pointer& place,
                const std::function<void(const json::json_pointer&)>& fn) {
  if (!value.is_object()) return fn(place);
  for (const auto& [key, inner] : value.items()) each_place(inner, place / key, fn);
}

TEST_CASE("folders: hostile values of every key of every architecture are refused, or change nothing") {
  for (const char* model :
       {"llama3",   "mistral", "qwen2",   "qwen3",   "gpt2",      "gemma3",       "phi3",
        "qwen3moe", "yarn",    "glm4",    "smollm3", "mixtral",   "granite",      "olmo2",
        "gemma2",   "bert",    "gpt-oss", "roberta", "bert-rank", "roberta-rank", "nomic-bert"}) {
    CAPTURE(model);
    const json config = golden_config(model);
    const ModelFolder folder;
    std::filesystem::create_symlink(golden_model_path(std::string(model) + "/model.safetensors"),
                                    folder.path() + "/model.safetensors");
    size_t num_refused = 0;
    each_place(config, json::json_pointer(), [&](const json::json_pointer& place) {
      for (const json& value : hostile_values()) {
        CAPTURE(place.to_string());
        CAPTURE(value.dump());
        json bent = config;
        bent[place] = value;
        folder.write(bent);
        num_refused += outcome_of(folder) != "accepted";
      }
    });
    CHECK(num_refused > 60);
  }
}

struct Key {
  const char* model;
  const char* place;
  const char* said;  // must be in the refusal
};

TEST_CASE("folders: an invalid, negative or huge count is refused by name") {
  for (const Key& key : {Key{"llama3", "/num_hidden_layers", "llama.block_count"},
                         Key{"llama3", "/hidden_size", "llama.embedding_length"},
                         Key{"llama3", "/intermediate_size", "llama.feed_forward_length"},
                         Key{"llama3", "/max_position_embeddings", "llama.context_length"},
                         Key{"llama3", "/num_attention_heads", "llama.attention.head_count"},
                         Key{"qwen3", "/num_key_value_heads", "qwen3.attention.head_count_kv"},
                         Key{"qwen3", "/head_dim", "qwen3.attention.key_length"},
                         Key{"mistral", "/sliding_window", "llama.attention.sliding_window"},
                         Key{"gemma3", "/sliding_window", "gemma3.attention.sliding_window"},
                         Key{"gemma2", "/sliding_window", "gemma2.attention.sliding_window"},
                         Key{"qwen3moe", "/num_local_experts", "qwen3moe.expert_count"},
                         Key{"gpt-oss", "/num_local_experts", "gpt-oss.expert_count"},
                         Key{"gpt-oss", "/num_experts_per_tok", "gpt-oss.expert_used_count"},
                         Key{"gpt-oss", "/sliding_window", "gpt-oss.attention.sliding_window"},
                         Key{"qwen3moe", "/num_experts_per_tok", "qwen3moe.expert_used_count"},
                         Key{"qwen3moe", "/moe_intermediate_size", "qwen3moe.expert_feed_forward_length"},
                         Key{"mixtral", "/num_local_experts", "llama.expert_count"},
                         Key{"mixtral", "/num_experts_per_tok", "llama.expert_used_count"},
                         Key{"smollm3", "/num_key_value_heads", "smollm3.attention.head_count_kv"},
                         Key{"gpt2", "/n_layer", "gpt2.block_count"},
                         Key{"gpt2", "/n_positions", "gpt2.context_length"}}) {
    CAPTURE(key.model);
    CAPTURE(key.place);
    const ModelFolder folder;
    folder.write(weights_of(key.model));
    for (const json& value : {json(-1), json(uint64_t{1} << 63), json(0.5), json(1e300), json("x"),
                              json(true), json::array(), json::object()}) {
      CAPTURE(value.dump());
      json config = golden_config(key.model);
      config[json::json_pointer(key.place)] = value;
      folder.write(config);
      CHECK(outcome_of(folder).starts_with("FOLDER has "));
      CHECK(outcome_of(folder).find(key.said) != std::string::npos);
    }
  }
}

TEST_CASE("folders: a number that nothing can be computed with is refused by name") {
  for (const Key& key :
       {Key{"llama3", "/rms_norm_eps", "llama.attention.layer_norm_rms_epsilon"},
        Key{"gpt2", "/layer_norm_epsilon", "gpt2.attention.layer_norm_epsilon"},
        Key{"qwen2", "/rope_parameters/rope_theta", "qwen2.rope.freq_base"},
        Key{"gemma3", "/rope_parameters/full_attention/rope_theta", "gemma3.rope.freq_base"},
        Key{"gemma3", "/rope_parameters/sliding_attention/rope_theta", "gemma3.rope.freq_base_swa"},
        Key{"gemma3", "/rope_parameters/full_attention/factor", "gemma3.rope.scaling.factor"},
        Key{"llama3", "/rope_parameters/factor", "factor"},
        Key{"yarn", "/rope_parameters/factor", "factor"},
        Key{"yarn", "/rope_parameters/original_max_position_embeddings", "original"},
        Key{"yarn", "/rope_parameters/beta_fast", "qwen3.rope.scaling.yarn_beta_fast"},
        Key{"yarn", "/rope_parameters/beta_slow", "qwen3.rope.scaling.yarn_beta_slow"},
        Key{"yarn", "/rope_parameters/attention_factor", "att"},
        Key{"glm4", "/rope_parameters/partial_rotary_factor", "partial_rotary_factor"},
        Key{"granite", "/embedding_multiplier", "granite.embedding_scale"},
        Key{"granite", "/residual_multiplier", "granite.residual_scale"},
        Key{"granite", "/attention_multiplier", "granite.attention.scale"},
        Key{"granite", "/logits_scaling", "granite.logit_scale"},
        Key{"llama3", "/rope_parameters/high_freq_factor", "high_freq_factor"},
        Key{"phi3", "/rope_parameters/partial_rotary_factor", "partial_rotary_factor"},
        Key{"phi3", "/original_max_position_embeddings", "original_max_position_embeddings"},
        Key{"phi3", "/rope_parameters/long_factor/0", "long_factor of its configuration"}}) {
    CAPTURE(key.model);
    CAPTURE(key.place);
    const ModelFolder folder;
    folder.write(weights_of(key.model));
    for (const json& value : {json(0), json(-1), json(1e300), json("x"), json(true), json::object()}) {
      CAPTURE(value.dump());
      // This value is accepted, because the reference accepts it too.
      if (std::string_view(key.place).ends_with("high_freq_factor") && value == 1e300) continue;
      json config = golden_config(key.model);
      config[json::json_pointer(key.place)] = value;
      folder.write(config);
      const std::string outcome = outcome_of(folder);
      CHECK(outcome.find(key.said) != std::string::npos);
    }
  }
}

TEST_CASE("folders: numbers beyond what JSON's readers hold are refused") {
  const ModelFolder folder;
  folder.write(weights_of("llama3"));
  for (const char* number :
       {"1e400", "-1e400", "NaN", "Infinity", "0x10", "1e", "18446744073709551616e4000"}) {
    CAPTURE(number);
    std::string text = golden_config("llama3").dump();
    const std::string key = "\"rms_norm_eps\":";
    text.insert(text.find(key) + key.size(), std::string(number) + ",\"x\":");
    folder.write("config.json", text);
    CHECK(outcome_of(folder).starts_with("FOLDER/config.json is not JSON at byte "));
  }
}

TEST_CASE("folders: a tensor is named as the folder names it, with its shape as it is written there") {
  struct Case {
    const char* model;
    const char* tensor;
    const char* shape;
  };
  for (const Case& one : {Case{"llama3", "model.layers.0.self_attn.o_proj.weight", "(64, 64)"},
                          Case{"llama3", "model.layers.1.mlp.down_proj.weight", "(64, 96)"},
                          Case{"qwen2", "model.layers.0.self_attn.k_proj.bias", "(32)"},
                          Case{"qwen3", "model.layers.0.self_attn.q_norm.weight", "(32)"},
                          Case{"gpt2", "transformer.h.0.mlp.c_fc.weight", "(64, 256)"},
                          Case{"gpt2", "transformer.wpe.weight", "(512, 64)"},
                          Case{"gemma3", "model.layers.6.post_attention_layernorm.weight", "(64)"},
                          Case{"gemma3", "model.layers.0.pre_feedforward_layernorm.weight", "(64)"},
                          Case{"phi3", "model.layers.1.mlp.gate_up_proj.weight", "(192, 64)"},
                          Case{"qwen3moe", "model.layers.1.mlp.experts.5.down_proj.weight", "(64, 32)"},
                          Case{"qwen3moe", "model.layers.0.mlp.gate.weight", "(6, 64)"},
                          Case{"mixtral", "model.layers.1.block_sparse_moe.experts.4.w2.weight", "(64, 96)"},
                          Case{"mixtral", "model.layers.0.block_sparse_moe.gate.weight", "(5, 64)"},
                          Case{"gemma2", "model.layers.2.post_feedforward_layernorm.weight", "(64)"},
                          Case{"olmo2", "model.layers.0.self_attn.q_norm.weight", "(64)"},
                          Case{"olmo2", "model.layers.1.self_attn.k_norm.weight", "(32)"},
                          Case{"olmo2", "model.layers.0.post_attention_layernorm.weight", "(64)"},
                          Case{"olmo2", "model.layers.1.post_feedforward_layernorm.weight", "(64)"},
                          Case{"glm4", "model.layers.1.mlp.gate_up_proj.weight", "(192, 64)"},
                          Case{"glm4", "model.layers.0.post_self_attn_layernorm.weight", "(64)"},
                          Case{"glm4", "model.layers.0.post_mlp_layernorm.weight", "(64)"},
                          Case{"bert", "embeddings.LayerNorm.bias", "(64)"},
                          Case{"bert", "embeddings.token_type_embeddings.weight", nullptr},
                          Case{"bert", "encoder.layer.0.attention.self.query.weight", "(64, 64)"},
                          Case{"bert", "encoder.layer.1.intermediate.dense.bias", "(96)"},
                          Case{"bert", "encoder.layer.1.output.LayerNorm.weight", "(64)"},
                          Case{"gpt-oss", "model.layers.0.self_attn.sinks", "(4)"},
                          Case{"gpt-oss", "model.layers.2.mlp.experts.gate_up_proj", "(5, 64, 192)"},
                          Case{"gpt-oss", "model.layers.1.mlp.experts.gate_up_proj_bias", "(5, 192)"},
                          Case{"gpt-oss", "model.layers.1.mlp.experts.down_proj", "(5, 96, 64)"},
                          Case{"gpt-oss", "model.layers.0.mlp.experts.down_proj_bias", "(5, 64)"},
                          Case{"gpt-oss", "model.layers.0.mlp.router.bias", "(5)"},
                          Case{"gpt-oss", "model.layers.0.post_attention_layernorm.weight", "(64)"},
                          Case{"roberta", "embeddings.position_embeddings.weight", nullptr},
                          Case{"nomic-bert", "encoder.layers.0.norm2.bias", "(64)"},
                          Case{"nomic-bert", "encoder.layers.1.mlp.fc12.weight", "(96, 64)"},
                          Case{"nomic-bert", "emb_ln.weight", "(64)"},
                          Case{"bert-rank", "bert.pooler.dense.weight", "(64, 64)"},
                          Case{"bert-rank", "classifier.bias", "(1)"},
                          Case{"roberta-rank", "classifier.dense.weight", "(64, 64)"},
                          Case{"roberta-rank", "classifier.out_proj.bias", "(1)"},
                          Case{"mistral", "model.norm.weight", "(64)"},
                          Case{"qwen2", "model.embed_tokens.weight", nullptr}}) {
    CAPTURE(one.model);
    CAPTURE(one.tensor);
    const ModelFolder folder;
    folder.write(golden_config(one.model));
    SafetensorsWriter without = weights_of(one.model);
    std::erase_if(without.tensors, [&](const auto& tensor) { return tensor.name == one.tensor; });
    folder.write(without);
    CHECK(outcome_of(folder) == "FOLDER lacks tensor \"" + std::string(one.tensor) + "\".");
    if (one.shape == nullptr) continue;
    SafetensorsWriter longer = weights_of(one.model);
    SafetensorsWriter::Tensor& tensor = longer.tensor(one.tensor);
    tensor.shape.insert(tensor.shape.begin(), 1);
    std::string written = "(1";
    for (size_t i = 1; i < tensor.shape.size(); ++i) written += ", " + std::to_string(tensor.shape[i]);
    folder.write(longer);
    CHECK(outcome_of(folder) == "FOLDER has tensor \"" + std::string(one.tensor) + "\" of shape " + written +
                                    "); " + one.shape + " was expected.");
  }
  const ModelFolder folder;
  folder.write(golden_config("qwen3moe"));
  SafetensorsWriter without = weights_of("qwen3moe");
  std::erase_if(without.tensors, [](const auto& tensor) {
    return tensor.name.starts_with("model.layers.0.mlp.experts.") && tensor.name.ends_with("up_proj.weight");
  });
  folder.write(without);
  CHECK(outcome_of(folder) == "FOLDER lacks tensor \"model.layers.0.mlp.experts.0.up_proj.weight\".");
}

TEST_CASE("folders: names without their prefix are those of refusals, and names of both kinds are refused") {
  struct Case {
    const char* model;
    const char* prefix;
    const char* embedding;
    const char* other;  // a tensor
  };
  for (const Case& one :
       {Case{"llama3", "model.", "embed_tokens.weight", "layers.0.self_attn.o_proj.weight"},
        Case{"qwen3moe", "model.", "embed_tokens.weight", "layers.1.mlp.experts.5.down_proj.weight"},
        Case{"gemma3", "model.", "embed_tokens.weight", "norm.weight"},
        Case{"gpt2", "transformer.", "wte.weight", "h.0.mlp.c_fc.weight"}}) {
    CAPTURE(one.model);
    const std::string prefix = one.prefix;
    const ModelFolder folder;
    folder.write(golden_config(one.model));
    const SafetensorsWriter bare = weights_of(one.model).bare();
    folder.write(bare);
    CHECK(outcome_of(folder) == "accepted");

    SafetensorsWriter without = bare;
    std::erase_if(without.tensors, [&](const auto& tensor) { return tensor.name == one.other; });
    folder.write(without);
    CHECK(outcome_of(folder) == "FOLDER lacks tensor \"" + std::string(one.other) + "\".");

    // The embedding says how the others are named.
    SafetensorsWriter mixed = bare;
    mixed.tensor(one.other).name = prefix + one.other;
    folder.write(mixed);
    CHECK(outcome_of(folder) == "FOLDER lacks tensor \"" + std::string(one.other) + "\".");

    SafetensorsWriter both = bare;
    both.tensors.push_back(both.tensor(one.embedding));
    both.tensors.back().name = prefix + one.embedding;
    const std::string refusal = "has tensors \"" + prefix + one.embedding + "\" and \"" + one.embedding +
                                "\", of which only one can be the embedding.";
    folder.write(both);
    CHECK(outcome_of(folder) == "FOLDER/model.safetensors " + refusal);
    std::filesystem::remove(folder.path() + "/model.safetensors");
    folder.write_sharded(both);
    CHECK(outcome_of(folder) == "FOLDER/model.safetensors.index.json " + refusal);
  }
}

TEST_CASE("folders: the prefix of names is that of the architecture, and the head has none") {
  for (const char* name : {"model.lm_head.weight", "transformer.norm.weight", "model.model.norm.weight"}) {
    CAPTURE(name);
    const ModelFolder folder;
    folder.write(golden_config("llama3"));
    SafetensorsWriter weights = weights_of("llama3");
    weights.tensors.push_back({name, "F32", {8}, std::string(32, '\0')});
    folder.write(weights);
    CHECK(outcome_of(folder).starts_with("FOLDER has tensor \"" + std::string(name) +
                                         "\", which this architecture"));
  }
}

TEST_CASE("folders: tensors that an architecture has no use for are named") {
  for (const char* name : {"model.layers.0.mlp.up_proj.bias", "model.layers.9.input_layernorm.weight",
                           "model.layers.0.self_attn.q_proj.weight_scale", "score.weight",
                           "blk.0.attn_q.weight2", "model.layers.99999999.input_layernorm.weight"}) {
    CAPTURE(name);
    const ModelFolder folder;
    folder.write(golden_config("llama3"));
    SafetensorsWriter weights = weights_of("llama3");
    weights.tensors.push_back({name, "F32", {8}, std::string(32, '\0')});
    folder.write(weights);
    const std::string outcome = outcome_of(folder);
    CAPTURE(outcome);
    CHECK(outcome.starts_with("FOLDER has tensor \"" + std::string(name) + "\", which this architecture"));
  }
}

TEST_CASE("folders: a header as long as any that is read takes less than a second") {
  const ModelFolder folder;
  folder.write(golden_config("llama3"));
  constexpr size_t kLength = kMaxSafetensorsHeaderBytes - 100;
  const std::string spaces(kLength, ' ');
  const std::string letters(kLength, 'a');
  for (const std::string& header : {spaces, "\"" + spaces + "\"", "{\"" + letters + "\": 1}",
                                    "{\"__metadata__\": \"" + letters + "\"}"}) {
    folder.write("model.safetensors", SafetensorsWriter::file_of(header, ""));
    CHECK(outcome_of(folder) != "accepted");
  }
}

TEST_CASE("folders: an index that names what it may not is refused, and nothing outside is read") {
  const SafetensorsWriter weights = weights_of("llama3");
  const ModelFolder outside;
  outside.write(weights);
  const ModelFolder folder;
  folder.write(golden_config("llama3"));
  folder.write_sharded(weights);
  const std::string index = folder.path() + "/model.safetensors.index.json";
  const json good = json::parse(bytes_of(index));
  REQUIRE(outcome_of(folder) == "accepted");
  for (const std::string& name :
       {outside.path() + "/model.safetensors", std::string("../x/model.safetensors"), std::string("."),
        std::string(), std::string("config.json"), std::string("/dev/zero"),
        "./" + ModelFolder::shard_name(0), ModelFolder::shard_name(0) + std::string(1, '\0')}) {
    CAPTURE(name);
    json bent = good;
    for (json& file : bent["weight_map"]) file = name;
    folder.write("model.safetensors.index.json", bent.dump());
    const std::string outcome = outcome_of(folder, ExitCode::kNoFile);
    CHECK(outcome.starts_with("FOLDER/model.safetensors.index.json names "));
    CHECK(outcome.ends_with(", which is not a safetensors file in the folder."));
  }
  folder.write("model.safetensors.index.json", good.dump());
  // Other files of weights in the folder are ignored.
  folder.write("consolidated.safetensors", "anything");
  CHECK(outcome_of(folder) == "accepted");
  std::filesystem::remove(folder.path() + "/" + ModelFolder::shard_name(1));
  CHECK(outcome_of(folder, ExitCode::kNoFile) ==
        "FOLDER/model.safetensors.index.json names \"model-00002-of-00002.safetensors\", which is not a "
        "safetensors "
        "file in the folder.");
}

TEST_CASE("folders: a tensor in two files is refused, whichever the index says") {
  const ModelFolder folder;
  folder.write(golden_config("llama3"));
  folder.write_sharded(weights_of("llama3"));
  for (const size_t shard : {0u, 1u}) {
    const std::string path = folder.path() + "/" + ModelFolder::shard_name(shard);
    const std::string before = bytes_of(path);
    SafetensorsWriter more = safetensors_of(path);
    const std::string other = folder.path() + "/" + ModelFolder::shard_name(1 - shard);
    more.tensors.push_back(safetensors_of(other).tensors.front());
    folder.write(ModelFolder::shard_name(shard), more.bytes());
    CHECK(outcome_of(folder) == "FOLDER/" + ModelFolder::shard_name(shard) + " has tensor \"" +
                                    more.tensors.back().name +
                                    "\", which the index does not list in this file.");
    folder.write(ModelFolder::shard_name(shard), before);
  }
  CHECK(outcome_of(folder) == "accepted");
}

TEST_CASE("folders: more files than are read are refused before they are opened") {
  const ModelFolder folder;
  folder.write(golden_config("llama3"));
  folder.write("model.safetensors.index.json", "{}");
  for (uint32_t shard = 0; shard <= kMaxModelParts; ++shard)
    folder.write("model-" + std::to_string(shard) + ".safetensors", "");
  CHECK(outcome_of(folder) == "FOLDER has more than 1024 safetensors files, which is the limit.");
}

TEST_CASE("folders: links are followed, to regular files alone") {
  const ModelFolder folder;
  const std::string config = folder.path() + "/config.json";
  const std::string weights = folder.path() + "/model.safetensors";
  const std::string golden = golden_model_path("llama3");
  // Links as in the cache of a hub.
  std::filesystem::create_symlink(golden + "/config.json", config);
  std::filesystem::create_symlink(golden + "/model.safetensors", weights);
  CHECK(outcome_of(folder) == "accepted");
  const auto point_at = [&](const std::string& link, const std::string& target) {
    std::filesystem::remove(link);
    std::filesystem::create_symlink(target, link);
  };
  point_at(weights, "/dev/zero");
  CHECK(outcome_of(folder, ExitCode::kNoFile) == "FOLDER/model.safetensors is not a regular file.");
  point_at(weights, folder.path());
  CHECK(outcome_of(folder, ExitCode::kNoFile) == "FOLDER/model.safetensors is not a regular file.");
  REQUIRE(mkfifo((folder.path() + "/pipe").c_str(), 0600) == 0);
  point_at(weights, folder.path() + "/pipe");
  CHECK(outcome_of(folder, ExitCode::kNoFile) == "FOLDER/model.safetensors is not a regular file.");
  point_at(weights, weights);  // a link to itself
  CHECK(outcome_of(folder, ExitCode::kSystem).find("FOLDER/model.safetensors") != std::string::npos);
  point_at(weights, folder.path() + "/nothing");
  CHECK(outcome_of(folder) ==
        "The model FOLDER cannot be used: there is neither model.safetensors nor "
        "model.safetensors.index.json in it.");
  point_at(config, folder.path() + "/nothing");
  CHECK(outcome_of(folder, ExitCode::kNoFile) ==
        "The model FOLDER is a folder, but there is no config.json in it.");
}

TEST_CASE(
    "folders: weights cut short while they are mapped end the process by SIGBUS, which the gateway knows") {
  const ModelFolder folder;
  folder.write(golden_config("llama3"));
  folder.write(weights_of("llama3"));
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    std::signal(SIGBUS, SIG_DFL);  // as in a build without a sanitizer
    const Result<ModelFile> opened = ModelFile::open(folder.path());
    if (!opened.ok() || truncate((folder.path() + "/model.safetensors").c_str(), 1) != 0) _exit(1);
    const std::byte last = opened->find_tensor("output_norm.weight")->data.back();
    _exit(2 + std::to_integer<int>(last) % 2);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGBUS);
}

}  // namespace
}  // namespace runnel

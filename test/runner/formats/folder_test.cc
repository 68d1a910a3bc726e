// Folders that cannot be read as a model. Each is refused with a sentence that names the fault.
#include <sys/stat.h>

#include <cmath>
#include <functional>

#include "runner/formats/dequantize.h"
#include "runner/models/architectures.h"
#include "runner/models/registry.h"
#include "test/fixtures/golden_models.h"
#include "test/fixtures/safetensors_writer.h"

namespace runnel {
namespace {

using namespace test;
using nlohmann::json;

struct Outcome {
  int exit_code = 0;
  std::string message = "accepted";
};

// The message without the folder's path. Reads the hyper-parameters, but loads no model.
Outcome config_outcome_of(const ModelFolder& folder) {
  const Result<ModelFile> file = ModelFile::open(folder.path());
  const Result<ModelConfig> config = file ? read_config(*file, "") : Result<ModelConfig>(file.error());
  if (config) return {};
  std::string message = config.error().message;
  for (size_t at; (at = message.find(folder.path())) != std::string::npos;)
    message.replace(at, folder.path().size(), "FOLDER");
  return {static_cast<int>(config.error().exit_code), message};
}

std::string refusal_of(const std::string& model, const std::function<void(json&)>& change) {
  const ModelFolder folder;
  json config = golden_config(model);
  change(config);
  folder.write(config);
  folder.write("model.safetensors", bytes_of(golden_model_path(model + "/model.safetensors")));
  const Outcome outcome = config_outcome_of(folder);
  CHECK((outcome.exit_code == 65 || outcome.message == "accepted"));
  return outcome.message;
}

TEST_CASE("folders: missing files are named, and pickles are refused with the reason") {
  const ModelFolder folder;
  const auto expect = [&](int exit_code, const std::string& message) {
    const Outcome outcome = config_outcome_of(folder);
    CHECK(outcome.exit_code == exit_code);
    CHECK(outcome.message == message);
  };
  expect(66, "The model FOLDER is a folder, but there is no config.json in it.");
  folder.write(golden_config("llama3"));
  expect(65,
         "The model FOLDER cannot be used: there is neither model.safetensors nor "
         "model.safetensors.index.json in it.");
  folder.write("pytorch_model.bin", "x");
  expect(65,
         "The model FOLDER cannot be used: its weights are a pickle (pytorch_model.bin), which can run "
         "programs when it is read; fetch or convert them as safetensors.");
  folder.write("model.safetensors", "");
  expect(65, "FOLDER/model.safetensors is empty.");
}

TEST_CASE("folders: weights are named by their folder") {
  const Result<ModelFile> file = ModelFile::open(golden_model_path("llama3/model.safetensors"));
  REQUIRE(!file.ok());
  CHECK(file.error().exit_code == ExitCode::kBadModel);
  CHECK(file.error().message.ends_with(
      "has weights without their config.json; give the path of the folder that has both."));
}

TEST_CASE("folders: a file that never ends is not waited for") {
  const ModelFolder folder;
  REQUIRE(mkfifo((folder.path() + "/config.json").c_str(), 0600) == 0);
  CHECK(config_outcome_of(folder).message == "FOLDER/config.json is not a regular file.");
}

TEST_CASE("folders: an invalid config.json is refused") {
  const ModelFolder folder;
  folder.write("model.safetensors", bytes_of(golden_model_path("llama3/model.safetensors")));
  const auto refusal = [&](const std::string& config) {
    folder.write("config.json", config);
    return config_outcome_of(folder).message;
  };
  CHECK(refusal("{") == "FOLDER/config.json is not JSON at byte 2.");
  CHECK(refusal("[]") == "FOLDER/config.json is not a JSON object.");
  CHECK(refusal("{}") == "FOLDER/config.json lacks model_type, a text.");
  CHECK(refusal("{\"model_type\": \"\xff\"}").starts_with("FOLDER/config.json is not UTF-8 at byte "));
  CHECK(refusal(std::string((1 << 20) + 1, ' ')) ==
        "FOLDER/config.json has 1048577 bytes; at most 1048576 are read.");
  CHECK(refusal("{\"model_type\": \"xverse\"}") ==
        "FOLDER is of architecture \"xverse\", which is not supported; supported: " + architecture_names() +
            ".");
  CHECK(refusal("\xef\xbb\xbf" + golden_config("llama3").dump()) == "accepted");
}

TEST_CASE("folders: hyper-parameters are refused in the words of GGUF files") {
  const auto llama = [](const char* name, const json& value) {
    return refusal_of("llama3", [&](json& config) { config[name] = value; });
  };
  CHECK(llama("unknown", 1) == "accepted");
  CHECK(llama("num_hidden_layers", nullptr) == "FOLDER lacks metadata llama.block_count.");
  CHECK(llama("num_hidden_layers", -1) == "FOLDER has a llama.block_count that is not an unsigned integer.");
  CHECK(llama("num_hidden_layers", json::array()) ==
        "FOLDER has a llama.block_count that is not an unsigned integer.");
  CHECK(llama("num_hidden_layers", 1 << 20) ==
        "FOLDER has llama.block_count 1048576; it must be from 1 to 1024.");
  CHECK(llama("rms_norm_eps", 0) ==
        "FOLDER has llama.attention.layer_norm_rms_epsilon 0.000000, which is outside the supported range.");
  CHECK(llama("head_dim", 15).starts_with("FOLDER/model.safetensors has tensor \"model.layers.0.self_attn."));
  CHECK(llama("vocab_size", 300) == "FOLDER/config.json has vocab_size 300; the embedding has 272 rows.");
  CHECK(llama("rope_parameters", {{"rope_type", "dynamic"}, {"factor", 2}}) ==
        "FOLDER asks for rope scaling \"dynamic\", which is not supported.");
}

TEST_CASE("folders: configurations that would compute differently from transformers are refused by name") {
  const auto of = [](const std::string& model, const char* name, const json& value) {
    return refusal_of(model, [&](json& config) { config[name] = value; });
  };
  const std::string begin = "FOLDER/config.json ";
  CHECK(of("llama3", "quantization_config", {{"bits", 4}}) ==
        begin +
            "has quantization_config, which is not supported; weights in safetensors files must be F32, F16 "
            "or BF16.");
  CHECK(of("llama3", "hidden_act", "relu") ==
        begin + "has hidden_act \"relu\", which is not supported; supported: silu.");
  CHECK(of("llama3", "text_config", json::object()) ==
        begin + "has text_config, as models that read more than text have; they are not supported.");
  CHECK(of("llama3", "rope_parameters", {{"rope_type", "llama3"}, {"factor", 8}})
            .starts_with(begin + "lacks factor, low_freq_factor, "));
  CHECK(of("llama3", "rope_parameters", {{"rope_type", "linear"}}) ==
        begin + "asks for rope scaling \"linear\" without a factor.");
  CHECK(of("phi3", "original_max_position_embeddings", 1e300) ==
        begin + "lacks an original_max_position_embeddings from 2 to max_position_embeddings.");
  CHECK(of("llama3", "partial_rotary_factor", 0.5) ==
        begin + "has a partial_rotary_factor, which is not supported for this architecture.");
  CHECK(of("llama3", "tie_word_embeddings", "yes") ==
        begin + "has a tie_word_embeddings that is neither true nor false.");
  CHECK(of("qwen2", "tie_word_embeddings", false) ==
        begin + "does not set tie_word_embeddings to true, but the tensor \"lm_head.weight\" is missing.");
  CHECK(of("qwen2", "use_sliding_window", true) ==
        begin + "has use_sliding_window true, which is not supported for this architecture.");
  CHECK(of("mistral", "layer_types", {"full_attention", "sliding_attention"}) ==
        begin + "has layer_types of both kinds, which is not supported for this architecture.");
  CHECK(of("mistral", "layer_types", {"linear_attention"}) ==
        begin + "has layer_types other than full_attention and sliding_attention.");
  CHECK(refusal_of("mistral", [](json& config) { config.erase("sliding_window"); }) ==
        begin + "lacks sliding_window.");
  CHECK(of("gemma3", "query_pre_attn_scalar", 64) ==
        begin + "has a query_pre_attn_scalar other than 32, which is not supported.");
  CHECK(refusal_of("gemma2", [](json& config) { config.erase("query_pre_attn_scalar"); }) ==
        begin + "has a query_pre_attn_scalar other than 32, which is not supported.");
  CHECK(of("gemma3", "final_logit_softcapping", 30) ==
        "FOLDER has gemma3.final_logit_softcapping, which is not supported.");
  CHECK(of("gemma3", "use_bidirectional_attention", true) ==
        begin + "has use_bidirectional_attention, which is not supported.");
  json types = {"full_attention"};
  CHECK(of("gemma3", "layer_types", types) == begin + "has 1 layer_types for num_hidden_layers 7.");
  while (types.size() < 7) types.push_back("sliding_attention");
  CHECK(of("gemma3", "layer_types", types) ==
        begin +
            "has layer_types in which full_attention does not come every 1 layers, which is not supported.");
  CHECK(of("gpt2", "scale_attn_by_inverse_layer_idx", true) ==
        begin + "has scale_attn_by_inverse_layer_idx, which is not supported.");
  CHECK(of("gpt2", "activation_function", "relu").starts_with(begin + "has activation_function \"relu\""));
  CHECK(of("llama3", "rope_parameters", {{"rope_type", "yarn"}}) ==
        begin + "asks for rope scaling \"yarn\" without a factor of at least 1.");
  const std::string truncate = begin + "asks for rope scaling \"yarn\" with a truncate other than ";
  CHECK(of("llama3", "rope_parameters", {{"rope_type", "yarn"}, {"factor", 2}, {"truncate", false}}) ==
        truncate + "true, which is not supported for this architecture.");
  for (const json& value : {json(true), json(nullptr)}) {
    CHECK(refusal_of("gpt-oss", [&](json& config) { config["rope_parameters"]["truncate"] = value; }) ==
          truncate + "false, which is not supported for this architecture.");
  }
  CHECK(of("gpt-oss", "swiglu_limit", 6.0) ==
        begin + "has a swiglu_limit other than 7.0, which is not supported.");
  CHECK(of("gpt-oss", "swiglu_alpha", 1.7) ==
        begin + "has a swiglu_alpha other than 1.702, which is not supported.");
  CHECK(of("gpt-oss", "rope_parameters", nullptr) == begin + "lacks rope_parameters.");
  CHECK(of("gpt-oss", "layer_types", {"full_attention", "sliding_attention", "sliding_attention"})
            .starts_with(begin + "has layer_types in which full_attention does not come every 1 layers"));
  CHECK(of("smollm3", "use_sliding_window", true) ==
        begin + "has use_sliding_window true, which is not supported for this architecture.");
  const std::string no_rope =
      begin +
      "has no_rope_layers or no_rope_layer_interval other than every 4 layers, which is not supported.";
  CHECK(of("smollm3", "no_rope_layers", {1, 1, 0, 1, 1}) == no_rope);
  CHECK(of("smollm3", "no_rope_layers", {1, 1, 1, 0}) == no_rope);
  CHECK(refusal_of("smollm3", [](json& config) {
          config.erase("no_rope_layers");
          config["no_rope_layer_interval"] = 3;
        }) == no_rope);
  CHECK(refusal_of("smollm3", [](json& config) { config["rope_parameters"].erase("rope_theta"); }) ==
        begin + "lacks rope_theta.");
  CHECK(refusal_of("mixtral", [](json& config) { config.erase("num_local_experts"); }) ==
        begin + "lacks num_local_experts.");
  for (const json& padding : {json(-1), json(513), json("x")})
    CHECK(of("roberta", "pad_token_id", padding) ==
          begin + "lacks a pad_token_id with a position behind it below max_position_embeddings.");
  CHECK(of("roberta", "pad_token_id", 0) == "accepted");
  CHECK(refusal_of("nomic-bert", [](json& config) { config["rope_parameters"].erase("rope_theta"); }) ==
        begin + "lacks rope_theta.");
  CHECK(of("qwen3moe", "norm_topk_prob", false).starts_with(begin + "does not set norm_topk_prob to true"));
  CHECK(of("qwen3moe", "mlp_only_layers", {0}).starts_with(begin + "has layers without experts"));
  CHECK(refusal_of("phi3", [](json& config) { config["rope_parameters"].erase("long_factor"); }) ==
        begin + "lacks long_factor, a list of numbers.");
}

TEST_CASE("folders: a tensor of a type or shape that weights do not have is refused") {
  const auto refusal = [](const std::function<void(SafetensorsWriter&)>& change) {
    const ModelFolder folder;
    folder.write(golden_config("llama3"));
    SafetensorsWriter weights = safetensors_of(golden_model_path("llama3/model.safetensors"));
    change(weights);
    folder.write(weights);
    return config_outcome_of(folder).message;
  };
  CHECK(refusal([](SafetensorsWriter&) {}) == "accepted");
  CHECK(refusal([](SafetensorsWriter& w) { w.tensor("model.norm.weight").dtype = "I16"; }) ==
        "FOLDER/model.safetensors has tensor \"model.norm.weight\" of dtype I16; supported are F32, F16 and "
        "BF16.");
  CHECK(refusal([](SafetensorsWriter& w) {
          w.tensor("model.norm.weight").shape = {1, 1, 1, 1, 64};
        }) ==
        "FOLDER/model.safetensors has tensor \"model.norm.weight\" with 5 dimensions; 1 to 4 are possible.");
  CHECK(refusal([](SafetensorsWriter& w) { w.tensor("model.norm.weight").data.pop_back(); }) ==
        "FOLDER/model.safetensors has tensor \"model.norm.weight\" of 127 bytes; BF16 of (64) takes 128.");
}

// A folder with the tiny gpt-oss, whose experts are of MXFP4.
SafetensorsWriter write_mxfp4(const ModelFolder& folder,
                              const std::function<void(SafetensorsWriter&)>& change) {
  json config = golden_config("gpt-oss");
  config["quantization_config"] = {{"quant_method", "mxfp4"}, {"modules_to_not_convert", {"lm_head"}}};
  folder.write(config);
  SafetensorsWriter weights = mxfp4_gpt_oss(golden_model_path("gpt-oss/model.safetensors"), 71);
  change(weights);
  folder.write(weights);
  return weights;
}

TEST_CASE("folders: blocks of MXFP4 with their scales have the values that the format gives their codes") {
  // Of the codes 0 to 7; the others are negative.
  constexpr float kValues[] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};
  const ModelFolder folder;
  SafetensorsWriter weights = write_mxfp4(folder, [](SafetensorsWriter&) {});
  const Result<ModelFile> file = ModelFile::open(folder.path());
  REQUIRE(file.ok());
  struct Case {
    const char* gguf;
    const char* folder;
    uint64_t first, step;  // rows
  };
  for (const Case& one :
       {Case{"ffn_gate_exps", "gate_up_proj", 0, 2}, Case{"ffn_up_exps", "gate_up_proj", 1, 2},
        Case{"ffn_down_exps", "down_proj", 0, 1}}) {
    CAPTURE(one.gguf);
    const TensorView* tensor = file->find_tensor("blk.1." + std::string(one.gguf) + ".weight");
    REQUIRE(tensor != nullptr);
    CHECK(tensor->type == TensorType::kMXFP4);
    const std::string name = "model.layers.1.mlp.experts." + std::string(one.folder);
    const std::string& codes = weights.tensor(name + "_blocks").data;
    const std::string& scales = weights.tensor(name + "_scales").data;
    const std::vector<std::byte> blocks = arranged(*tensor, file->arrangement_of(*tensor));
    const size_t row_bytes = blocks.size() / tensor->rows();
    std::vector<float> values(tensor->columns());
    for (uint64_t row = 0; row < tensor->rows(); ++row) {
      dequantize_row(TensorType::kMXFP4, std::span(blocks).subspan(row * row_bytes, row_bytes), values);
      for (uint64_t column = 0; column < values.size(); ++column) {
        const uint64_t index = (row * one.step + one.first) * values.size() + column;
        const int code = static_cast<uint8_t>(codes[index / 2]) >> (index % 2 * 4) & 0xf;
        const int exponent = static_cast<uint8_t>(scales[index / 32]) - 127;
        REQUIRE(values[column] == std::ldexp(code < 8 ? kValues[code] : -kValues[code - 8], exponent));
      }
    }
  }
}

TEST_CASE("folders: blocks and scales of MXFP4 that do not belong together are refused by name") {
  const auto refusal = [](const std::function<void(SafetensorsWriter&)>& change) {
    const ModelFolder folder;
    write_mxfp4(folder, change);
    return config_outcome_of(folder).message;
  };
  const std::string name = "model.layers.0.mlp.experts.down_proj";
  const auto without = [&](const std::string& end) {
    return refusal([&](SafetensorsWriter& w) {
      std::erase_if(w.tensors, [&](const auto& tensor) { return tensor.name == name + end; });
    });
  };
  CHECK(refusal([](SafetensorsWriter&) {}) == "accepted");
  CHECK(without("_scales") == "FOLDER lacks tensor \"" + name + "_scales\".");
  CHECK(without("_blocks") == "FOLDER has scales of MXFP4 without their blocks.");
  CHECK(refusal([&](SafetensorsWriter& w) {
          w.tensor(name + "_scales").shape = {64, 5, 3};
        }) == "FOLDER has tensor \"" + name + "_scales\" of another shape than that of its blocks.");
  CHECK(refusal([&](SafetensorsWriter& w) { w.tensor(name + "_scales").dtype = "I8"; }) ==
        "FOLDER/model.safetensors has tensor \"" + name +
            "_scales\" that is not U8 of (experts, rows, blocks).");
  CHECK(refusal([&](SafetensorsWriter& w) {
          w.tensor(name + "_blocks").shape = {5, 64, 6, 8};
        }) == "FOLDER/model.safetensors has tensor \"" + name +
                  "_blocks\" that is not U8 of (experts, rows, blocks, 16).");
  CHECK(refusal([&](SafetensorsWriter& w) {
          w.tensor("model.layers.0.mlp.experts.gate_up_proj_blocks").shape = {192, 5, 2, 16};
        }) ==
        "FOLDER/model.safetensors has tensor \"model.layers.0.mlp.experts.gate_up_proj_blocks\" of 5 "
        "rows of gate and up in turn; their number must be even.");
  for (const char* method : {"fp8", "bitsandbytes"}) {
    CHECK(refusal_of("gpt-oss", [&](json& config) {
            config["quantization_config"] = {{"quant_method", method}};
          }).starts_with("FOLDER/config.json has quantization_config, which is not supported"));
  }
}

TEST_CASE("folders: gates and ups of experts that lie in turn are even in number") {
  const ModelFolder folder;
  folder.write(golden_config("gpt-oss"));
  SafetensorsWriter weights = safetensors_of(golden_model_path("gpt-oss/model.safetensors"));
  SafetensorsWriter::Tensor& bias = weights.tensor("model.layers.0.mlp.experts.gate_up_proj_bias");
  bias.shape = {192, 5};
  folder.write(weights);
  CHECK(config_outcome_of(folder).message ==
        "FOLDER/model.safetensors has tensor \"" + bias.name +
            "\" of 5 rows of gate and up in turn; their number must be even.");
}

TEST_CASE("folders: an index is held against its files") {
  const SafetensorsWriter weights = safetensors_of(golden_model_path("llama3/model.safetensors"));
  const auto refusal = [&](const std::function<void(json&)>& change) {
    const ModelFolder folder;
    folder.write(golden_config("llama3"));
    folder.write_sharded(weights);
    json index = json::parse(bytes_of(folder.path() + "/model.safetensors.index.json"));
    change(index);
    folder.write("model.safetensors.index.json", index.dump());
    return config_outcome_of(folder).message;
  };
  const std::string begin = "FOLDER/model.safetensors.index.json ";
  CHECK(refusal([](json&) {}) == "accepted");
  CHECK(refusal([](json& index) { index = json::array(); }) == begin + "lacks weight_map, an object.");
  CHECK(refusal([](json& index) { index.erase("weight_map"); }) == begin + "lacks weight_map, an object.");
  CHECK(refusal([](json& index) { index["weight_map"]["lm_head.weight"] = 1; }) ==
        begin + "has a weight_map whose entry \"lm_head.weight\" is not a file name.");
  CHECK(refusal([](json& index) { index["weight_map"]["x"] = "../model.safetensors"; }) ==
        begin + "names \"../model.safetensors\", which is not a safetensors file in the folder.");
  CHECK(refusal([](json& index) { index["weight_map"]["x"] = ModelFolder::shard_name(0); }) ==
        begin + "names 22 tensors; its files have 21.");
  CHECK(refusal([](json& index) {
          index["weight_map"].erase("lm_head.weight");
        }).ends_with("has tensor \"lm_head.weight\", which the index does not list in this file."));
  CHECK(refusal([](json& index) {
          index["weight_map"]["lm_head.weight"] = ModelFolder::shard_name(1);
        }).ends_with("has tensor \"lm_head.weight\", which the index does not list in this file."));
}

TEST_CASE(
    "folders: the identity ends as that of the file that stands for the weights, and follows all parts") {
  const SafetensorsWriter weights = safetensors_of(golden_model_path("llama3/model.safetensors"));
  const ModelFolder folder;
  folder.write(golden_config("llama3"));
  folder.write_sharded(weights);
  const auto identity = [&] { return ModelFile::open(folder.path())->identity(); };
  const std::string before = identity();
  struct stat status;
  REQUIRE(stat((folder.path() + "/model.safetensors.index.json").c_str(), &status) == 0);
  const int64_t modified = int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
  CHECK(before.ends_with("-" + std::to_string(status.st_size) + "-" + std::to_string(modified) + "-" +
                         std::to_string(status.st_ino)));
  CHECK(identity() == before);
  json config = golden_config("llama3");
  config["bos_token_id"] = 5;
  folder.write(config);
  const std::string other_config = identity();
  CHECK(other_config != before);
  const std::string shard = folder.path() + "/" + ModelFolder::shard_name(1);
  std::filesystem::last_write_time(shard, std::filesystem::last_write_time(shard) + std::chrono::seconds(1));
  CHECK(identity() != other_config);
}

TEST_CASE("quantise: a file that is quantised, or whose rows are no whole blocks, is refused by name") {
  Result<ModelFile> quantised = ModelFile::open(golden_model_path("qwen2-q8_0.gguf"));
  REQUIRE(quantised.ok());
  const Result<void> again = quantised->quantize(TensorType::kQ4_0);
  REQUIRE(!again.ok());
  CHECK(again.error().exit_code == ExitCode::kUsage);
  CHECK(again.error().message.ends_with(" of Q8_0; --quantize is for weights of floats."));

  GgufWriter narrow;
  narrow.tensors.push_back({"matrix", {8, 2}, 0, std::string(64, 'x'), std::nullopt});
  const TemporaryFile file(narrow.bytes());
  const Result<void> refused = ModelFile::open(file.path())->quantize(TensorType::kQ8_0);
  REQUIRE(!refused.ok());
  CHECK(refused.error().exit_code == ExitCode::kBadModel);
  CHECK(refused.error().message ==
        file.path() + " has tensor \"matrix\" of 8 columns; --quantize needs a multiple of 32.");
}

TEST_CASE("quantise: the identity is another one, and ends as the file's") {
  Result<ModelFile> file = ModelFile::open(golden_model_path("qwen2"));
  REQUIRE(file.ok());
  const std::string before = file->identity();
  REQUIRE(file->quantize(TensorType::kQ4_0).ok());
  CHECK(file->identity() == "q4_0-" + before);
}

}  // namespace
}  // namespace runnel

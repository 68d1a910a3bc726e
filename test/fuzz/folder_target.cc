// Hugging Face folders: parses config.json, the index and the headers of safetensors files, reads the
// hyper-parameters, and loads and computes accepted models.
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "test/fixtures/safetensors_writer.h"
#include "test/fuzz/folder_mutator.h"
#include "test/fuzz/folder_parts.h"
#include "test/fuzz/memory_file.h"
#include "test/fuzz/model_outcome.h"
#include "test/fuzz/target.h"

namespace runnel::fuzz {
namespace {

using nlohmann::json;

constexpr const char* kShard = "model-00001-of-00001.safetensors";
constexpr uint32_t kVocabulary = 4;

// Two folders on disk, whose files are links to files in memory: one with its weights in a single file, one
// with an index.
class Folders {
 public:
  Folders() {
    link(config_, single_, "config.json");
    link(weights_, single_, "model.safetensors");
    link(config_, sharded_, "config.json");
    link(index_, sharded_, "model.safetensors.index.json");
    link(weights_, sharded_, kShard);
  }

  const std::string& write(const FolderParts& parts) const {
    config_.write(parts.config);
    index_.write(parts.index);
    weights_.write(parts.weights);
    return (parts.index.empty() ? single_ : sharded_).path();
  }

 private:
  static void link(const MemoryFile& file, const test::TemporaryFolder& folder, const std::string& name) {
    std::filesystem::create_symlink(file.path(), folder.path() + "/" + name);
  }

  MemoryFile config_;
  MemoryFile index_;
  MemoryFile weights_;
  test::TemporaryFolder single_;
  test::TemporaryFolder sharded_;
};

// A golden model, cut to one layer and few tokens. is_bare: as AutoModel saves it.
FolderParts small_parts(const std::string& name, bool has_index, bool is_bare = false) {
  const std::string path = std::string(RUNNEL_SOURCE_DIR) + "/test/golden/models/" + name;
  json config = json::parse(test::bytes_of(path + "/config.json"));
  config[config.contains("n_layer") ? "n_layer" : "num_hidden_layers"] = 1;
  if (config.contains("layer_types")) config["layer_types"] = {config["layer_types"][0]};
  config["vocab_size"] = kVocabulary;
  test::SafetensorsWriter weights;
  json map;
  test::SafetensorsWriter all = test::safetensors_of(path + "/model.safetensors");
  if (is_bare) all = all.bare();
  for (test::SafetensorsWriter::Tensor& tensor : all.tensors) {
    const bool is_layer = tensor.name.find("layers.") != std::string::npos ||
                          tensor.name.find("encoder.layer.") != std::string::npos ||
                          ("." + tensor.name).find(".h.") != std::string::npos;
    if (is_layer && tensor.name.find(".0.") == std::string::npos) continue;
    const bool is_vocabulary = tensor.name.find("embed_tokens") != std::string::npos ||
                               tensor.name.find("wte") != std::string::npos ||
                               tensor.name.find("word_embeddings") != std::string::npos ||
                               tensor.name == "lm_head.weight";
    if (is_vocabulary) {
      tensor.data.resize(tensor.data.size() / tensor.shape[0] * kVocabulary);
      tensor.shape[0] = kVocabulary;
    }
    map[tensor.name] = kShard;
    weights.tensors.push_back(tensor);
  }
  return {config.dump(), has_index ? json{{"weight_map", map}}.dump() : "", weights.bytes()};
}

// The folder with a rope scaling as older versions of transformers wrote it.
FolderParts with_scaling(FolderParts parts, const json& scaling) {
  json config = json::parse(parts.config);
  config.erase("rope_parameters");
  config["rope_theta"] = 10'000.0;
  config["rope_scaling"] = scaling;
  parts.config = config.dump();
  return parts;
}

}  // namespace

std::vector<std::string> seed_corpus() {
  std::vector<std::string> corpus;
  for (const char* name :
       {"llama3",   "mistral", "qwen2",   "qwen3",   "gpt2",      "gemma3",       "phi3",
        "qwen3moe", "yarn",    "glm4",    "smollm3", "mixtral",   "granite",      "olmo2",
        "gemma2",   "bert",    "gpt-oss", "roberta", "bert-rank", "roberta-rank", "nomic-bert"})
    corpus.push_back(small_parts(name, false).bytes());
  for (const char* name : {"mistral", "qwen3moe"}) corpus.push_back(small_parts(name, true).bytes());
  for (const char* name : {"qwen3", "gpt2"}) corpus.push_back(small_parts(name, false, true).bytes());
  corpus.push_back(small_parts("llama3", true, true).bytes());
  corpus.push_back(with_scaling(small_parts("qwen2", false), {{"type", "linear"}, {"factor", 2.0}}).bytes());
  return corpus;
}

std::string_view unit_name() {
  return "folders";
}

}  // namespace runnel::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace runnel::fuzz;
  static const Folders folders;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  tell_outcome(outcome_of_model(folders.write(FolderParts::of(bytes)), bytes));
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned int seed) {
  runnel::fuzz::Random random(seed);
  std::string bytes(reinterpret_cast<const char*>(data), size);
  runnel::fuzz::mutate_folder(bytes, random);
  bytes.resize(std::min(bytes.size(), max_size));
  std::memcpy(data, bytes.data(), bytes.size());
  return bytes.size();
}

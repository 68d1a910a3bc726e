// Each architecture, loaded from the folder that transformers saved, compared with transformers and with the
// GGUF file of the same weights.
#include "test/cpu-runner/cpu_harness.h"
#include "test/fixtures/golden_models.h"
#include "test/fixtures/safetensors_writer.h"

namespace runnel {
namespace {

using namespace test;

constexpr uint32_t kFolderChunk = 64;

Logits logits_of(const std::string& path, const GoldenModel& model) {
  CpuHarness harness(path, {.num_threads = 2, .kv_type = KvType::kF32, .max_positions = model.max_positions});
  return harness.run(Golden(model).ids(), kFolderChunk);
}

// One for each pooling.
Logits vectors_of(const std::string& path, const GoldenModel& model) {
  CpuHarness harness(path, {.num_threads = 2, .kv_type = KvType::kF32, .max_positions = model.max_positions});
  Logits vectors;
  for (const auto& [name, pooling] : kPoolings)
    vectors.push_back(harness.embed(Golden(model).ids(), pooling, kFolderChunk));
  return vectors;
}

// The GGUF file of the same weights. Its factors of Llama 3's rope are replaced by those computed from the
// folder, since the two are rounded differently.
std::string bytes_of_gguf(const GoldenModel& model) {
  constexpr float kMaxError = 1e-6f;  // of a factor, relative
  const Result<ModelFile> folder = ModelFile::open(golden_model_path(model.name));
  REQUIRE(folder.ok());
  GgufWriter writer = writer_of(f32_path(model));
  const TensorView* factors = folder->find_tensor("rope_freqs.weight");
  if (factors == nullptr) return writer.bytes();
  std::string& data = writer.tensor("rope_freqs.weight").data;
  REQUIRE(data.size() == factors->data.size());
  for (size_t at = 0; at < data.size(); at += sizeof(float)) {
    float wanted;
    float found;
    std::memcpy(&wanted, data.data() + at, sizeof(float));
    std::memcpy(&found, factors->data.data() + at, sizeof(float));
    CHECK(std::abs(found / wanted - 1.0f) < kMaxError);
  }
  std::memcpy(data.data(), factors->data.data(), data.size());
  return writer.bytes();
}

TEST_CASE(
    "folders: each architecture has the logits and greedy ids of transformers, and the bits of its GGUF") {
  for (const GoldenModel& model : kGoldenModels) {
    CAPTURE(model.golden);
    const Golden golden(model);
    const Logits logits = logits_of(golden_model_path(model.name), model);
    CHECK(golden.difference(logits, "f32").max < kMaxOfFloats);
    CHECK(golden.greedy_of(logits) == golden.greedy());
    const TemporaryFile gguf(bytes_of_gguf(model));
    CHECK(same_bits(logits, logits_of(gguf.path(), model)));
  }
}

TEST_CASE("folders: weights in two files with an index are the same model") {
  for (const GoldenModel& model : kGoldenModels) {
    CAPTURE(model.golden);
    const std::string path = golden_model_path(model.name);
    const ModelFolder folder;
    folder.write("config.json", bytes_of(path + "/config.json"));
    folder.write_sharded(safetensors_of(path + "/model.safetensors"));
    CHECK(same_bits(logits_of(folder.path(), model), logits_of(path, model)));
  }
}

// The configuration in the form that transformers wrote before version 5.
nlohmann::json older(nlohmann::json config) {
  nlohmann::json rope = config["rope_parameters"];
  config.erase("rope_parameters");
  config.erase("layer_types");
  if (config["model_type"] == "gpt2") return config;
  if (config["model_type"] == "gemma3_text") {
    config["rope_local_base_freq"] = rope["sliding_attention"]["rope_theta"];
    rope = rope["full_attention"];
  }
  config["rope_theta"] = rope["rope_theta"];
  if (rope.contains("partial_rotary_factor")) config["partial_rotary_factor"] = rope["partial_rotary_factor"];
  rope.erase("rope_theta");
  rope.erase("partial_rotary_factor");
  if (rope["rope_type"] == "longrope") {
    rope.erase("rope_type");
    rope["type"] = "su";
  }
  config["rope_scaling"] = rope["rope_type"] == "default" ? nlohmann::json(nullptr) : rope;
  return config;
}

TEST_CASE("folders: a configuration of an older transformers is the same model") {
  for (const GoldenModel& model : kGoldenModels) {
    CAPTURE(model.golden);
    const std::string path = golden_model_path(model.name);
    const ModelFolder folder;
    folder.write(older(nlohmann::json::parse(bytes_of(path + "/config.json"))));
    folder.write("model.safetensors", bytes_of(path + "/model.safetensors"));
    CHECK(same_bits(logits_of(folder.path(), model), logits_of(path, model)));
  }
}

TEST_CASE("folders: saved by AutoModel, without the names' prefix, each architecture is the same model") {
  for (const GoldenModel& model : kGoldenModels) {
    CAPTURE(model.golden);
    const std::string path = golden_model_path(model.name);
    const SafetensorsWriter bare = safetensors_of(path + "/model.safetensors").bare();
    for (const bool is_sharded : {false, true}) {
      CAPTURE(is_sharded);
      const ModelFolder folder;
      folder.write("config.json", bytes_of(path + "/config.json"));
      if (is_sharded) {
        folder.write_sharded(bare);
      } else {
        folder.write(bare);
      }
      CHECK(same_bits(logits_of(folder.path(), model), logits_of(path, model)));
      CHECK(same_bits(vectors_of(folder.path(), model), vectors_of(path, model)));
    }
  }
}

TEST_CASE("folders: GPT-2 may be saved without its prefix, with masks and with its embedding twice") {
  const GoldenModel model{"gpt2", "gpt2"};
  const std::string path = golden_model_path("gpt2");
  SafetensorsWriter weights = safetensors_of(path + "/model.safetensors").bare();
  weights.tensors.push_back({"h.0.attn.bias", "BOOL", {1, 1, 4, 4}, std::string(16, '\1')});
  weights.tensors.push_back({"h.0.attn.masked_bias", "F32", {}, std::string(4, '\0')});
  SafetensorsWriter::Tensor head = weights.tensor("wte.weight");
  head.name = "lm_head.weight";
  weights.tensors.push_back(head);
  const ModelFolder folder;
  folder.write("config.json", bytes_of(path + "/config.json"));
  folder.write(weights);
  CHECK(same_bits(logits_of(folder.path(), model), logits_of(path, model)));
}

TEST_CASE("folders: experts of MXFP4 have the bits of a GGUF file of MXFP4") {
  const GoldenModel model{"gpt-oss", "gpt-oss"};
  const ModelFolder folder;
  folder.write("config.json", bytes_of(golden_model_path("gpt-oss/config.json")));
  const SafetensorsWriter weights = mxfp4_gpt_oss(golden_model_path("gpt-oss/model.safetensors"), 72);
  folder.write(weights);
  const Result<ModelFile> file = ModelFile::open(folder.path());
  REQUIRE(file.ok());
  GgufWriter writer = writer_of(f32_path(model));
  for (WrittenTensor& tensor : writer.tensors) {
    const TensorView* quantised = file->find_tensor(tensor.name);
    if (quantised->type != TensorType::kMXFP4) continue;
    const std::vector<std::byte> blocks = arranged(*quantised, file->arrangement_of(*quantised));
    tensor.type = static_cast<uint32_t>(TensorType::kMXFP4);
    tensor.data.assign(reinterpret_cast<const char*>(blocks.data()), blocks.size());
  }
  const TemporaryFile gguf(writer.bytes());
  CHECK(same_bits(logits_of(folder.path(), model), logits_of(gguf.path(), model)));
  ModelFolder sharded;
  sharded.write("config.json", bytes_of(golden_model_path("gpt-oss/config.json")));
  sharded.write_sharded(weights);
  CHECK(same_bits(logits_of(sharded.path(), model), logits_of(gguf.path(), model)));
}

// The logits with weights that are quantised to Q8_0 when the model is loaded.
Logits quantised_logits_of(const std::string& path, const GoldenModel& model) {
  CpuHarness harness(quantised(path, TensorType::kQ8_0),
                     {.num_threads = 2, .kv_type = KvType::kF32, .max_positions = model.max_positions});
  return harness.run(Golden(model).ids(), kFolderChunk);
}

TEST_CASE("folders: models quantised as they are loaded have the bits of files that were quantised before") {
  for (const GoldenModel& model : kGoldenModels) {
    CAPTURE(model.golden);
    CHECK(same_bits(quantised_logits_of(f32_path(model), model), logits_of(q8_0_path(model), model)));
    const TemporaryFile gguf(bytes_of_gguf(model));
    CHECK(same_bits(quantised_logits_of(golden_model_path(model.name), model),
                    quantised_logits_of(gguf.path(), model)));
  }
}

}  // namespace
}  // namespace runnel

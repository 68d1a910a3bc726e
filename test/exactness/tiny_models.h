// Small models: GGUF files with different types of weights and different shapes, and each architecture as a
// GGUF file and as a Hugging Face folder.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "test/fixtures/tiny_llama.h"

namespace runnel::exactness {

class TinyModels {
 public:
  TinyModels() {
    using enum TensorType;
    const test::TinyLlama shapes[] = {
        {.matrix_type = kQ4_1,
         .embedding_type = kQ8_0,
         .hidden = 128},  // with the default of four heads and two KV heads
        {.matrix_type = kQ8_0, .embedding_type = kQ8_0, .num_layers = 3, .num_kv_heads = 1},
        {.matrix_type = kQ4_0, .embedding_type = kF16, .hidden = 96, .num_heads = 6, .num_kv_heads = 3},
        {.matrix_type = kF16, .embedding_type = kF16, .num_layers = 1, .num_kv_heads = 4},
        {.matrix_type = kF32, .embedding_type = kF32, .hidden = 40, .num_heads = 4, .ffn = 72, .vocab = 131},
        {.matrix_type = kQ4_1, .embedding_type = kQ4_1, .num_layers = 4, .hidden = 32, .num_heads = 2},
        {.matrix_type = kQ8_0, .embedding_type = kF16, .num_heads = 2, .num_kv_heads = 1, .window = 24},
        {.matrix_type = kQ5_1, .embedding_type = kBF16, .num_layers = 1},
        {.matrix_type = kMXFP4, .embedding_type = kIQ4_NL},
        {.matrix_type = kQ4_K,
         .embedding_type = kQ6_K,
         .num_layers = 1,
         .hidden = 256,
         .num_heads = 8,
         .ffn = 256},
    };
    for (const test::TinyLlama& shape : shapes)
      files_.push_back(std::make_unique<test::TemporaryFile>(test::write_tiny_llama(shape).bytes()));
  }

  std::vector<std::string> paths() const {
    std::vector<std::string> paths;
    for (const auto& file : files_) paths.push_back(file->path());
    const std::string golden = std::string(RUNNEL_SOURCE_DIR) + "/test/golden/models/";
    for (const char* name :
         {"llama3-f32", "mistral-q8_0", "qwen2-f32", "qwen3-q8_0", "gpt2-q8_0", "gpt2-f32", "gemma3-q8_0",
          "phi3-q8_0", "qwen3moe-q8_0", "qwen3moe-f32", "yarn-q8_0", "glm4-q8_0", "smollm3-q8_0",
          "mixtral-q8_0", "granite-q8_0", "olmo2-q8_0", "gemma2-q8_0", "gpt-oss-q8_0"})
      paths.push_back(golden + name + ".gguf");
    for (const char* name : {"llama3", "mistral", "qwen2", "qwen3", "gpt2", "gemma3", "phi3", "qwen3moe",
                             "yarn", "glm4", "smollm3", "mixtral", "granite", "olmo2", "gemma2", "gpt-oss"})
      paths.push_back(golden + name);
    return paths;
  }

 private:
  std::vector<std::unique_ptr<test::TemporaryFile>> files_;
};

}  // namespace runnel::exactness

// The content of config.json in a folder with Hugging Face's layout. Internal to formats/.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runner/formats/model_file.h"
#include "runner/result.h"

namespace runnel {

struct FolderConfig {
  std::string architecture;  // GGUF's name
  bool is_known = true;      // whether this program reads configurations of the architecture
  std::vector<GgufEntry> entries;
  uint64_t head_dim = 0;        // 0: the configuration does not determine it
  uint64_t vocab_size = 0;      // 0: the configuration does not have it
  bool is_tied = false;         // whether the head multiplies by the embedding
  uint64_t first_position = 0;  // row of the table of positions that the first token of a text has
  // Tensors in GGUF that are numbers in the configuration.
  struct Factors {
    std::string name;
    std::string key;  // the key of the numbers in the configuration
    std::vector<float> values;
  };
  std::vector<Factors> factors;
};

// Reads the configuration as transformers does, if its architecture is supported; of others it returns the
// name alone. Numbers are passed on unchanged and checked later. Fails with kBadModel for a model that would
// be computed differently from transformers, and for a text that is no configuration. Messages name path.
Result<FolderConfig> read_folder_config(std::string_view text, const std::string& path);

}  // namespace runnel

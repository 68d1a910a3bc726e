// What config.json in a folder of Hugging Face's says. Internal to formats/.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runner/formats/model_file.h"
#include "runner/result.h"

namespace runnel {

struct FolderConfig {
  std::string architecture;  // as GGUF names it
  bool is_known = true;      // as one whose configurations are read
  std::vector<GgufEntry> entries;
  uint64_t head_dim = 0;    // 0: it does not say enough to know
  uint64_t vocab_size = 0;  // 0: it does not say
  bool is_tied = false;     // the head multiplies by the embedding
  // Tensors that GGUF has for what is numbers here.
  struct Factors {
    std::string name;
    std::string key;  // where the numbers come from
    std::vector<float> values;
  };
  std::vector<Factors> factors;
};

// The configuration as transformers reads it, of the architectures in it that are computed; of others the
// name alone. Numbers are handed on as they are, for those who check them. Errors: kBadModel for what would
// be computed otherwise than transformers does, and for what is no configuration; messages name path.
Result<FolderConfig> read_folder_config(std::string_view text, const std::string& path);

}  // namespace runnel

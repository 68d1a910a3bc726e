// What a model's files hold, as those who read them hand it over. Internal to formats/: others use
// model_file.h.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runner/formats/arrangement.h"
#include "runner/formats/mapped_file.h"
#include "runner/formats/model_file.h"
#include "runner/formats/model_files.h"

namespace runnel {

struct ModelContents {
  std::string path;
  std::optional<uint32_t> gguf_version;
  std::string identity;
  std::vector<MappedFile> files;  // that the tensors lie in, and others
  std::vector<GgufEntry> entries;
  std::vector<TensorView> tensors;                         // names are unique
  std::map<std::string, Arrangement, std::less<>> others;  // by name, those that do not lie as GGUF has them
  std::list<std::vector<float>> computed;                  // tensors that no file has: views are of these
  // By name, what the tensors of a folder are called there; of computed ones the key of its configuration.
  std::map<std::string, std::string, std::less<>> own_names;
};

// Errors: kBadModel, kSystem; the message names the path and the fault.
Result<ModelContents> read_gguf(const ModelFiles& files);
Result<ModelContents> read_folder(const ModelFiles& files);

}  // namespace runnel

// The files of a model, opened: one, or the parts it is split into, whose names say how many there are
// ("model-00001-of-00003.gguf"); or those of a folder as Hugging Face lays it out. Opening reads nothing of
// them: see RegularFile.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runner/formats/regular_file.h"
#include "runner/result.h"

namespace runnel {

inline constexpr uint32_t kMaxModelParts = 1024;

class ModelFiles {
 public:
  // path: of the file, of the first part, beside which the others are, or of a folder. Errors: those of
  // RegularFile::open, with the part named; kBadModel for another part than the first, more than
  // kMaxModelParts, a folder whose weights are pickles, or weights that are named without their folder.
  static Result<ModelFiles> open(const std::string& path);

  const std::string& path() const { return path_; }
  // Of a folder: the file that stands for its weights, model.safetensors or model.safetensors.index.json; of
  // the latter behind it all *.safetensors that there are.
  std::span<const RegularFile> parts() const { return parts_; }
  // config.json of a folder; else nullptr.
  const RegularFile* config() const { return config_ ? &*config_ : nullptr; }

 private:
  static Result<ModelFiles> open_folder(const std::string& path);

  std::string path_;
  std::vector<RegularFile> parts_;
  std::optional<RegularFile> config_;
};

}  // namespace runnel

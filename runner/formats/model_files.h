// The files of a model, opened: one, or the parts it is split into, whose names say how many there are
// ("model-00001-of-00003.gguf"). Opening reads nothing of them: see RegularFile.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "runner/formats/regular_file.h"
#include "runner/result.h"

namespace runnel {

inline constexpr uint32_t kMaxModelParts = 1024;

class ModelFiles {
 public:
  // path: of the file, or of the first part; the others are beside it. Errors: those of RegularFile::open,
  // with the part named; kBadModel for another part than the first, or more than kMaxModelParts.
  static Result<ModelFiles> open(const std::string& path);

  const std::string& path() const { return parts_.front().path(); }
  std::span<const RegularFile> parts() const { return parts_; }

 private:
  std::vector<RegularFile> parts_;
};

}  // namespace runnel

// Numbers of a file's metadata, under the names that its architecture gives them, checked as they are read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runner/formats/model_file.h"
#include "runner/result.h"

namespace runnel {

class HyperParameters {
 public:
  // The file outlives this.
  HyperParameters(const ModelFile& file, std::string architecture);

  // "llama.block_count" of "block_count".
  std::string key(std::string_view name) const;
  bool has(std::string_view name) const { return file_.find(key(name)) != nullptr; }
  // "FILE sentence."
  Error error(const std::string& sentence) const;

  // A whole number from 1 to max; the default stands in for a key that is not there. Fails with kBadModel.
  Result<uint32_t> count(std::string_view name, uint64_t max, std::optional<uint32_t> otherwise = {}) const;
  // The same, of which 0 and a missing key mean that there is none: 0.
  Result<uint32_t> count_or_none(std::string_view name, uint64_t max) const;
  // A number in [min, max], which a NaN is not. Fails with kBadModel.
  Result<double> number(std::string_view name, double min, double max, std::optional<double> otherwise) const;
  // The text of a key; none where the key is missing. A value that is no text fails with kBadModel.
  Result<std::optional<std::string>> text(std::string_view name) const;

 private:
  const ModelFile& file_;
  std::string architecture_;
};

}  // namespace runnel

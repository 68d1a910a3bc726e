#include "runner/formats/model_files.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "runner/formats/in_quotes.h"

namespace runnel {
namespace {

// The parts of a name that ends in "-00001-of-00003.gguf".
struct PartName {
  std::string stem;
  uint32_t number;  // from 1 on
  uint32_t count;

  std::string path_of(uint32_t part) const {
    char end[32];
    std::snprintf(end, sizeof(end), "-%05u-of-%05u.gguf", part, count);
    return stem + end;
  }
};

std::optional<uint32_t> five_digits(std::string_view text) {
  if (!std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; })) return std::nullopt;
  return static_cast<uint32_t>(std::atoi(std::string(text).c_str()));
}

std::optional<PartName> part_name_of(const std::string& path) {
  constexpr std::string_view kPattern = "-NNNNN-of-NNNNN.gguf";
  if (path.size() <= kPattern.size()) return std::nullopt;
  const std::string_view end = std::string_view(path).substr(path.size() - kPattern.size());
  if (end[0] != '-' || end.substr(6, 4) != "-of-" || end.substr(15) != ".gguf") return std::nullopt;
  const std::optional<uint32_t> number = five_digits(end.substr(1, 5));
  const std::optional<uint32_t> count = five_digits(end.substr(10, 5));
  if (!number || !count) return std::nullopt;
  return PartName{path.substr(0, path.size() - kPattern.size()), *number, *count};
}

}  // namespace

Result<ModelFiles> ModelFiles::open(const std::string& path) {
  if (path.empty())
    return Error{ExitCode::kNoFile, "The model's path is \"\"; give the path of a file or folder."};
  struct stat status;  // if stat fails, opening the file reports the error
  if (stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) return open_folder(path);
  if (path.ends_with(".safetensors") || path.ends_with(".safetensors.index.json")) {
    return Error{ExitCode::kBadModel,
                 in_quotes(path) +
                     " has weights without their config.json; give the path of the folder that has both."};
  }
  ModelFiles files;
  files.path_ = path;
  const std::optional<PartName> name = part_name_of(path);
  if (name && name->number != 1) {
    return Error{ExitCode::kBadModel, in_quotes(path) + " is part " + std::to_string(name->number) + " of " +
                                          std::to_string(name->count) +
                                          ", as its name says; give the path of the first part, " +
                                          in_quotes(name->path_of(1)) + "."};
  }
  const uint32_t count = name ? name->count : 1;
  if (count < 1 || count > kMaxModelParts) {
    return Error{ExitCode::kBadModel, "The name of " + in_quotes(path) + " says that the model has " +
                                          std::to_string(count) + " parts; 1 to " +
                                          std::to_string(kMaxModelParts) + " are supported."};
  }
  for (uint32_t part = 1; part <= count; ++part) {
    Result<RegularFile> file = RegularFile::open(part == 1 ? path : name->path_of(part));
    if (!file.ok()) {
      Error error = file.error();
      if (part > 1) {
        error.message += " It is part " + std::to_string(part) + " of " + std::to_string(count) + " of " +
                         in_quotes(path) + ".";
      }
      return error;
    }
    files.parts_.push_back(*std::move(file));
  }
  return files;
}

}  // namespace runnel

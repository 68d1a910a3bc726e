// A file that is written once, front to back. Unless it is finished it is removed again; of a process that is
// killed meanwhile a part stays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "runner/result.h"

namespace runnel {

class NewFile {
 public:
  // Overwrites nothing. Errors: kUsage where there is something of that name, kNoFile, kNoPermission,
  // kSystem.
  static Result<NewFile> create(const std::string& path);

  NewFile(NewFile&& other) noexcept;
  NewFile& operator=(NewFile&&) = delete;
  ~NewFile();

  // Errors of this and of finish: kSystem.
  Result<void> write(std::span<const std::byte> bytes);
  uint64_t num_bytes() const { return num_bytes_; }  // written
  // Once, at the end.
  Result<void> finish();

 private:
  NewFile(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}

  std::string path_;
  int descriptor_;  // -1: finished
  uint64_t num_bytes_ = 0;
};

}  // namespace runnel

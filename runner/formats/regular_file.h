// A regular file, opened for reading. Only regular files: opening a FIFO would wait for its other end, and a
// device may never end. Opening reads nothing of it, so it can be done before the process confines itself and
// the rest after.
#pragma once

#include <cstdint>
#include <string>

#include "runner/result.h"

namespace runnel {

class RegularFile {
 public:
  // Errors: kNoFile, kNoPermission, kSystem; the message names the path.
  static Result<RegularFile> open(const std::string& path);

  RegularFile(RegularFile&& other) noexcept;
  RegularFile& operator=(RegularFile&& other) noexcept;
  ~RegularFile();

  const std::string& path() const { return path_; }
  int descriptor() const { return descriptor_; }
  // When it was opened.
  uint64_t num_bytes() const { return num_bytes_; }
  int64_t modified_ns() const { return modified_ns_; }  // since 1970
  uint64_t inode() const { return inode_; }
  // Size, modification time, inode and device, in decimal digits with hyphens between: what --expect-file
  // has.
  std::string identity() const;

 private:
  explicit RegularFile(std::string path) : path_(std::move(path)) {}

  std::string path_;
  int descriptor_ = -1;
  uint64_t num_bytes_ = 0;
  int64_t modified_ns_ = 0;
  uint64_t inode_ = 0;
  uint64_t device_ = 0;
};

}  // namespace runnel

// A regular file that is opened for reading. Other files are refused: opening a FIFO would wait for its other
// end, and a device may never end. Opening reads nothing, so it can be done before the process confines
// itself, and reading afterwards.
#pragma once

#include <cstdint>
#include <string>

#include "runner/result.h"
#include "runner/system/descriptor.h"

namespace runnel {

class RegularFile {
 public:
  // Fails with kNoFile, kNoPermission and kSystem. Messages name the path.
  static Result<RegularFile> open(const std::string& path);

  const std::string& path() const { return path_; }
  int descriptor() const { return descriptor_.number(); }
  // The size at the time of opening.
  uint64_t num_bytes() const { return num_bytes_; }
  int64_t modified_ns() const { return modified_ns_; }  // since 1970
  uint64_t inode() const { return inode_; }
  // Size, modification time, inode and device, in decimal digits with hyphens between: the value of
  // --expect-file.
  std::string identity() const;

 private:
  explicit RegularFile(std::string path) : path_(std::move(path)) {}

  std::string path_;
  Descriptor descriptor_;
  uint64_t num_bytes_ = 0;
  int64_t modified_ns_ = 0;
  uint64_t inode_ = 0;
  uint64_t device_ = 0;
};

}  // namespace runnel

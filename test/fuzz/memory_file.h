// A file in memory that can be opened by a path, as models are.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <string>
#include <string_view>

#include "runner/check.h"

namespace runnel::fuzz {

class MemoryFile {
 public:
  MemoryFile() : fd_(memfd_create("model", MFD_CLOEXEC)), path_("/proc/self/fd/" + std::to_string(fd_)) {
    RUNNEL_CHECK(fd_ >= 0);
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() { close(fd_); }

  const std::string& path() const { return path_; }
  void write(std::string_view bytes) const {
    RUNNEL_CHECK(ftruncate(fd_, 0) == 0);
    RUNNEL_CHECK(pwrite(fd_, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  }

 private:
  int fd_;
  std::string path_;
};

}  // namespace runnel::fuzz

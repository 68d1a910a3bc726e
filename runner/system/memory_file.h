// A file that lies in memory and has no name (memfd). A process that is given its descriptor maps the same
// pages. Seals say what nobody can do to it any more, whoever has the descriptor.
#pragma once

#include <cstdint>
#include <string>

#include "runner/result.h"

namespace runnel {

class MemoryFile {
 public:
  // An empty file. name is for people, in /proc. Must be called before the process gives up opening files, as
  // must open_sealed. Fails with kSystem.
  static Result<MemoryFile> create(const char* name);
  // A file that another process has made and sealed, by its descriptor, which this takes over. flag names the
  // descriptor in messages. Fails with kTryAgain for everything else: whoever passed the descriptor is to do
  // without.
  static Result<MemoryFile> open_sealed(int descriptor, const std::string& flag);

  MemoryFile(MemoryFile&& other) noexcept;
  MemoryFile& operator=(MemoryFile&& other) noexcept;
  ~MemoryFile();

  int descriptor() const { return descriptor_; }
  // Open for reading only. What is mapped through it can never become writable, so it does not keep the file
  // from being sealed. Before Linux 6.7 a sealed file can be mapped in no other way.
  int reader() const { return reader_; }
  uint64_t bytes() const { return bytes_; }
  // Whether neither bytes nor size can change.
  bool is_sealed() const { return is_sealed_; }

  // New bytes are zero, and take no memory until they are written. Fails with kSystem.
  Result<void> resize(uint64_t bytes);
  // Fixes bytes and size for ever. Fails with kSystem, and while the file is mapped for writing anywhere.
  Result<void> seal();

 private:
  explicit MemoryFile(int descriptor) : descriptor_(descriptor) {}
  bool open_reader();

  int descriptor_;
  int reader_ = -1;
  uint64_t bytes_ = 0;
  bool is_sealed_ = false;
};

}  // namespace runnel

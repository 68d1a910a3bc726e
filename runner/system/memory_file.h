// A file that lies in memory and has no name (memfd). A process that is given its descriptor maps the same
// pages, and they outlive each of these processes. Seals say what nobody can do to it any more, whoever has
// the descriptor.
#pragma once

#include <cstdint>
#include <string>

#include "runner/result.h"
#include "runner/system/descriptor.h"

namespace runnel {

// kSize: the file cannot shrink, so reading what is mapped cannot end the process, nor grow.
// kAll: its bytes cannot change either.
enum class Seals { kNone, kSize, kAll };

class MemoryFile {
 public:
  // An empty file. name is for people, in /proc. Must be called before the process gives up opening files, as
  // must inherit. Fails with kSystem.
  static Result<MemoryFile> create(const char* name);
  // A file that another process has made, by its descriptor, which this takes over and no child inherits.
  // flag names the descriptor in messages. Fails with kTryAgain for everything else, and for a file without
  // these seals: whoever passed the descriptor is to do without.
  static Result<MemoryFile> inherit(int descriptor, const std::string& flag, Seals seals);

  int descriptor() const { return descriptor_.number(); }
  // Open for reading only. What is mapped through it can never become writable, so it does not keep the file
  // from being sealed. Before Linux 6.7 a file with kAll can be mapped in no other way.
  int reader() const { return reader_.number(); }
  uint64_t bytes() const { return bytes_; }
  // Whether neither bytes nor size can change.
  bool is_sealed() const { return seals_ == Seals::kAll; }

  // New bytes are zero, and take no memory until they are written. Fails with kSystem.
  Result<void> resize(uint64_t bytes);
  // For ever, and no more seals can be added. Fails with kSystem, and with kAll while the file is mapped for
  // writing anywhere.
  Result<void> seal(Seals seals);

 private:
  explicit MemoryFile(int descriptor) : descriptor_(descriptor) {}
  bool open_reader();

  Descriptor descriptor_;
  Descriptor reader_;
  uint64_t bytes_ = 0;
  Seals seals_ = Seals::kNone;
};

}  // namespace runnel

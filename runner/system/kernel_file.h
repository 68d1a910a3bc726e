// A file of the kernel with numbers that change, such as /proc/meminfo. It is opened once and stays open, for
// a process that gives up opening files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runner/system/descriptor.h"

namespace runnel {

class KernelFile {
 public:
  explicit KernelFile(const std::string& path);

  // The number behind this text, such as 1234 for "\nRssAnon:" in "... RssAnon:   1234 kB"; with "" the first
  // number. Nothing if there is no such file, text or number.
  std::optional<uint64_t> number(std::string_view behind) const;

 private:
  Descriptor descriptor_;
};

}  // namespace runnel

// The memory that the machine and the cgroups of this process can still give it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runner/system/kernel_file.h"

namespace runnel {

class AvailableMemory {
 public:
  // Opens the files, which stay open. root is that of cgroups_of.
  explicit AvailableMemory(const std::string& root = "");

  // Bytes that are free or can be freed: the least of MemAvailable and of what each cgroup leaves. Nothing
  // without /proc/meminfo.
  std::optional<uint64_t> bytes() const;
  // Bytes that this process and all others could have: the least of MemTotal and the limits of its cgroups.
  std::optional<uint64_t> total_bytes() const;

 private:
  // A cgroup that may have a limit.
  struct Limited {
    KernelFile max;
    KernelFile used;
    KernelFile stat;
    bool is_v2;

    std::optional<uint64_t> bytes_left() const;
  };

  KernelFile meminfo_;
  std::vector<Limited> cgroups_;
};

}  // namespace runnel

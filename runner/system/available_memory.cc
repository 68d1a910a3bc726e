#include "runner/system/available_memory.h"

#include <algorithm>

#include "runner/system/cgroups.h"

namespace runnel {

AvailableMemory::AvailableMemory(const std::string& root) : meminfo_(root + "/proc/meminfo") {
  for (const auto& [folder, is_v2] : cgroups_of("memory", root)) {
    const std::string memory = folder + "/memory.";
    cgroups_.push_back({.max = KernelFile(memory + (is_v2 ? "max" : "limit_in_bytes")),
                        .used = KernelFile(memory + (is_v2 ? "current" : "usage_in_bytes")),
                        .stat = KernelFile(memory + "stat"),
                        .is_v2 = is_v2});
  }
}

std::optional<uint64_t> AvailableMemory::bytes() const {
  std::optional<uint64_t> kib = meminfo_.number("\nMemAvailable:");
  if (!kib) return std::nullopt;
  uint64_t least = *kib * 1024;
  for (const Limited& cgroup : cgroups_) least = std::min(least, cgroup.bytes_left().value_or(least));
  return least;
}

std::optional<uint64_t> AvailableMemory::total_bytes() const {
  const std::optional<uint64_t> kib = meminfo_.number("MemTotal:");
  if (!kib) return std::nullopt;
  uint64_t least = *kib * 1024;
  for (const Limited& cgroup : cgroups_) least = std::min(least, cgroup.max.number("").value_or(least));
  return least;
}

std::optional<uint64_t> AvailableMemory::Limited::bytes_left() const {
  const std::optional<uint64_t> limit = max.number("");  // no number: "max"
  const std::optional<uint64_t> in_use = used.number("");
  if (!limit || !in_use) return std::nullopt;
  // Pages of files count as used, and the system can take them back at any time.
  const std::string prefix = is_v2 ? "\n" : "\ntotal_";
  const uint64_t of_files =
      stat.number(prefix + "inactive_file").value_or(0) + stat.number(prefix + "active_file").value_or(0);
  const uint64_t kept = *in_use - std::min(*in_use, of_files);
  return *limit - std::min(*limit, kept);
}

}  // namespace runnel

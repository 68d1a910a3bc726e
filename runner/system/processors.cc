#include "runner/system/processors.h"

#include <algorithm>
#include <fstream>
#include <limits>

#include "runner/system/cgroups.h"

namespace runnel {
namespace {

// cpu.max has "150000 100000", or "max 100000". Version 1 has the same numbers in two files, and -1 for max.
std::optional<uint32_t> quota_of(const std::string& folder, bool is_v2) {
  int64_t quota = 0;
  int64_t period = 0;
  if (is_v2) {
    std::ifstream(folder + "/cpu.max") >> quota >> period;
  } else {
    std::ifstream(folder + "/cpu.cfs_quota_us") >> quota;
    std::ifstream(folder + "/cpu.cfs_period_us") >> period;
  }
  if (quota <= 0 || period <= 0) return std::nullopt;
  const int64_t num_processors = quota / period + (quota % period > 0 ? 1 : 0);
  return static_cast<uint32_t>(std::min<int64_t>(num_processors, std::numeric_limits<uint32_t>::max()));
}

}  // namespace

uint32_t usable_cores(const Topology& topology) {
  const uint32_t num_cores = topology.num_cores();
  return std::min(num_cores, quota_processors().value_or(num_cores));
}

std::optional<uint32_t> quota_processors(const std::string& root) {
  std::optional<uint32_t> least;
  for (const Cgroup& cgroup : cgroups_of("cpu", root)) {
    const std::optional<uint32_t> quota = quota_of(cgroup.folder, cgroup.is_v2);
    if (quota) least = std::min(*quota, least.value_or(*quota));
  }
  return least;
}

}  // namespace runnel

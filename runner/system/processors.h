// How many processor cores this process may use.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runner/system/topology.h"

namespace runnel {

// The cores on which the system lets this process run, but no more than the quotas of its cgroups allow. Must
// be called before the sandbox, which forbids opening the files with this information.
uint32_t usable_cores(const Topology& topology = read_topology());

// The most threads that a runner computes with.
inline constexpr uint32_t kMaxThreads = 256;

// The smallest quota of processor time in whole processors, rounded up so that all of it can be used. Looks
// at cpu.max of cgroups of version 2 and cpu.cfs_quota_us of version 1. Nothing if there is no quota or no
// such file. root is that of cgroups_of.
std::optional<uint32_t> quota_processors(const std::string& root = "");

}  // namespace runnel

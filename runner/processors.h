// How many processors this process may use.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace runnel {

// The processors on which the system lets this process run, but no more than the quotas of its cgroups allow.
// Must be called before the sandbox, which forbids opening the files with this information.
uint32_t usable_processors();

// The most threads that a runner computes with.
inline constexpr uint32_t kMaxThreads = 256;

// The smallest quota of processor time in whole processors, rounded up so that all of it can be used. Looks
// at the process's own cgroup and those above it, at cpu.max of version 2 and cpu.cfs_quota_us of version 1.
// Nothing if there is no quota or no such file. root is the folder that contains /proc and the paths in it;
// tests pass a folder of their own.
std::optional<uint32_t> quota_processors(const std::string& root = "");

}  // namespace runnel

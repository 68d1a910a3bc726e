// How many processors this process may use.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace runnel {

// As many as the system lets it run on, and no more than its cgroups' quotas of processor time are worth. To
// be asked before the sandbox, which closes the files that say so.
uint32_t usable_processors();

// What the least of the quotas is worth in whole processors, rounded up so that all of it can be used: of the
// process's own cgroup and of those above it, cpu.max of version 2 and cpu.cfs_quota_us of version 1. None:
// there is no quota, or nothing that says so. root: where /proc and what it names is; of tests, a folder.
std::optional<uint32_t> quota_processors(const std::string& root = "");

}  // namespace runnel

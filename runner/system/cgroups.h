// The cgroups whose limits apply to this process.
#pragma once

#include <string>
#include <vector>

namespace runnel {

struct Cgroup {
  std::string folder;  // has the files of its controllers
  bool is_v2;
};

// The process's own cgroup and those above it, up to the mount, in version 2 and in the hierarchy of version
// 1 that has this controller. root is the folder that contains /proc and the paths in it; tests pass a folder
// of their own.
std::vector<Cgroup> cgroups_of(const std::string& controller, const std::string& root = "");

}  // namespace runnel

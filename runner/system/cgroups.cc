#include "runner/system/cgroups.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>
#include <vector>

namespace runnel {
namespace {

// The place of the process in each hierarchy of cgroups, as /proc/self/cgroup says. Nothing if it is in no
// such hierarchy.
struct Places {
  std::optional<std::string> v1;
  std::optional<std::string> v2;
};

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, separator);) parts.push_back(part);
  return parts;
}

bool lists(const std::string& comma_list, const std::string& controller) {
  return std::ranges::count(split(comma_list, ','), controller) > 0;
}

// Lines such as 0::/user.slice, or 4:cpu,cpuacct:/docker/1f. The last field may have colons.
Places read_places(const std::string& controller, const std::string& root) {
  Places places;
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const size_t controllers = line.find(':') + 1;
    const size_t end = line.find(':', controllers);
    if (controllers == 0 || end == std::string::npos) continue;
    const std::string path = line.substr(end + 1);
    if (line.starts_with("0::")) places.v2 = path;
    if (lists(line.substr(controllers, end - controllers), controller)) places.v1 = path;
  }
  return places;
}

// A mounted hierarchy: the part `root` of it is visible at `folder`.
struct Mount {
  std::string root;
  std::string folder;
  bool is_v2;
};

// Lines such as 32 31 0:29 /docker/1f /sys/fs/cgroup/cpu rw,relatime shared:9 - cgroup cgroup rw,cpu
std::vector<Mount> read_mounts(const std::string& controller, const std::string& root) {
  std::vector<Mount> mounts;
  std::ifstream file(root + "/proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> fields = split(line, ' ');
    const auto dash = std::ranges::find(fields, "-");
    if (fields.size() < 6 || std::distance(dash, fields.end()) < 4) continue;
    const bool is_v2 = dash[1] == "cgroup2";
    if (is_v2 || (dash[1] == "cgroup" && lists(dash[3], controller)))
      mounts.push_back({fields[3], fields[4], is_v2});
  }
  return mounts;
}

// The place relative to the mount; the mount itself if the place is not inside it.
std::string path_within(const Mount& mount, const std::string& place) {
  if (mount.root == "/") return place == "/" ? "" : place;
  const bool is_beneath = place.starts_with(mount.root + "/");
  return is_beneath ? place.substr(mount.root.size()) : "";
}

}  // namespace

std::vector<Cgroup> cgroups_of(const std::string& controller, const std::string& root) {
  const Places places = read_places(controller, root);
  std::vector<Cgroup> cgroups;
  for (const Mount& mount : read_mounts(controller, root)) {
    const std::optional<std::string>& place = mount.is_v2 ? places.v2 : places.v1;
    if (!place) continue;
    for (std::string path = path_within(mount, *place);; path.resize(path.rfind('/'))) {
      cgroups.push_back({root + mount.folder + path, mount.is_v2});
      if (path.find('/') == std::string::npos) break;
    }
  }
  return cgroups;
}

}  // namespace runnel

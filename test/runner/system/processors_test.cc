#include "runner/system/processors.h"

#include <filesystem>
#include <fstream>
#include <map>

#include "test/fixtures/temporary_folder.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

// The quota of a system with these files. files: contents by path.
std::optional<uint32_t> quota_with(const std::map<std::string, std::string>& files) {
  const test::TemporaryFolder folder;
  for (const auto& [path, content] : files) {
    const std::filesystem::path file = folder.path() + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << content << '\n';
  }
  return quota_processors(folder.path());
}

const std::string kMountOfV2 =
    "31 23 0:27 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate";
const std::string kMountsOfV1 =
    "30 23 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    "31 23 0:27 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
    "32 23 0:28 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset";

}  // namespace

TEST_CASE("processors: a quota of version 2 counts in whole processors, rounded up") {
  const auto quota = [](const std::string& cpu_max) {
    return quota_with({{"/proc/self/cgroup", "0::/app"},
                       {"/proc/self/mountinfo", "20 1 8:1 / / rw - ext4 /dev/sda1 rw\n" + kMountOfV2},
                       {"/sys/fs/cgroup/app/cpu.max", cpu_max}});
  };
  CHECK(quota("200000 100000") == 2);
  CHECK(quota("150000 100000") == 2);
  CHECK(quota("100000 100000") == 1);
  CHECK(quota("20000 100000") == 1);
  CHECK(quota("90000 10000") == 9);
  CHECK(quota("9000000000000000 1000") == 4294967295u);
  CHECK_FALSE(quota("max 100000"));
  CHECK_FALSE(quota(""));
  CHECK_FALSE(quota("-5 100000"));
  CHECK_FALSE(quota("5 0"));
  CHECK_FALSE(quota("99999999999999999999 100000"));
}

TEST_CASE("processors: the cgroups above count too, the least of all") {
  const auto quota = [](const std::string& above, const std::string& own) {
    return quota_with({{"/proc/self/cgroup", "0::/kube.slice/pod.slice/app:1"},
                       {"/proc/self/mountinfo", kMountOfV2},
                       {"/sys/fs/cgroup/kube.slice/cpu.max", above},
                       {"/sys/fs/cgroup/kube.slice/pod.slice/app:1/cpu.max", own}});
  };
  CHECK(quota("300000 100000", "max 100000") == 3);
  CHECK(quota("300000 100000", "400000 100000") == 3);
  CHECK(quota("max 100000", "400000 100000") == 4);
  CHECK_FALSE(quota("max 100000", "max 100000"));
}

TEST_CASE("processors: inside a container the cgroup's own folder is the mount") {
  CHECK(quota_with({{"/proc/self/cgroup", "0::/"},
                    {"/proc/self/mountinfo", kMountOfV2},
                    {"/sys/fs/cgroup/cpu.max", "100000 100000"}}) == 1);
  // Without a cgroup namespace a process sees its whole path, but only its own folder is mounted.
  const std::string mount = "31 23 0:27 /docker/1f /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu";
  for (const char* place : {"/docker/1f", "/docker/1fe/other", "/elsewhere"}) {
    CAPTURE(place);
    CHECK(quota_with({{"/proc/self/cgroup", std::string("2:cpu:") + place},
                      {"/proc/self/mountinfo", mount},
                      {"/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "300000"},
                      {"/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000"}}) == 3);
  }
  CHECK(quota_with({{"/proc/self/cgroup", "2:cpu:/docker/1f/inner"},
                    {"/proc/self/mountinfo", mount},
                    {"/sys/fs/cgroup/cpu/inner/cpu.cfs_quota_us", "100000"},
                    {"/sys/fs/cgroup/cpu/inner/cpu.cfs_period_us", "100000"}}) == 1);
}

TEST_CASE("processors: a quota of version 1 is that of the cpu controller, and of those above") {
  const auto quota = [](const std::string& above, const std::string& own) {
    return quota_with({{"/proc/self/cgroup", "4:memory:/m\n3:cpuset:/set\n2:cpu,cpuacct:/a/b\n0::/"},
                       {"/proc/self/mountinfo", kMountsOfV1},
                       {"/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", above},
                       {"/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000"},
                       {"/sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_quota_us", own},
                       {"/sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_period_us", "50000"}});
  };
  CHECK(quota("-1", "100000") == 2);
  CHECK(quota("100000", "100000") == 1);
  CHECK(quota("500000", "-1") == 5);
  CHECK_FALSE(quota("-1", "-1"));
}

TEST_CASE("processors: where nothing speaks of cgroups there is no quota, and one processor at least") {
  CHECK_FALSE(quota_with({}));
  CHECK_FALSE(quota_with({{"/proc/self/cgroup", "nonsense\n0::/a"}, {"/proc/self/mountinfo", "- cgroup2"}}));
  CHECK(usable_cores() >= 1);
  CHECK(usable_cores() <= quota_processors().value_or(usable_cores()));
}

}  // namespace runnel

#include "runner/system/available_memory.h"

#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "test/fixtures/temporary_folder.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

using Files = std::map<std::string, std::string>;

// Calls read with the memory of a system with these files besides a MemTotal of 16,000 KiB and a MemAvailable
// of 8,000 KiB. files: contents by path.
template <typename Read>
std::optional<uint64_t> read_with(const Files& files, const Read& read) {
  const test::TemporaryFolder folder;
  const auto write = [&](const std::string& path, const std::string& content) {
    const std::filesystem::path file = folder.path() + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << content << '\n';
  };
  write("/proc/meminfo", "MemTotal:  16000 kB\nMemFree:  4000 kB\nMemAvailable:    8000 kB");
  for (const auto& [path, content] : files) write(path, content);
  return read(AvailableMemory(folder.path()));
}

std::optional<uint64_t> available_with(const Files& files) {
  return read_with(files, [](const AvailableMemory& memory) { return memory.bytes(); });
}

std::optional<uint64_t> total_with(const Files& files) {
  return read_with(files, [](const AvailableMemory& memory) { return memory.total_bytes(); });
}

constexpr uint64_t kOfSystem = 8000 * 1024;

Files in_v2(const std::string& max, const std::string& current, const std::string& stat) {
  return {{"/proc/self/cgroup", "0::/kube.slice/app"},
          {"/proc/self/mountinfo", "31 23 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw"},
          {"/sys/fs/cgroup/kube.slice/app/memory.max", max},
          {"/sys/fs/cgroup/kube.slice/app/memory.current", current},
          {"/sys/fs/cgroup/kube.slice/app/memory.stat", stat}};
}

}  // namespace

TEST_CASE("available memory: without a cgroup it is what the system says") {
  CHECK(available_with({}) == kOfSystem);
  const test::TemporaryFolder empty;
  CHECK_FALSE(AvailableMemory(empty.path()).bytes());
  CHECK_FALSE(AvailableMemory(empty.path()).total_bytes());
}

TEST_CASE("available memory: in all it is that of the machine within the limits, whatever is used") {
  CHECK(total_with({}) == 16000 * 1024);
  CHECK(total_with(in_v2("5000000", "2000000", "")) == 5'000'000);
  CHECK(total_with(in_v2("max", "2000000", "")) == 16000 * 1024);
  Files files = in_v2("5000000", "2000000", "");
  files["/sys/fs/cgroup/kube.slice/memory.max"] = "4000000";
  CHECK(total_with(files) == 4'000'000);
}

TEST_CASE("available memory: a cgroup leaves its limit minus what is used and cannot be freed") {
  CHECK(available_with(in_v2("5000000", "2000000", "anon 1000000\nfile 9")) == 3'000'000);
  CHECK(available_with(in_v2("5000000", "2000000",
                             "anon 1000000\ninactive_file 300000\nactive_file 200000")) == 3'500'000);
  CHECK(available_with(in_v2("5000000", "6000000", "")) == 0);
  CHECK(available_with(in_v2("9000000000", "2000000", "")) == kOfSystem);
  CHECK(available_with(in_v2("max", "2000000", "")) == kOfSystem);
}

TEST_CASE("available memory: the cgroups above count too, the least of all") {
  Files files = in_v2("5000000", "2000000", "");
  files["/sys/fs/cgroup/kube.slice/memory.max"] = "7000000";
  files["/sys/fs/cgroup/kube.slice/memory.current"] = "6000000";
  CHECK(available_with(files) == 1'000'000);
}

TEST_CASE("available memory: a limit of version 1 counts, with the files of the cgroups below it") {
  const auto in_v1 = [](const std::string& limit) {
    return available_with(
        {{"/proc/self/cgroup", "4:memory:/docker/1f"},
         {"/proc/self/mountinfo", "31 23 0:27 /docker/1f /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory"},
         {"/sys/fs/cgroup/memory/memory.limit_in_bytes", limit},
         {"/sys/fs/cgroup/memory/memory.usage_in_bytes", "2000000"},
         {"/sys/fs/cgroup/memory/memory.stat",
          "cache 7\nactive_file 1\ntotal_inactive_file 300000\ntotal_active_file 200000"}});
  };
  CHECK(in_v1("5000000") == 3'500'000);
  CHECK(in_v1("9223372036854771712") == kOfSystem);
}

}  // namespace runnel

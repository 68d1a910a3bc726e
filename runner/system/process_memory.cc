#include "runner/system/process_memory.h"

#include <sys/resource.h>

#include <algorithm>
#include <string_view>

#include "runner/system/available_memory.h"
#include "runner/system/kernel_file.h"

namespace runnel {
namespace {

std::optional<uint64_t> bytes_of_status(std::string_view field) {
  static const KernelFile status("/proc/self/status");
  const std::optional<uint64_t> kib = status.number(field);
  if (!kib) return std::nullopt;
  return *kib * 1024;
}

const AvailableMemory& memory_of_system() {
  static const AvailableMemory memory;
  return memory;
}

uint64_t address_space_limit() {
  rlimit limit;
  return getrlimit(RLIMIT_AS, &limit) == 0 ? limit.rlim_cur : RLIM_INFINITY;
}

}  // namespace

Result<uint64_t> private_memory_bytes() {
  const std::optional<uint64_t> own = bytes_of_status("\nRssAnon:");
  const std::optional<uint64_t> shared = bytes_of_status("\nRssShmem:");
  if (own && shared) return *own + *shared;
  return Error{ExitCode::kSystem,
               "/proc/self/status has no RssAnon and RssShmem, the memory of this process."};
}

std::optional<uint64_t> total_memory_bytes() {
  return memory_of_system().total_bytes();
}

std::optional<uint64_t> available_memory_bytes() {
  static const uint64_t limit = address_space_limit();
  const std::optional<uint64_t> of_system = memory_of_system().bytes();
  const std::optional<uint64_t> used = bytes_of_status("\nVmSize:");
  if (!of_system || !used) return std::nullopt;
  return std::min(*of_system, limit - std::min(limit, *used));
}

}  // namespace runnel

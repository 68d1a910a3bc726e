// The filter of system calls as data: what the kernel's interpreter of classic BPF decides from it. So it is
// tested for every architecture that the tests are compiled for, on kernels without seccomp too.
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "runner/sandbox/parts.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

#if defined(__x86_64__)
constexpr uint32_t kHere = AUDIT_ARCH_X86_64;
constexpr uint32_t kElsewhere = AUDIT_ARCH_I386;
#elif defined(__aarch64__)
constexpr uint32_t kHere = AUDIT_ARCH_AARCH64;
constexpr uint32_t kElsewhere = AUDIT_ARCH_ARM;
#endif

constexpr uint32_t kRefused = SECCOMP_RET_ERRNO | EPERM;

// The instructions that the filter uses, as the kernel executes them.
uint32_t answer_to(const seccomp_data& call) {
  const std::vector<sock_filter> filter = system_call_filter();
  uint32_t loaded = 0;
  for (size_t at = 0; at < filter.size(); ++at) {
    const auto& [code, if_true, if_false, value] = filter[at];
    switch (code) {
      case BPF_LD | BPF_W | BPF_ABS:
        REQUIRE(value + sizeof(loaded) <= sizeof(call));
        std::memcpy(&loaded, reinterpret_cast<const std::byte*>(&call) + value, sizeof(loaded));
        break;
      case BPF_JMP | BPF_JEQ | BPF_K:
        at += loaded == value ? if_true : if_false;
        break;
      case BPF_JMP | BPF_JSET | BPF_K:
        at += (loaded & value) != 0 ? if_true : if_false;
        break;
      case BPF_RET | BPF_K:
        return value;
      default:
        FAIL("an instruction that this test does not know: " << code);
    }
  }
  FAIL("the filter ends without an answer");
  return 0;
}

using Arguments = std::array<uint64_t, 6>;

uint32_t answer_to(long number, const Arguments& arguments = {}) {
  seccomp_data call{};
  call.nr = static_cast<int>(number);
  call.arch = kHere;
  std::copy(arguments.begin(), arguments.end(), call.args);
  return answer_to(call);
}

}  // namespace

TEST_CASE("sandbox: what a runner needs is allowed, and what only an intruder does ends it") {
  for (const long number :
       {SYS_read, SYS_write, SYS_futex, SYS_exit_group, SYS_munmap, SYS_getrandom, SYS_wait4})
    CHECK(answer_to(number) == SECCOMP_RET_ALLOW);
  for (const long number : {SYS_execve, SYS_execveat, SYS_kill, SYS_ptrace, SYS_bpf, SYS_unshare})
    CHECK(answer_to(number) == SECCOMP_RET_KILL_PROCESS);
  for (const long number : {SYS_openat, SYS_socket, SYS_connect, SYS_unlinkat, SYS_prctl})
    CHECK(answer_to(number) == kRefused);
  CHECK(answer_to(SYS_clone3) == (SECCOMP_RET_ERRNO | ENOSYS));
}

TEST_CASE("sandbox: arguments of system calls decide") {
  CHECK(answer_to(SYS_mmap, {0, 4096, PROT_READ | PROT_WRITE}) == SECCOMP_RET_ALLOW);
  CHECK(answer_to(SYS_mmap, {0, 4096, PROT_READ | PROT_EXEC}) == SECCOMP_RET_KILL_PROCESS);
  CHECK(answer_to(SYS_mprotect, {0, 4096, PROT_EXEC}) == SECCOMP_RET_KILL_PROCESS);
  CHECK(answer_to(SYS_clone, {CLONE_VM | CLONE_THREAD}) == SECCOMP_RET_ALLOW);
  CHECK(answer_to(SYS_clone, {CLONE_VM}) == SECCOMP_RET_KILL_PROCESS);
  CHECK(answer_to(SYS_fcntl, {3, F_ADD_SEALS}) == SECCOMP_RET_ALLOW);
  CHECK(answer_to(SYS_fcntl, {3, F_SETFL}) == kRefused);
  CHECK(answer_to(SYS_getpriority, {PRIO_PROCESS, 0}) == SECCOMP_RET_ALLOW);
  CHECK(answer_to(SYS_getpriority, {PRIO_PROCESS, 1}) == kRefused);
  CHECK(answer_to(SYS_setpriority, {PRIO_PROCESS, 0}) == SECCOMP_RET_ALLOW);
  CHECK(answer_to(SYS_setpriority, {PRIO_PROCESS, 1}) == kRefused);
  CHECK(answer_to(SYS_sched_setaffinity, {0, 128}) == SECCOMP_RET_ALLOW);
  CHECK(answer_to(SYS_sched_setaffinity, {1, 128}) == kRefused);
  const auto self = static_cast<uint64_t>(getpid());
  CHECK(answer_to(SYS_tgkill, {self, self}) == SECCOMP_RET_ALLOW);
  CHECK(answer_to(SYS_tgkill, {self + 1, self + 1}) == SECCOMP_RET_KILL_PROCESS);
}

TEST_CASE("sandbox: system calls of another architecture end the runner") {
  seccomp_data call{};
  call.nr = SYS_read;
  call.arch = kElsewhere;
  CHECK(answer_to(call) == SECCOMP_RET_KILL_PROCESS);
}

}  // namespace runnel

// Each forbidden action is tried in a child process that has entered the sandbox as serve does. If the kernel
// lacks a part of the sandbox, or the build has a sanitizer, the tests are skipped and say why.
#include "runner/sandbox/sandbox.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>

#include "runner/formats/model_file.h"
#include "runner/sandbox/parts.h"
#include "runner/system/affinity.h"
#include "runner/system/deep_thread.h"
#include "runner/system/memory_file.h"
#include "runner/system/process_memory.h"
#include "test/fixtures/tiny_llama.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

using namespace test;

constexpr int kDenied = 0;
constexpr int kHappened = 1;
constexpr int kFailedOtherwise = 2;
constexpr int kNotConfined = 3;

// An action that a system, or the container that the tests run in, may forbid to everybody.
constexpr const char* kRing = "ask the kernel through a ring";

// Why the whole sandbox cannot be tested here; nothing if it can.
std::optional<std::string> obstacle() {
  if (const auto why = sandbox_obstacle()) return why;
  if (landlock_version() == 0) return "this kernel has no Landlock";
  return std::nullopt;
}

// The wait status of a child process that runs the action.
int status_of_child(const std::function<int()>& action) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) _exit(action());
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return status;
}

int status_of_confined(const std::function<int()>& action) {
  return status_of_child([&] {
    const Result<std::string> sandbox = enter_sandbox(SandboxMode::kStrict);
    return sandbox.ok() ? action() : kNotConfined;
  });
}

struct Forbidden {
  std::string name;
  // Tries the action. Returns a number below 0, with errno, if it failed. Outside of the sandbox it does no
  // harm: if it needs rights that the test lacks, it fails with another error than inside.
  std::function<long()> attempt;
};

// Whether the sandbox stopped the child: by an error, or by SIGSYS.
bool is_denied(int status) {
  if (WIFSIGNALED(status)) return WTERMSIG(status) == SIGSYS;
  return WIFEXITED(status) && WEXITSTATUS(status) == kDenied;
}

int outcome_of(const Forbidden& forbidden) {
  errno = 0;
  if (forbidden.attempt() >= 0) return kHappened;
  return errno == EPERM || errno == EACCES ? kDenied : kFailedOtherwise;
}

long connect_to_port(int socket_fd) {
  if (socket_fd < 0) return -1;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(9);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  // Nobody listens there, so a refusal by the other side means that the attempt succeeded.
  const int connected = connect(socket_fd, reinterpret_cast<sockaddr*>(&address), sizeof address);
  return connected < 0 && errno == ECONNREFUSED ? 0 : connected;
}

// path and page must exist before the child enters the sandbox.
std::vector<Forbidden> forbidden_actions(const std::string& path, void* page) {
  static char program[] = "/bin/false";  // ends with kHappened
  static char* const arguments[] = {program, nullptr};
  return {
      {"open a file for reading", [=] { return open(path.c_str(), O_RDONLY); }},
      {"open a file for writing", [=] { return open(path.c_str(), O_WRONLY | O_APPEND); }},
      {"create a file", [=] { return open((path + ".new").c_str(), O_CREAT | O_EXCL | O_WRONLY, 0600); }},
      {"connect over TCP", [] { return connect_to_port(socket(AF_INET, SOCK_STREAM, 0)); }},
      {"make a UDP socket", [] { return socket(AF_INET, SOCK_DGRAM, 0); }},
      {"make a UNIX socket", [] { return socket(AF_UNIX, SOCK_DGRAM, 0); }},
      {"run another program", [] { return execv(program, arguments); }},
      {"start a process", [] { return fork(); }},
      {"trace its parent", [] { return ptrace(PTRACE_SEIZE, getppid(), nullptr, nullptr); }},
      {"signal its parent", [] { return syscall(SYS_kill, getppid(), 0); }},
      {"make a page of data executable", [=] { return mprotect(page, 4096, PROT_READ | PROT_EXEC); }},
      {"mount a file system", [] { return mount("none", "/nonexistent", "tmpfs", 0, nullptr); }},
      // Ways around a sandbox.
      {"map memory that is writable and executable",
       [] {
         void* const mapped =
             mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
         return mapped == MAP_FAILED ? -1L : 0L;
       }},
      {"start a process by clone", [] { return syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0); }},
      {"signal a thread of its parent", [] { return syscall(SYS_tgkill, getppid(), getppid(), 0); }},
      {"write into its parent's memory",
       [] { return syscall(SYS_process_vm_writev, getppid(), nullptr, 0, nullptr, 0, 0); }},
      {"change the priority of its parent",
       [] {
         const auto parent = static_cast<id_t>(getppid());
         return setpriority(PRIO_PROCESS, parent, getpriority(PRIO_PROCESS, parent));
       }},
      {"change the priority of its user's processes",
       [] { return setpriority(PRIO_USER, 0, getpriority(PRIO_USER, 0)); }},
      {"bind its parent to processors",
       [] {
         cpu_set_t own;  // the parent's too
         if (sched_getaffinity(0, sizeof own, &own) != 0) return -1;
         return sched_setaffinity(getppid(), sizeof own, &own);
       }},
      {kRing, [] { return syscall(SYS_io_uring_setup, 1, nullptr); }},
      {"load a filter into the kernel", [] { return syscall(SYS_bpf, 0, nullptr, 0); }},
      {"remove a file", [=] { return unlink(path.c_str()); }},
      {"lift the sandbox", [] { return syscall(SYS_prctl, PR_SET_SECCOMP, 0, 0, 0, 0); }},
  };
}

TEST_CASE("sandbox: forbidden calls fail inside and succeed outside") {
  if (const auto why = obstacle()) {
    MESSAGE("SKIPPED: " << *why);
    return;
  }
  const TemporaryFile file("content");
  void* const page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(page != MAP_FAILED);
  const std::vector<Forbidden> actions = forbidden_actions(file.path(), page);
  for (const Forbidden& forbidden : actions) {
    CAPTURE(forbidden.name);
    const int inside = status_of_confined([&] { return outcome_of(forbidden); });
    CAPTURE(inside);
    CHECK(is_denied(inside));
    // The attempt must be a valid one: without the sandbox it must end differently.
    const int outside = status_of_child([&] { return outcome_of(forbidden); });
    CAPTURE(outside);
    const bool is_off_for_all = forbidden.name == kRing && outside == inside;
    if (is_off_for_all) MESSAGE("SKIPPED: this system lets nobody " << forbidden.name);
    CHECK((outside != inside || is_off_for_all));
    CHECK_FALSE(WIFSIGNALED(outside));
  }
  unlink((file.path() + ".new").c_str());
  munmap(page, 4096);
}

TEST_CASE("sandbox: without the filter Landlock alone stops files and ports, whatever the call") {
  if (const auto why = obstacle()) {
    MESSAGE("SKIPPED: " << *why);
    return;
  }
  const TemporaryFile file("content");
  void* const page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const std::vector<Forbidden> actions = forbidden_actions(file.path(), page);
  std::vector<size_t> expected = {0, 1, 2};
  if (landlock_version() >= 4) expected.push_back(3);
  if (landlock_version() >= 6) expected.push_back(9);
  for (const size_t i : expected) {
    CAPTURE(actions[i].name);
    const int status = status_of_child([&] {
      if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || deny_files_and_ports()) return kNotConfined;
      return outcome_of(actions[i]);
    });
    CHECK(is_denied(status));
  }
  munmap(page, 4096);
}

TEST_CASE("sandbox: open files can be mapped and parsed, threads run, memory is measured") {
  if (const auto why = obstacle()) {
    MESSAGE("SKIPPED: " << *why);
    return;
  }
  const TemporaryFile file(write_tiny_llama({}).bytes());
  const Result<ModelFiles> opened = ModelFiles::open(file.path());
  REQUIRE(opened.ok());
  REQUIRE(private_memory_bytes().ok());
  REQUIRE(available_memory_bytes());
  const int status = status_of_confined([&] {
    const Result<ModelFile> parsed = ModelFile::read(*opened);
    if (!parsed.ok()) return 10;
    int sum = 0;
    std::thread([&] { sum = static_cast<int>(parsed->tensors().size()); }).join();
    if (sum == 0) return 11;
    std::vector<char> large(64 << 20, 'x');  // malloc maps so much memory by itself, and unmaps it
    large.resize(128 << 20);
    const int event = eventfd(0, EFD_CLOEXEC);
    if (event < 0) return 12;
    if (!private_memory_bytes().ok()) return 13;
    if (!available_memory_bytes()) return 14;
    const int priority = getpriority(PRIO_PROCESS, 0);
    lower_priority();
    if (getpriority(PRIO_PROCESS, 0) != std::min(19, priority + 10)) return 15;
    if (!bind_thread(allowed_processors()).ok()) return 16;
    return 0;
  });
  CHECK(status == 0);
}

TEST_CASE("sandbox: a broken invariant inside still ends by SIGABRT, not as an intruder") {
  if (const auto why = obstacle()) {
    MESSAGE("SKIPPED: " << *why);
    return;
  }
  const int status = status_of_confined([]() -> int {
    std::signal(SIGABRT, SIG_DFL);
    std::abort();
  });
  REQUIRE(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGABRT);
}

TEST_CASE("sandbox: it says what holds, strict refuses what is not whole, off is off") {
  const auto said = [](SandboxMode mode, const std::string& expected) {
    return WEXITSTATUS(status_of_child([&] {
      const Result<std::string> sandbox = enter_sandbox(mode);
      if (!sandbox.ok()) return sandbox.error().exit_code == ExitCode::kUsage ? 2 : 3;
      return *sandbox == expected ? 0 : 1;
    }));
  };
  CHECK(said(SandboxMode::kOff, "off") == 0);
  if (const auto why = obstacle()) {
    CHECK(said(SandboxMode::kStrict, "") == 2);
    MESSAGE("SKIPPED: " << *why);
    return;
  }
  CHECK(said(SandboxMode::kAuto, "landlock+mdwe+seccomp") == 0);
  // A second sandbox is forbidden by the first, which looks like a kernel without these parts.
  const int status = status_of_confined([] {
    const Result<std::string> again = enter_sandbox(SandboxMode::kAuto);
    if (!again.ok() || !again->starts_with("none (no_new_privs: ")) return 1;
    const Result<std::string> strict = enter_sandbox(SandboxMode::kStrict);
    return !strict.ok() && strict.error().exit_code == ExitCode::kUsage ? 0 : 2;
  });
  CHECK(status == 0);
}

TEST_CASE("sandbox: modes have names") {
  for (const SandboxMode mode : {SandboxMode::kStrict, SandboxMode::kAuto, SandboxMode::kOff})
    CHECK(sandbox_mode_named(sandbox_mode_name(mode)) == mode);
  CHECK_FALSE(sandbox_mode_named("on"));
}

TEST_CASE(
    "sandbox: packed weights can be written and sealed inside, and no other file flags can be changed") {
  if (const auto why = obstacle()) {
    MESSAGE("SKIPPED: " << *why);
    return;
  }
  Result<MemoryFile> file = MemoryFile::create("runnel-test");
  REQUIRE(file.ok());
  const int status = status_of_confined([&] {
    if (!file->resize(4096).ok() || pwrite(file->descriptor(), "x", 1, 0) != 1) return kFailedOtherwise;
    if (!file->seal(Seals::kAll).ok()) return kFailedOtherwise;
    return fcntl(file->descriptor(), F_SETFL, O_APPEND) < 0 && errno == EPERM ? kDenied : kHappened;
  });
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == kDenied);
}

}  // namespace
}  // namespace runnel

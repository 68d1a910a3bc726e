// The list of system calls that a runner makes once its files are open. It was made from what strace shows of
// serve, with each entry the C library needs and why; a call that is missing here shows as EPERM where it is
// made.
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <vector>

#include "runner/sandbox/parts.h"

namespace runnel {
namespace {

#if defined(__x86_64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
constexpr uint32_t kArchitecture = 0;
#endif

constexpr long kAllowed[] = {
    // Frames, the recording, stderr; writev is how the C library says why it aborts.
    SYS_read, SYS_write, SYS_writev, SYS_close, SYS_ppoll,
#ifdef SYS_poll
    SYS_poll,
#endif
    SYS_eventfd2,
    SYS_pread64,  // /proc/self/status, which is open
    // Memory: the mapped model, weights, KV cache, heap, stacks of threads.
    SYS_munmap, SYS_mremap, SYS_madvise, SYS_brk,
    // Threads, from start to end, and what wakes them.
    SYS_futex, SYS_sched_yield, SYS_sched_getaffinity, SYS_set_robust_list, SYS_rseq, SYS_gettid, SYS_getpid,
    SYS_exit, SYS_exit_group,
    // Where the kernel's page for reading clocks cannot be used, they are calls.
    SYS_clock_gettime, SYS_clock_nanosleep,
    // Blocked while a thread starts; abort resets its handler; a stopped call goes on after a debugger let
    // go.
    SYS_rt_sigprocmask, SYS_rt_sigaction, SYS_rt_sigreturn, SYS_restart_syscall,
    SYS_getrandom,  // malloc, for its own secrets
};

// No honest code in a runner comes near these, so there is no use in going on.
constexpr long kFatal[] = {
    SYS_execve, SYS_execveat,
#ifdef SYS_fork
    SYS_fork,   SYS_vfork,
#endif
    SYS_kill,   SYS_tkill,    SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev, SYS_bpf,
    SYS_mount,  SYS_unshare,  SYS_setns,  SYS_init_module,      SYS_finit_module,
};

constexpr uint32_t kAllow = SECCOMP_RET_ALLOW;
constexpr uint32_t kKill = SECCOMP_RET_KILL_PROCESS;
constexpr uint32_t refuse_with(uint32_t error) {
  return SECCOMP_RET_ERRNO | error;
}

// The low half of an argument, where flags and process ids are.
constexpr uint32_t argument_offset(uint32_t index) {
  static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);
  return static_cast<uint32_t>(offsetof(seccomp_data, args) + index * sizeof(uint64_t));
}

class Filter {
 public:
  void load(uint32_t offset) { code_.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset)); }
  void answer(uint32_t action) { code_.push_back(BPF_STMT(BPF_RET | BPF_K, action)); }
  // What was loaded decides whether the next `count` instructions are run or skipped.
  void if_equal_skip(uint32_t value, uint8_t count) {
    code_.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, count, 0));
  }
  void unless_equal_skip(uint32_t value, uint8_t count) {
    code_.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, count));
  }
  void unless_bit_skip(uint32_t bits, uint8_t count) {
    code_.push_back(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, 0, count));
  }

  // For the system call whose number is loaded; every answer ends the filter.
  void on(long call, uint32_t action) {
    unless_equal_skip(static_cast<uint32_t>(call), 1);
    answer(action);
  }
  void on_flag(long call, uint32_t argument, uint32_t flag, uint32_t if_set, uint32_t if_not) {
    unless_equal_skip(static_cast<uint32_t>(call), 4);
    load(argument_offset(argument));
    unless_bit_skip(flag, 1);
    answer(if_set);
    answer(if_not);
  }
  void on_value(long call, uint32_t argument, uint32_t value, uint32_t if_equal, uint32_t if_not) {
    unless_equal_skip(static_cast<uint32_t>(call), 4);
    load(argument_offset(argument));
    unless_equal_skip(value, 1);
    answer(if_equal);
    answer(if_not);
  }

  sock_fprog program() { return {static_cast<unsigned short>(code_.size()), code_.data()}; }

 private:
  std::vector<sock_filter> code_;
};

Filter make_filter() {
  Filter filter;
  // The numbers below are of one architecture. On x86-64 a 32-bit caller shows as another one; the calls with
  // 32-bit pointers have numbers of their own, which are on no list.
  filter.load(offsetof(seccomp_data, arch));
  filter.if_equal_skip(kArchitecture, 1);
  filter.answer(kKill);
  filter.load(offsetof(seccomp_data, nr));
  for (const long call : kAllowed) filter.on(call, kAllow);
  for (const long call : kFatal) filter.on(call, kKill);
  filter.on_flag(SYS_mmap, 2, PROT_EXEC, kKill, kAllow);
  filter.on_flag(SYS_mprotect, 2, PROT_EXEC, kKill, kAllow);
  filter.on_flag(SYS_clone, 0, CLONE_THREAD, kAllow, kKill);
  // Its flags are behind a pointer, where a filter cannot look. Without it the C library starts threads by
  // clone.
  filter.on(SYS_clone3, refuse_with(ENOSYS));
  // abort() and raise(); the threads of no other process.
  filter.on_value(SYS_tgkill, 0, static_cast<uint32_t>(getpid()), kAllow, kKill);
  filter.answer(refuse_with(EPERM));
  return filter;
}

}  // namespace

SandboxObstacle deny_system_calls() {
  if (kArchitecture == 0) return "its list is not made for this processor";
  Filter filter = make_filter();
  const sock_fprog program = filter.program();
  // All threads at once, in case a library has started one; a thread that cannot follow is an id above 0.
  const long result = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
  if (result < 0) return std::string(std::strerror(errno));
  if (result > 0) return "thread " + std::to_string(result) + " cannot follow";
  return {};
}

}  // namespace runnel

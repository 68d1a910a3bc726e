// The system calls that a runner makes once its files are open. The list was made from strace of serve, and
// from the calls that the C library needs, with the reasons. A call that is missing here fails with EPERM.
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>
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
    // Frames, the recording, stderr. The C library uses writev to say why it aborts.
    SYS_read, SYS_write, SYS_writev, SYS_close, SYS_ppoll,
#ifdef SYS_poll
    SYS_poll,
#endif
    SYS_eventfd2,
    SYS_pread64,                  // /proc/self/status, which is open
    SYS_ftruncate, SYS_pwrite64,  // the file in memory that the weights are packed into
    // Memory: the mapped model, weights, KV cache, heap, stacks of threads.
    SYS_munmap, SYS_mremap, SYS_madvise, SYS_brk,
    // Threads, from start to end, and waking them.
    SYS_futex, SYS_sched_yield, SYS_sched_getaffinity, SYS_set_robust_list, SYS_rseq, SYS_gettid, SYS_getpid,
    SYS_exit, SYS_exit_group,
    SYS_wait4,  // of a leader for the ranks that it has started (runner/ranks); nobody else is its child
    // System calls for clocks, where the kernel's page for reading clocks cannot be used.
    SYS_clock_gettime, SYS_clock_nanosleep,
    // Signals are blocked while a thread starts; abort resets its handler; a call that a debugger stopped is
    // restarted.
    SYS_rt_sigprocmask, SYS_rt_sigaction, SYS_rt_sigreturn, SYS_restart_syscall,
    SYS_getrandom,  // malloc, for its own secrets
};

// Correct code in a runner never makes these calls, so the process must not continue.
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

// The low half of an argument, which has flags and process ids.
constexpr uint32_t argument_offset(uint32_t index) {
  static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);
  return static_cast<uint32_t>(offsetof(seccomp_data, args) + index * sizeof(uint64_t));
}

class Filter {
 public:
  void load(uint32_t offset) { code_.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset)); }
  void answer(uint32_t action) { code_.push_back(BPF_STMT(BPF_RET | BPF_K, action)); }
  // Each of these skips the next `count` instructions, depending on the loaded value.
  void if_equal_skip(uint32_t value, uint8_t count) {
    code_.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, count, 0));
  }
  void unless_equal_skip(uint32_t value, uint8_t count) {
    code_.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, count));
  }
  void unless_bit_skip(uint32_t bits, uint8_t count) {
    code_.push_back(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, 0, count));
  }

  // These expect that the number of the system call is loaded. Every answer ends the filter.
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

  // Compares the arguments 0 and 1.
  void on_values(long call, uint32_t first, uint32_t second, uint32_t if_equal, uint32_t if_not) {
    unless_equal_skip(static_cast<uint32_t>(call), 6);
    load(argument_offset(0));
    unless_equal_skip(first, 3);
    load(argument_offset(1));
    unless_equal_skip(second, 1);
    answer(if_equal);
    answer(if_not);
  }

  std::vector<sock_filter> take() { return std::move(code_); }

 private:
  std::vector<sock_filter> code_;
};

}  // namespace

std::vector<sock_filter> system_call_filter() {
  Filter filter;
  // The numbers above are of one architecture. On x86-64, a 32-bit caller has another architecture here.
  // Calls with 32-bit pointers have other numbers, which are on no list.
  filter.load(offsetof(seccomp_data, arch));
  filter.if_equal_skip(kArchitecture, 1);
  filter.answer(kKill);
  filter.load(offsetof(seccomp_data, nr));
  for (const long call : kAllowed) filter.on(call, kAllow);
  for (const long call : kFatal) filter.on(call, kKill);
  filter.on_flag(SYS_mmap, 2, PROT_EXEC, kKill, kAllow);
  filter.on_flag(SYS_mprotect, 2, PROT_EXEC, kKill, kAllow);
  filter.on_flag(SYS_clone, 0, CLONE_THREAD, kAllow, kKill);
  // The file in memory is sealed when the weights are packed.
  filter.on_value(SYS_fcntl, 1, F_ADD_SEALS, kAllow, refuse_with(EPERM));
  // The flags of clone3 are behind a pointer, which a filter cannot read. Without clone3 the C library starts
  // threads by clone.
  filter.on(SYS_clone3, refuse_with(ENOSYS));
  // The priority of the calling thread, which is number 0, and the processors that it is bound to with its
  // NUMA node.
  filter.on_values(SYS_getpriority, PRIO_PROCESS, 0, kAllow, refuse_with(EPERM));
  filter.on_values(SYS_setpriority, PRIO_PROCESS, 0, kAllow, refuse_with(EPERM));
  filter.on_value(SYS_sched_setaffinity, 0, 0, kAllow, refuse_with(EPERM));
  // abort() and raise(), but no threads of other processes.
  filter.on_value(SYS_tgkill, 0, static_cast<uint32_t>(getpid()), kAllow, kKill);
  filter.answer(refuse_with(EPERM));
  return filter.take();
}

SandboxObstacle deny_system_calls() {
  if (kArchitecture == 0) return "its list is not made for this processor";
  std::vector<sock_filter> filter = system_call_filter();
  const sock_fprog program = {static_cast<unsigned short>(filter.size()), filter.data()};
  // Applies to all threads, in case a library has started one. A result above 0 is the id of a thread that
  // cannot follow.
  const long result = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
  if (result < 0) return std::string(std::strerror(errno));
  if (result > 0) return "thread " + std::to_string(result) + " cannot follow";
  return {};
}

}  // namespace runnel

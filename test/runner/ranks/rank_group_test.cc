#include "runner/ranks/rank_group.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <functional>
#include <vector>

#include "runner/sandbox/sandbox.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

constexpr uint32_t kPatienceSeconds = 60;

// Runs fn in a process of its own, and returns how it has ended: by SIGALRM if it hangs.
int end_of(const std::function<void()>& fn) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(kPatienceSeconds);
    fn();
    _exit(0);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  return status;
}

std::unique_ptr<RankGroup> group_of(uint32_t num_ranks) {
  Result<std::unique_ptr<RankGroup>> group = RankGroup::start(num_ranks);
  if (!group.ok()) FAIL(group.error().message);
  return *std::move(group);
}

// What a rank that does not lead does, to its end. One that ends before the leader counts as dead.
void unless_leading(const RankGroup& group, const std::function<void()>& fn) {
  if (group.leads()) return;
  fn();
  _exit(0);
}

}  // namespace

TEST_CASE("rank group: what the leader tells is heard once by each, in order, and its end too") {
  const int status = end_of([] {
    const std::unique_ptr<RankGroup> group = group_of(3);
    unless_leading(*group, [&] {
      for (uint32_t i = 0; i < 1000; ++i) {
        const auto heard = group->hear();
        if (!heard || *heard != std::vector<uint32_t>(i % 7, i)) _exit(1);
      }
      if (group->hear()) _exit(2);
    });
    for (uint32_t i = 0; i < 1000; ++i) group->tell(std::vector<uint32_t>(i % 7, i));
  });
  CHECK(status == 0);
}

TEST_CASE("rank group: each sees what the others have written to the board before the same meeting") {
  constexpr uint32_t kRanks = 3;
  const int status = end_of([] {
    const std::unique_ptr<RankGroup> group = group_of(kRanks);
    for (uint32_t meeting = 0; meeting < 5000; ++meeting) {
      float* const board = group->board();
      board[group->rank()] = static_cast<float>(meeting * kRanks + group->rank());
      group->meet(1);
      for (uint32_t rank = 0; rank < kRanks; ++rank)
        if (board[rank] != static_cast<float>(meeting * kRanks + rank)) _exit(1);
    }
    if (group->num_given() != 5000) _exit(2);
    unless_leading(*group, [&] { (void)group->hear(); });
  });
  CHECK(status == 0);
}

TEST_CASE("rank group: the leader gets the first error of any rank") {
  const int status = end_of([] {
    const std::unique_ptr<RankGroup> group = group_of(3);
    unless_leading(*group, [&] {
      const Result<void> outcome =
          Error{ExitCode::kSystem, "Rank " + std::to_string(group->rank()) + " has no room."};
      const Result<void> agreed = group->agree(group->rank() == 2 ? outcome : Result<void>());
      if (agreed.ok() == (group->rank() == 2)) _exit(1);
      while (group->hear()) {
      }
    });
    const Result<void> agreed = group->agree({});
    if (agreed.ok() || agreed.error().message != "Rank 2 has no room." ||
        agreed.error().exit_code != ExitCode::kSystem)
      _exit(2);
  });
  CHECK(status == 0);
}

TEST_CASE("rank group: the leader dies as one of the others dies") {
  for (const int signal : {SIGKILL, SIGSEGV, SIGABRT}) {
    CAPTURE(signal);
    const int status = end_of([&] {
      const std::unique_ptr<RankGroup> group = group_of(3);
      unless_leading(*group, [&] {
        if (group->rank() == 2) {
          std::signal(signal, SIG_DFL);
          raise(signal);
        }
        (void)group->hear();
      });
      group->meet(0);  // which the dead rank never reaches
    });
    CHECK(WIFSIGNALED(status));
    CHECK(WTERMSIG(status) == signal);
  }
  const int status = end_of([] {
    const std::unique_ptr<RankGroup> group = group_of(2);
    unless_leading(*group, [] { _exit(71); });
    group->meet(0);
  });
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 71);
}

TEST_CASE("rank group: the others die with the leader, in the sandbox too") {
  int pipe_of_followers[2];
  REQUIRE(pipe(pipe_of_followers) == 0);
  const int status = end_of([&] {
    const std::unique_ptr<RankGroup> group = group_of(3);
    // In it no process can send a signal to another one, not even by its death.
    CHECK(enter_sandbox(SandboxMode::kAuto).ok());
    unless_leading(*group, [&] { group->meet(0); });
    raise(SIGKILL);
  });
  CHECK(WIFSIGNALED(status));
  close(pipe_of_followers[1]);
  // Hangs up when the last process that has the other end is gone.
  constexpr int kPatienceMs = 20'000;
  pollfd end = {pipe_of_followers[0], 0, 0};
  CHECK(poll(&end, 1, kPatienceMs) == 1);
  close(pipe_of_followers[0]);
}

TEST_CASE(
    "rank group: a leader that ends early ends those that wait for it in a meeting, and leaves no zombie") {
  for (const bool is_confined : {false, true}) {
    CAPTURE(is_confined);
    const int status = end_of([&] {
      std::unique_ptr<RankGroup> group = group_of(3);
      if (is_confined) CHECK(enter_sandbox(SandboxMode::kAuto).ok());
      unless_leading(*group, [&] { (void)group->agree({}); });
      group.reset();
      if (waitpid(-1, nullptr, WNOHANG) != -1 || errno != ECHILD) _exit(1);
    });
    CHECK(status == 0);
  }
}

TEST_CASE("rank group: what the system refuses ends the ranks that were started, and leaves no pipe") {
  constexpr int kMaxDescriptors = 256;
  const auto open_descriptors = [] {
    std::vector<int> open;
    for (int descriptor = 0; descriptor < kMaxDescriptors; ++descriptor)
      if (fcntl(descriptor, F_GETFD) >= 0) open.push_back(descriptor);
    return open;
  };
  const auto start_in_vain = [&](int resource, rlim_t most) {
    const std::vector<int> before = open_descriptors();
    const rlimit limit = {most, most};
    if (setrlimit(resource, &limit) != 0) _exit(1);
    const auto group = RankGroup::start(kMaxRanks);
    if (group.ok() && !(*group)->leads()) {
      (void)(*group)->agree({});
      _exit(0);
    }
    if (group.ok() || group.error().exit_code != ExitCode::kSystem) _exit(2);
    if (waitpid(-1, nullptr, WNOHANG) != -1 || errno != ECHILD) _exit(3);
    if (open_descriptors() != before) _exit(4);
  };
  // The memory between the ranks takes two descriptors, and each rank a pipe, of which the leader keeps one
  // end: here the second rank gets none.
  const int first_free = dup(STDERR_FILENO);
  close(first_free);
  CHECK(end_of([&] { start_in_vain(RLIMIT_NOFILE, static_cast<rlim_t>(first_free) + 4); }) == 0);
  // Root may start any number of processes.
  constexpr uid_t kNobody = 65534;
  CHECK(end_of([&] {
          if (geteuid() == 0 && (setuid(kNobody) != 0 || prctl(PR_SET_DUMPABLE, 1) != 0)) _exit(5);
          start_in_vain(RLIMIT_NPROC, 1);
        }) == 0);
}

TEST_CASE("rank group: what a rank that does not lead writes to the leader's pipe reaches nobody") {
  int pipe_of_leader[2];
  REQUIRE(pipe(pipe_of_leader) == 0);
  const int status = end_of([&] {
    Result<std::unique_ptr<RankGroup>> group = RankGroup::start(2, pipe_of_leader[1]);
    if (!group.ok()) _exit(1);
    unless_leading(**group, [&] {
      if (write(pipe_of_leader[1], "x", 1) != 1) _exit(2);
      (void)(*group)->agree({});
      (void)(*group)->hear();
    });
    if (!(*group)->agree({}).ok()) _exit(3);
  });
  CHECK(status == 0);
  close(pipe_of_leader[1]);
  char byte;
  CHECK(read(pipe_of_leader[0], &byte, 1) == 0);
  close(pipe_of_leader[0]);
}

TEST_CASE("rank group: shares of a number follow each other and differ by one at most") {
  constexpr RowRange kShares[] = {{0, 3}, {3, 3}, {6, 2}};
  for (uint32_t rank = 0; rank < 3; ++rank) CHECK(RankGroup::share_of(8, 3, rank) == kShares[rank]);
}

}  // namespace runnel

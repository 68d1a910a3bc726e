#include "runner/ranks/rank_group.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <new>
#include <string>
#include <string_view>

#include "runner/check.h"
#include "runner/system/memory_file.h"
#include "runner/system/shared_word.h"

namespace runnel {
namespace {

constexpr uint64_t kBoardBytes = RankGroup::kMaxBoardFloats * sizeof(float);
constexpr uint64_t kToldBytes = RankGroup::kMaxToldWords * sizeof(uint32_t);
constexpr uint64_t kSharedBytes = Memory::kHugePageBytes;
constexpr size_t kMaxMessageBytes = 1024;

// For the handler of SIGCHLD, which must do with what is ready: the processes whose death is the leader's. 0:
// none.
std::array<std::atomic<pid_t>, kMaxRanks> watched{};

void note(std::string_view text) {
  (void)!write(STDERR_FILENO, text.data(), text.size());
}

// Ends this process as a follower has ended, so that whoever started the group sees one death, of that cause.
void die_alike(int, siginfo_t* info, void*) {
  const bool is_ours = std::ranges::any_of(watched, [&](const auto& pid) { return pid == info->si_pid; });
  if (!is_ours || info->si_pid == 0) return;
  note("Another rank of this model's group has ended, so this process ends too.\n");
  if (info->si_code == CLD_EXITED) {
    _exit(info->si_status == 0 ? static_cast<int>(ExitCode::kInternal) : info->si_status);
  }
  std::signal(info->si_status, SIG_DFL);
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, info->si_status);
  sigprocmask(SIG_UNBLOCK, &signals, nullptr);
  raise(info->si_status);
  _exit(static_cast<int>(ExitCode::kInternal));
}

// Holds back what would come of a death before the process is known by its number.
class SignalsOfDeaths {
 public:
  SignalsOfDeaths() {
    sigset_t held;
    sigemptyset(&held);
    sigaddset(&held, SIGCHLD);
    sigprocmask(SIG_BLOCK, &held, &before_);
  }
  ~SignalsOfDeaths() { sigprocmask(SIG_SETMASK, &before_, nullptr); }
  SignalsOfDeaths(const SignalsOfDeaths&) = delete;
  SignalsOfDeaths& operator=(const SignalsOfDeaths&) = delete;

 private:
  sigset_t before_;
};

void watch_deaths() {
  struct sigaction action {};
  action.sa_sigaction = die_alike;
  action.sa_flags = SA_SIGINFO | SA_RESTART | SA_NOCLDSTOP;
  sigaction(SIGCHLD, &action, nullptr);
}

// Has the kernel kill this process when the leader, which alone can write to the pipe, has ended. A signal at
// the death of the parent (PR_SET_PDEATHSIG) counts as sent by it, which Landlock denies to the leader.
void end_with_leader(int pipe) {
  const bool is_watched = fcntl(pipe, F_SETOWN, getpid()) == 0 && fcntl(pipe, F_SETSIG, SIGKILL) == 0 &&
                          fcntl(pipe, F_SETFL, O_ASYNC) == 0;
  pollfd now = {pipe, 0, 0};
  if (!is_watched || poll(&now, 1, 0) != 0) _exit(static_cast<int>(ExitCode::kInternal));
}

// A follower has none of the leader's pipes, which must close when the leader dies, and does not outlive it.
void become_follower(int leaders_pipe) {
  std::signal(SIGCHLD, SIG_DFL);
  const int nothing = open("/dev/null", O_RDWR);
  dup2(nothing, STDIN_FILENO);
  dup2(nothing, STDOUT_FILENO);
  if (leaders_pipe >= 0) dup2(nothing, leaders_pipe);
  close(nothing);
}

}  // namespace

struct RankGroup::Shared {
  SharedWord told;
  SharedWord heard;
  SharedWord met;
  bool is_over;
  uint64_t num_words;
  // The first error of a step.
  std::atomic<uint32_t> num_errors;
  ExitCode exit_code;
  char message[kMaxMessageBytes];
};

Result<std::unique_ptr<RankGroup>> RankGroup::start(uint32_t num_ranks, int leaders_pipe) {
  static_assert(sizeof(Shared) <= kSharedBytes);
  CHECK(num_ranks > 1 && num_ranks <= kMaxRanks);
  Result<MemoryFile> file = MemoryFile::create("runnel-ranks");
  if (!file) return file.error();
  const uint64_t bytes = kSharedBytes + kToldBytes + 2 * kBoardBytes;
  if (const auto resized = file->resize(bytes); !resized) return resized.error();
  Result<Memory> memory = Memory::map(*file, 0, bytes, Access::kWrite, "what ranks share");
  if (!memory) return memory.error();
  std::unique_ptr<RankGroup> group(new RankGroup());
  group->memory_ = *std::move(memory);
  group->shared_ = new (group->memory_.data()) Shared{};
  group->num_ranks_ = num_ranks;

  watch_deaths();
  const SignalsOfDeaths held;
  for (uint32_t rank = 1; rank < num_ranks; ++rank) {
    int pipe[2] = {-1, -1};
    const pid_t pid = pipe2(pipe, O_CLOEXEC) == 0 ? fork() : -1;
    if (pid < 0) {
      const std::string reason = std::strerror(errno);
      for (const int end : pipe)
        if (end >= 0) close(end);
      return Error{ExitCode::kSystem, "The system refuses a process for rank " + std::to_string(rank) +
                                          " of " + std::to_string(num_ranks) + ": " + reason + "."};
    }
    if (pid == 0) {
      close(pipe[1]);
      for (const int other : group->lifelines_) close(other);
      end_with_leader(pipe[0]);
      become_follower(leaders_pipe);
      group->rank_ = rank;
      group->followers_.clear();
      group->lifelines_.clear();
      return group;
    }
    close(pipe[0]);
    group->lifelines_.push_back(pipe[1]);
    watched[rank] = pid;
    group->followers_.push_back(pid);
  }
  return group;
}

RankGroup::~RankGroup() {
  for (auto& pid : watched) pid = 0;
  if (!leads() || shared_ == nullptr) return;
  shared_->is_over = true;
  shared_->told.add(1);
  // Some may wait in a meeting to which nobody comes, so none is asked to end.
  for (const int pipe : lifelines_) close(pipe);
  for (const int pid : followers_) (void)waitpid(pid, nullptr, 0);
}

RowRange RankGroup::share_of(uint32_t count, uint32_t num_ranks, uint32_t rank) {
  const uint32_t rest = count % num_ranks;
  return {rank * (count / num_ranks) + std::min(rank, rest), count / num_ranks + (rank < rest ? 1 : 0)};
}

uint32_t* RankGroup::told_words() {
  return reinterpret_cast<uint32_t*>(memory_.data() + kSharedBytes);
}

void RankGroup::tell(std::span<const uint32_t> words) {
  CHECK(leads() && words.size() <= kMaxToldWords);
  shared_->heard.wait_for(num_told_ * (num_ranks_ - 1));
  std::ranges::copy(words, told_words());
  shared_->num_words = words.size();
  ++num_told_;
  shared_->told.add(1);
}

std::optional<std::vector<uint32_t>> RankGroup::hear() {
  shared_->told.wait_for(++num_told_);
  if (shared_->is_over) return std::nullopt;
  std::vector<uint32_t> words(told_words(), told_words() + shared_->num_words);
  shared_->heard.add(1);
  return words;
}

Result<void> RankGroup::agree(const Result<void>& outcome) {
  if (!outcome && shared_->num_errors.fetch_add(1) == 0) {
    const std::string& message = outcome.error().message;
    const size_t length = std::min(message.size(), kMaxMessageBytes - 1);
    std::memcpy(shared_->message, message.data(), length);
    shared_->exit_code = outcome.error().exit_code;
  }
  meet(0);
  if (!outcome || !leads() || shared_->num_errors == 0) return outcome;
  return Error{shared_->exit_code, shared_->message};
}

float* RankGroup::board() {
  return reinterpret_cast<float*>(memory_.data() + kSharedBytes + kToldBytes) +
         (num_meetings_ % 2) * kMaxBoardFloats;
}

void RankGroup::meet(uint64_t num_given) {
  num_given_ += num_given;
  ++num_meetings_;
  shared_->met.add(1);
  shared_->met.wait_for(num_meetings_ * num_ranks_);
}

}  // namespace runnel

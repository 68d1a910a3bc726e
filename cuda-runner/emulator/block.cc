#include "cuda-runner/emulator/block.h"

#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <vector>

#include "cuda-runner/emulator/arrivals.h"
#include "cuda-runner/emulator/async_copies.h"
#include "cuda-runner/emulator/counters.h"
#include "cuda-runner/emulator/fault.h"
#include "cuda-runner/emulator/fiber.h"
#include "cuda-runner/emulator/settings.h"
#include "runner/check.h"

uint3 threadIdx;
uint3 blockIdx;
dim3 blockDim;
dim3 gridDim;

namespace runnel::emulator {

Moment now;

namespace {

// Code instrumented by AddressSanitizer has far larger stack frames.
#if defined(__SANITIZE_ADDRESS__)
constexpr size_t kStackBytes = size_t{256} << 10;
#else
constexpr size_t kStackBytes = size_t{64} << 10;
#endif
constexpr size_t kGuardBytes = 4096;
// The tops of the stacks are shifted against each other; otherwise they would all fall on the same lines of
// the processor's cache.
constexpr size_t kNumColours = 32;
constexpr size_t kColourBytes = 128;

enum class State : uint8_t { kFresh, kReady, kWaits, kEnded };

// The word of kernels in which a thread waits, and its place. word is nullptr if the thread does not wait.
struct Wait {
  const char* word = nullptr;
  Place place;
};

struct Thread {
  Fiber fiber;
  uint3 index;
  State state;
  Wait wait;
  bool is_previous_complete;  // as in Moment
};

struct Warp {
  uint32_t members;  // one bit for each lane
  uint32_t ready;
  uint32_t arrived;
  uint32_t sync;
  uint32_t num_exchanges;
  Wait first;  // of the first lane that arrived
  // There are two, because the next exchange may begin before the last lane has read the results of this one.
  std::array<Brought, kLanes> brought[2];
};

bool is_same(const Place& a, const Place& b) {
  return a.line() == b.line() && a.column() == b.column() &&
         (a.file_name() == b.file_name() || std::strcmp(a.file_name(), b.file_name()) == 0);
}

bool is_same(const Wait& a, const Wait& b) {
  return (a.word == b.word || std::strcmp(a.word, b.word) == 0) && is_same(a.place, b.place);
}

std::string name_of_wait(const Wait& wait) {
  return std::string(wait.word) + "() at " + emulator::name_of(wait.place);
}

// The processor time of the host's thread that runs the kernels, so that other load on the machine does not
// count.
uint64_t processor_ms() {
  timespec time;
  CHECK(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time) == 0);
  return static_cast<uint64_t>(time.tv_sec) * 1000 + static_cast<uint64_t>(time.tv_nsec) / 1'000'000;
}
constexpr uint32_t kStepsBetweenClocks = 1u << 14;

class Block {
 public:
  bool run(const Launch& launch, const uint3& index, uint64_t seed);
  [[noreturn]] void abandon();
  const std::string& kernel() const { return launch_->kernel; }

  void wait_for_previous() { now.is_previous_complete = running_->is_previous_complete = true; }
  void wait_for_block(const Wait& wait);
  void wait_for_warp(const Wait& wait);
  std::span<const Brought, kLanes> exchange(const void* bytes, size_t num_bytes, const Wait& wait);
  void look_at_clock(const Place& place);

 private:
  static void run_thread();
  // Switches from the running thread, which cannot go on, to one that can.
  void leave();
  Thread* next_ready();
  void enter(Thread& thread, Fiber& from, bool from_ends);
  void arrive(Wait& first, const Wait& wait, bool is_first);
  // Returns when all threads of the warp have arrived. The last one to arrive does not wait, and calls done
  // first.
  template <typename Done>
  void meet_warp(const Wait& wait, const Done& done);
  void wait(const Wait& wait);
  bool waits(const Thread& thread) const;
  std::string describe_threads() const;

  Warp& warp() { return warps_[now.warp]; }
  uint32_t number_of(const Thread& thread) const { return static_cast<uint32_t>(&thread - threads_.data()); }

  const Launch* launch_ = nullptr;
  std::vector<Thread> threads_;  // as many as the largest block had; the first num_threads_ are in use
  std::array<Warp, kMaxThreads / kLanes> warps_;
  uint32_t num_threads_ = 0;
  uint32_t num_warps_ = 0;
  uint32_t num_ended_ = 0;
  uint32_t num_arrived_ = 0;
  Wait first_;
  Thread* running_ = nullptr;
  Fiber outside_;
  bool is_abandoned_ = false;
  uint64_t began_at_ms_ = 0;
};

Block the_block;

Fiber new_fiber(uint32_t number) {
  void* memory = mmap(nullptr, kGuardBytes + kStackBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  CHECK(memory != MAP_FAILED);
  CHECK(mprotect(memory, kGuardBytes, PROT_NONE) == 0);
  return Fiber(static_cast<char*>(memory) + kGuardBytes, kStackBytes - number % kNumColours * kColourBytes);
}

bool Block::run(const Launch& launch, const uint3& index, uint64_t seed) {
  const dim3 size = launch.block;
  launch_ = &launch;
  num_threads_ = size.x * size.y * size.z;
  num_warps_ = (num_threads_ + kLanes - 1) / kLanes;
  num_ended_ = 0;
  num_arrived_ = 0;
  is_abandoned_ = false;
  while (threads_.size() < num_threads_)
    threads_.push_back({new_fiber(static_cast<uint32_t>(threads_.size())), {}, State::kEnded, {}, true});

  blockIdx = index;
  blockDim = size;
  gridDim = launch.grid;
  now.first_epoch = ++now.epoch;
  now.until_clock = kStepsBetweenClocks;
  began_at_ms_ = processor_ms();
  for (uint32_t warp = 0; warp < num_warps_; ++warp) {
    const uint32_t count = std::min(kLanes, num_threads_ - warp * kLanes);
    const uint32_t members = count == kLanes ? ~0u : (1u << count) - 1;
    Warp& w = warps_[warp];
    w.members = w.ready = members;
    w.arrived = w.sync = w.num_exchanges = 0;
  }
  for (uint32_t thread = 0; thread < num_threads_; ++thread) {
    Thread& t = threads_[thread];
    t.index = {thread % size.x, thread / size.x % size.y, thread / (size.x * size.y)};
    t.state = State::kFresh;
    t.wait.word = nullptr;
    t.is_previous_complete = !launch.begins_early;
  }
  forget_copies();
  forget_seen();
  enter(threads_[seed % num_threads_], outside_, false);
  running_ = nullptr;
  if (counters != nullptr) counters->end_block(launch.kernel);
  return !is_abandoned_;
}

void Block::run_thread() {
  the_block.launch_->thread();
  Thread& thread = *the_block.running_;
  if (!thread.is_previous_complete)
    fault_of_thread(cudaErrorLaunchFailure,
                    "ends without wait_for_previous(), so the launches before it may end later");
  thread.state = State::kEnded;
  the_block.warp().ready &= ~(1u << now.thread % kLanes);
  ++the_block.num_ended_;
  the_block.leave();
  CHECK(false);
}

void Block::enter(Thread& thread, Fiber& from, bool from_ends) {
  running_ = &thread;
  const uint32_t number = number_of(thread);
  now.thread = static_cast<uint16_t>(number);
  now.warp = static_cast<uint16_t>(number / kLanes);
  now.sync = warp().sync;
  now.is_previous_complete = thread.is_previous_complete;
  threadIdx = thread.index;
  if (thread.state == State::kFresh) thread.fiber.prepare(&Block::run_thread);
  thread.state = State::kReady;
  Fiber::switch_to(from, thread.fiber, from_ends);
}

// The next ready lane of the same warp, or the first ready lane of the next warp that has one. nullptr if no
// thread is ready.
Thread* Block::next_ready() {
  const uint32_t lane = now.thread % kLanes;
  const uint32_t ready = warp().ready;
  const uint32_t above = lane == kLanes - 1 ? 0 : ready & (~0u << (lane + 1));
  const uint32_t chosen = above != 0 ? above : ready;
  if (chosen != 0) return &threads_[now.warp * kLanes + static_cast<uint32_t>(std::countr_zero(chosen))];
  for (uint32_t step = 1; step < num_warps_; ++step) {
    const uint32_t other = (now.warp + step) % num_warps_;
    if (warps_[other].ready != 0)
      return &threads_[other * kLanes + static_cast<uint32_t>(std::countr_zero(warps_[other].ready))];
  }
  return nullptr;
}

void Block::leave() {
  Thread& thread = *running_;
  const bool ends = thread.state == State::kEnded;
  Thread* const next = next_ready();
  if (next != nullptr) {
    enter(*next, thread.fiber, ends);
  } else if (num_ended_ == num_threads_) {
    Fiber::switch_to(thread.fiber, outside_, ends);
  } else {
    report_fault_of_block(cudaErrorLaunchFailure, describe_threads() + ", and nobody can go on");
    abandon();
  }
}

void Block::abandon() {
  CHECK(running_ != nullptr);  // fails if the host calls a word of kernels
  is_abandoned_ = true;
  Fiber::switch_to(running_->fiber, outside_, true);
  CHECK(false);
}

void Block::arrive(Wait& first, const Wait& wait, bool is_first) {
  if (is_first) {
    first = wait;
  } else if (!is_same(first, wait)) {
    report_fault_of_block(cudaErrorLaunchFailure, "some threads wait in " + name_of_wait(first) +
                                                      ", others in " + name_of_wait(wait) +
                                                      "; all must come to the same one");
    abandon();
  }
}

void Block::wait(const Wait& wait) {
  running_->state = State::kWaits;
  running_->wait = wait;
  warp().ready &= ~(1u << now.thread % kLanes);
  leave();
  running_->wait.word = nullptr;
}

void Block::wait_for_block(const Wait& wait) {
  arrive(first_, wait, num_arrived_ == 0);
  if (++num_arrived_ < num_threads_) {
    this->wait(wait);
    return;
  }
  num_arrived_ = 0;
  ++now.epoch;
  for (uint32_t warp = 0; warp < num_warps_; ++warp) warps_[warp].ready = warps_[warp].members;
}

template <typename Done>
void Block::meet_warp(const Wait& wait, const Done& done) {
  Warp& w = warp();
  arrive(w.first, wait, w.arrived == 0);
  w.arrived |= 1u << now.thread % kLanes;
  if (w.arrived != w.members) {
    this->wait(wait);
    return;
  }
  w.arrived = 0;
  w.ready = w.members;
  done(w);
}

void Block::wait_for_warp(const Wait& wait) {
  meet_warp(wait, [](Warp& met) { now.sync = ++met.sync; });
}

std::span<const Brought, kLanes> Block::exchange(const void* bytes, size_t num_bytes, const Wait& wait) {
  Warp& w = warp();
  if (w.members != ~0u)
    fault(cudaErrorLaunchFailure, wait.place, "calls %s() in a warp of %d threads; it needs all 32",
          wait.word, std::popcount(w.members));
  auto& brought = w.brought[w.num_exchanges % 2];
  std::memcpy(brought[now.thread % kLanes].bytes, bytes, num_bytes);
  meet_warp(wait, [](Warp& met) { ++met.num_exchanges; });
  return brought;
}

// Whether the thread still waits. A thread whose barrier is complete is ready, although its state is kWaits
// until it runs again.
bool Block::waits(const Thread& thread) const {
  const uint32_t number = number_of(thread);
  return thread.state == State::kWaits && (warps_[number / kLanes].ready >> number % kLanes & 1) == 0;
}

// Threads that wait in the same place are described together.
std::string Block::describe_threads() const {
  std::string description;
  std::vector<bool> is_told(num_threads_);
  for (uint32_t thread = 0; thread < num_threads_; ++thread) {
    if (is_told[thread] || !waits(threads_[thread])) continue;
    const Wait& wait = threads_[thread].wait;
    uint32_t count = 0;
    for (uint32_t other = thread; other < num_threads_; ++other) {
      if (!waits(threads_[other]) || !is_same(wait, threads_[other].wait)) continue;
      is_told[other] = true;
      ++count;
    }
    description += std::to_string(count) + (count == 1 ? " thread waits in " : " threads wait in ") +
                   name_of_wait(wait) + ", the first of them thread " + std::to_string(thread) + "; ";
  }
  return description + std::to_string(num_ended_) + " of " + std::to_string(num_threads_) + " have returned";
}

void Block::look_at_clock(const Place& place) {
  now.until_clock = kStepsBetweenClocks;
  const uint64_t taken_ms = processor_ms() - began_at_ms_;
  if (taken_ms <= settings().max_block_ms) return;
  report_fault_of_block(cudaErrorLaunchTimeout, "it has not ended in " + std::to_string(taken_ms) +
                                                    " ms of the processor's time: thread " +
                                                    std::to_string(now.thread) + " runs, at " +
                                                    emulator::name_of(place) + "; " + describe_threads());
  abandon();
}

}  // namespace

bool run_block(const Launch& launch, const uint3& index, uint64_t seed) {
  return the_block.run(launch, index, seed);
}

const std::string& running_kernel() {
  return the_block.kernel();
}

void abandon_block() {
  the_block.abandon();
}

void look_at_clock(const Place& place) {
  the_block.look_at_clock(place);
}

void wait_for_previous() {
  the_block.wait_for_previous();
}

void wait_for_block(const char* word, const Place& place) {
  count_step(place);
  the_block.wait_for_block({word, place});
}

void wait_for_warp(const char* word, const Place& place) {
  count_step(place);
  the_block.wait_for_warp({word, place});
}

std::span<const Brought, kLanes> exchange(const void* bytes, size_t num_bytes, const char* word,
                                          const Place& place) {
  count_step(place);
  return the_block.exchange(bytes, num_bytes, {word, place});
}

}  // namespace runnel::emulator

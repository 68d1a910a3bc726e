// What happened to the request under test. The program fails if an event happened in too few cases, since it
// would prove too little.
#pragma once

#include <array>
#include <bitset>
#include <cstddef>

namespace runnel::exactness {

enum class Event : size_t {
  kCompany,        // it shared a step with others
  kPromptSplit,    // its prompt was computed in more than one step
  kMixedStep,      // it was in a step that computed both prompts and next tokens
  kPrefixHit,      // it found blocks that another request had filled
  kPreempted,      // it lost its blocks to others and was computed again
  kPaused,         // it was paused and resumed
  kCancelledNear,  // another request was cancelled while it was open
  kKilled,         // its runner was killed after some of its tokens, and another one went on
  kKilledTwice,
  kThreads,   // one of its tokens was drawn in a runner with several threads
  kNodes,     // ... of several NUMA nodes
  kPortable,  // ... in a runner with the portable kernels
  kEager,     // ... in a runner without graphs
  kReplayed,  // ... in a step computed by a graph that had been launched before
  kAhead,     // ... in a step that the device had computed before it was planned
  kDevices,   // ... by several devices together
  kNccl,      // ... which gathered by NCCL
  kLogprobs,  // it asked for log-probabilities
  kDrafts,    // a draft of its tokens was drawn, so that a step gave it several tokens
  kRejected,  // a draft of its tokens was not drawn, so that a step computed useless rows
  kVectors,   // another request got its vector while it was open
  kCount,
};

constexpr size_t kNumEvents = static_cast<size_t>(Event::kCount);
constexpr std::array<const char*, kNumEvents> kEventNames = {
    "in company",         "prompt split",     "mixed step",     "prefix hit",     "preempted",
    "paused and resumed", "cancels near it",  "killed",         "killed twice",   "several threads",
    "several nodes",      "portable kernels", "without graphs", "graph replayed", "computed ahead",
    "several devices",    "gathered by NCCL", "logprobs asked", "drafts drawn",   "drafts rejected",
    "vectors near it"};

class Events {
 public:
  void add(Event event) { bits_.set(static_cast<size_t>(event)); }
  bool has(size_t index) const { return bits_[index]; }

 private:
  std::bitset<kNumEvents> bits_;
};

}  // namespace runnel::exactness

// What befell the request under test. A test that proves nothing because nothing happened must fail.
#pragma once

#include <array>
#include <bitset>
#include <cstddef>

namespace runnel::exactness {

enum class Event : size_t {
  kCompany,        // shared a step with others
  kPromptSplit,    // its tokens were computed in more than one step
  kMixedStep,      // shared a step in which others were at another stage: prompts, or next tokens
  kPrefixHit,      // found blocks that another request had filled
  kPreempted,      // lost its blocks to others and was computed again
  kPaused,         // was paused and resumed
  kCancelledNear,  // another request was cancelled while it was open
  kKilled,         // its runner ended after some of its tokens, and another went on
  kKilledTwice,
  kThreads,   // a token of it was drawn in a runner with several threads
  kPortable,  // ... with the portable kernels
  kEager,     // ... where no graphs are allowed
  kReplayed,  // ... that a graph computed which had been launched before
  kLogprobs,  // log-probabilities were asked for
  kDrafts,    // a step brought several tokens of it
  kRejected,  // a step computed rows of it that were not wanted
  kVectors,   // another request got its vector while it was open
  kCount,
};

constexpr size_t kNumEvents = static_cast<size_t>(Event::kCount);
constexpr std::array<const char*, kNumEvents> kEventNames = {
    "in company",         "prompt split",    "mixed step",     "prefix hit",     "preempted",
    "paused and resumed", "cancels near it", "killed",         "killed twice",   "several threads",
    "portable kernels",   "without graphs",  "graph replayed", "logprobs asked", "drafts drawn",
    "drafts rejected",    "vectors near it"};

class Events {
 public:
  void add(Event event) { bits_.set(static_cast<size_t>(event)); }
  bool has(size_t index) const { return bits_[index]; }

 private:
  std::bitset<kNumEvents> bits_;
};

}  // namespace runnel::exactness

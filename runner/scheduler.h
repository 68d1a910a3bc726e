// Decides which tokens of which sequences a step computes. Bookkeeping only: it touches no model and draws no
// token.
//
// Algorithm: nano-vLLM's scheduler (github.com/GeeeekExplorer/nano-vllm, nanovllm/engine/scheduler.py), step
// for step: a step is a prefill as long as the first waiting sequence can be admitted, else it computes one
// token of each running sequence. When blocks run out, the running sequence that came last gives back its own
// and waits, in front, to be computed again. To this are added ending a sequence at any time, and pausing it.
//
// Invariants: a sequence is in exactly one of the queues its status names. Those waiting sequences that hold
// blocks (a prompt in chunks) come before those that do not, so the first can always go on and nothing waits
// for ever: the caller must only add sequences whose blocks the cache can hold when it is empty.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "runner/block_manager.h"
#include "runner/sequence.h"

namespace runnel {

struct SchedulerConfig {
  uint32_t max_num_batched_tokens = 256;  // rows of a step
  uint32_t max_num_seqs = 64;             // sequences of a step
  uint32_t block_size = 32;               // tokens
  uint32_t num_blocks = 0;
};

struct Plan {
  bool is_prefill = false;
  // Those with num_scheduled_tokens rows each, in row order.
  std::vector<Sequence*> sequences;
  // Those that lost their blocks to others.
  std::vector<Sequence*> preempted;
};

class Scheduler {
 public:
  explicit Scheduler(const SchedulerConfig& config);

  // The sequence must stay where it is until it is finished.
  void add(Sequence& sequence);
  // Whether schedule() has something to plan.
  bool has_work() const { return !waiting_.empty() || !running_.empty(); }
  Plan schedule();
  // The scheduled tokens of the sequence have been computed. True: all it has are, and the next one is due.
  bool advance(Sequence& sequence);
  // Takes the sequence out, whatever it was doing, and frees its blocks.
  void finish(Sequence& sequence);

  // A paused sequence keeps its blocks until others need them. Pausing a paused one changes nothing, nor does
  // resuming one that is not.
  void pause(Sequence& sequence);
  void resume(Sequence& sequence);

  const BlockManager& blocks() const { return blocks_; }
  // CHECKs the invariants. For tests.
  void check_integrity() const;

 private:
  void schedule_prefill(Plan& plan);
  void schedule_decode(Plan& plan);
  void preempt(Sequence& sequence, Plan& plan);
  // Frees the blocks of the sequence that has been paused longest. False if no paused one holds any.
  bool reclaim_paused();
  std::optional<uint32_t> can_allocate(const Sequence& sequence);
  std::deque<Sequence*>& queue_of(const Sequence& sequence);

  SchedulerConfig config_;
  BlockManager blocks_;
  std::deque<Sequence*> waiting_;
  std::deque<Sequence*> running_;
  std::deque<Sequence*> paused_;
};

}  // namespace runnel

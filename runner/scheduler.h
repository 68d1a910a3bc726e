// Decides which tokens of which sequences a step computes. Bookkeeping only: it touches no model, draws no
// token and looks at no clock, so that the same calls give the same plans.
//
// Algorithm: nano-vLLM's scheduler (github.com/GeeeekExplorer/nano-vllm, nanovllm/engine/scheduler.py), step
// for step: a step is a prefill as long as the first waiting sequence can be admitted, else it computes one
// token of each running sequence. When blocks run out, the last running sequence gives back its own and
// waits, in front, to be computed again. To this are added ending a sequence at any time, and pausing it.
//
// With mixed_batches a step does both: one row for each running sequence first, then parts of prompts in what
// is left of its rows. While there are rows of the first kind, those of the second are few: each prompt that
// waits for a place that is free brings mixed_prefill_tokens beside eight next tokens, and beside others in
// proportion to what the step takes without it, in which reading the weights counts as eight rows. A row far
// down a prompt counts as several, by the positions it attends to. So the streams wait about equally long for
// each part of a long prompt, and many prompts come in fast enough to keep the batch full. Only
// counts decide, never time: a recording is replayed in the same steps. A prompt then keeps its blocks
// between steps that may need more of them, so it too gives its own back, before any running sequence does.
//
// With speculation a step of few next tokens also computes drafts, guesses of the tokens that come after
// these (runner/speculation.h). They fill rows that cost little, since weights are read once for kDraftRows:
// all of them where one sequence is alone, and beside others at most as many as there are next tokens, so
// that nobody waits for twice the rows. Nobody gives way to a draft: there are none while a sequence waits or
// a prompt is computed, and none for which no block is free.
//
// A resumed sequence may make the running ones more than max_num_seqs. They then take turns, those first
// that had none in the last step: of n running ones each computes in one of any ceil(n / max_num_seqs) steps
// that have next tokens. A prompt that had begun and finds no place free, since others came while it was
// paused, gets one place of each step as soon as there are blocks for it; the turns are then shared among
// one place less (with max_num_seqs 1 they come after that prompt).
//
// Why nothing waits for ever, in either mode: waiting sequences start in order of arrival, none overtakes
// another, and one that lost its blocks comes before all that never began. Of those that were started, the
// first running one advances in each step that has next tokens, for it may take the blocks of all others;
// without any, the first waiting one does, for it has its blocks or nobody else does. The caller must only
// add sequences whose blocks the cache can hold when it is empty.
//
// Invariants: a sequence is in exactly one of the queues its status names. Those waiting sequences that hold
// blocks (a prompt in chunks) come before those that do not.
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
  bool mixed_batches = true;
  // Rows of each waiting prompt in a step that also has eight next tokens; of more, more.
  uint32_t mixed_prefill_tokens = 24;
  // Positions that a row attends to in the time that all else of it takes; 0: any number.
  uint32_t positions_per_row = 0;
  bool speculation = false;
  uint32_t window = 0;  // positions that a row sees, its own included; 0: all
};

// Rows of a step of next tokens that has drafts.
constexpr uint32_t kDraftRows = 8;

struct Plan {
  bool is_prefill = false;    // only parts of prompts
  uint32_t num_decoding = 0;  // sequences, the first ones, that compute one next token each, and drafts
  // Those with num_scheduled_tokens rows each, in row order.
  std::vector<Sequence*> sequences;
  // Those that lost their blocks to these. Paused ones, which may too, are not among them.
  std::vector<Sequence*> preempted;
};

// Since the scheduler was made; Stats in proto/runner.proto says what each counts.
struct SchedulerCounts {
  uint64_t num_preemptions = 0;
  uint64_t num_prefill_steps = 0;
  uint64_t num_decode_steps = 0;
  uint64_t num_mixed_steps = 0;
  uint64_t num_prefill_sequences = 0;
  uint64_t num_decode_sequences = 0;
  uint64_t num_prefill_tokens = 0;
  uint64_t num_cached_tokens = 0;
  uint64_t num_drafts = 0;
};

class Scheduler {
 public:
  explicit Scheduler(const SchedulerConfig& config);

  // The sequence must stay where it is until it is finished.
  void add(Sequence& sequence);
  // Whether schedule() has something to plan.
  bool has_work() const { return !waiting_.empty() || !running_.empty(); }
  Plan schedule();
  // The scheduled tokens of the sequence have been computed; those left of them, where drafts were wrong.
  void advance(Sequence& sequence);
  // Takes the sequence out, whatever it was doing, and frees its blocks.
  void finish(Sequence& sequence);

  // A paused sequence keeps its blocks until others need them. Pausing a paused one changes nothing, nor does
  // resuming one that is not.
  void pause(Sequence& sequence);
  void resume(Sequence& sequence);

  const BlockManager& blocks() const { return blocks_; }
  const SchedulerCounts& counts() const { return counts_; }
  uint32_t num_waiting() const { return static_cast<uint32_t>(waiting_.size()); }
  uint32_t num_running() const { return static_cast<uint32_t>(running_.size()); }
  uint32_t num_paused() const { return static_cast<uint32_t>(paused_.size()); }
  // CHECKs the invariants. For tests.
  void check_integrity() const;

 private:
  void schedule_prefill(Plan& plan);
  void schedule_decode(Plan& plan, uint32_t num_places);
  // What the rows of prompts may take in a step with so many next tokens, in what a row takes by work_of_row.
  uint64_t prompt_work(uint32_t num_decoding) const;
  // 1 or, with positions_per_row, that and the positions that a row at this one attends to.
  uint64_t work_of_row(uint32_t position) const;
  // Whether the first waiting sequence is one that had begun and can go on, so that a place is its due.
  bool keeps_a_place() const;
  void add_drafts(Plan& plan);
  // Rows that drafts may have in a step with so many next tokens.
  uint32_t num_draft_rows(uint32_t num_decoding) const;
  void count(const Plan& plan);
  // Sees to it that the last token of the sequence can have a place, whoever has to give way. False: the
  // sequence itself had to.
  bool make_room(Sequence& sequence, Plan& plan);
  void preempt_running(Sequence& sequence, Plan& plan);
  // Of the waiting sequences that hold blocks the last one loses them. False if there is none.
  bool preempt_waiting(Plan& plan);
  // Frees the blocks of the sequence that has been paused longest. False if no paused one holds any.
  bool reclaim_paused();
  void take_blocks_of(Sequence& sequence);
  std::optional<uint32_t> can_allocate(const Sequence& sequence);
  std::deque<Sequence*>& queue_of(const Sequence& sequence);

  SchedulerConfig config_;
  BlockManager blocks_;
  std::deque<Sequence*> waiting_;
  std::deque<Sequence*> running_;
  std::deque<Sequence*> paused_;
  SchedulerCounts counts_;
};

}  // namespace runnel

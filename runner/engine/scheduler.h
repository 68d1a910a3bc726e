// Decides which tokens of which sequences a step computes. This is bookkeeping only: it touches no model,
// draws no token and reads no clock, so that the same calls give the same plans.
//
// The algorithm is that of nano-vLLM's scheduler (github.com/GeeeekExplorer/nano-vllm,
// nanovllm/engine/scheduler.py), step for step: a step is a prefill as long as the first waiting sequence can
// be admitted, otherwise it computes one token of each running sequence. When blocks run out, the last
// running sequence gives back its own and waits, in front, to be computed again. Additions are that a
// sequence can be ended and paused at any time, and the following.
//
// With mixed_batches a step does both: first one row for each running sequence, then parts of prompts in its
// other rows. Beside next tokens, the rows of prompts are few. For each waiting prompt that has a place, a
// step takes mixed_prefill_tokens rows beside eight next tokens, and beside other numbers in proportion to
// the time of the step without prompts, in which reading the weights counts as rows_of_weights rows: a few on
// a CPU, and so many on a GPU that a single stream leaves a prompt nearly as many rows as eight do. A row far
// down a prompt counts as several, by the positions that it attends to. So streams wait about equally long
// for each part of a long prompt, and many prompts are admitted fast enough to keep the batch full. Only
// counts decide, never time, so a recording is replayed in the same steps. A prompt then keeps its blocks
// between steps, and other sequences may need them; so prompts also give back their blocks, before any
// running sequence does.
//
// With speculation, a step of few next tokens also computes drafts, which are guesses of the tokens after
// these (runner/engine/speculation.h, and NextMasks of runner/sampling/mask_job.h). They fill rows that
// cost little, since the weights are read once for kDraftRows rows. A single sequence gets all of these
// rows; several get at most as many drafts as there are next tokens, so that no sequence waits for more
// than twice the rows. Drafts never displace anything: there are none while a sequence waits or a prompt
// is computed, and none without a free block.
//
// With resumed sequences, more than max_num_seqs may be running. They then take turns, first those that had
// no row in the last step: of n running ones each computes in one of any ceil(n / max_num_seqs) steps that
// have next tokens. If a prompt that had begun finds no free place, because others came while it was paused,
// it gets one place of each step as soon as there are blocks for it. The turns are then shared among one
// place less (with max_num_seqs 1 they come after that prompt).
//
// Why nothing waits for ever, in either mode: waiting sequences start in order of arrival, none overtakes
// another, and one that lost its blocks comes before all that never began. Of the sequences that were
// started, the first running one advances in each step with next tokens, since it may take the blocks of all
// others. If none is running, the first waiting one advances, since it has its blocks, or no other sequence
// has them, or it takes them. The caller must only add sequences that an empty cache has room for
// (num_required_blocks).
//
// Invariants: a sequence is in exactly one queue, which its status names. Waiting sequences that hold blocks
// (a prompt in chunks) come before those that do not.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "runner/engine/block_manager.h"
#include "runner/engine/sequence.h"

namespace runnel {

// SchedulerConfig::rows_of_weights of a CPU.
constexpr uint32_t kRowsOfWeights = 8;

struct SchedulerConfig {
  uint32_t max_num_batched_tokens = 256;  // rows of a step
  uint32_t max_num_seqs = 64;             // sequences of a step
  uint32_t block_size = 32;               // tokens
  uint32_t num_blocks = 0;
  bool mixed_batches = true;
  // Rows of each waiting prompt in a step that also has eight next tokens. With more next tokens there are
  // more.
  uint32_t mixed_prefill_tokens = 24;
  // Reading the weights takes about as long as computing this many rows.
  uint32_t rows_of_weights = kRowsOfWeights;
  // Number of positions whose attention takes as long as all other work of a row; 0: attention is not
  // counted.
  uint32_t positions_per_row = 0;
  bool speculation = false;
  // A next token also takes the block that the token after it needs, if there is a free one. For a device
  // that computes ahead.
  bool reserves_next = false;
  // Positions that a row sees in the layers of each group, its own included; 0: all.
  std::vector<uint32_t> windows = {0};
  KvIndex* kv_index = nullptr;      // of blocks that outlive the process; null: none do
  KvSources* kv_sources = nullptr;  // other runners' caches; null: none, as without kv_index
};

// Limit of the rows in a step that has drafts.
constexpr uint32_t kDraftRows = 8;

// A step starts no further sequence that comes from another cache when this many tokens were copied for it.
// Copying takes about a hundredth of the time of computing.
constexpr uint32_t kCopiedTokens = 4096;

struct Plan {
  bool is_prefill = false;    // the step has only parts of prompts
  uint32_t num_decoding = 0;  // the first of sequences, which compute a next token each, and drafts
  // The sequences with num_scheduled_tokens rows each, in the order of rows.
  std::vector<Sequence*> sequences;
  // Sequences that lost their blocks to these. Paused sequences, which may lose theirs too, are not listed.
  std::vector<Sequence*> preempted;
};

// Counts since the scheduler was made; Stats in proto/runner.proto says what each counts.
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

  // The sequence must not move in memory until it is finished.
  void add(Sequence& sequence);
  // Whether schedule() has something to plan.
  bool has_work() const { return !waiting_.empty() || !running_.empty(); }
  Plan schedule();
  // Whether the next step, with next tokens of this step's sequences, may have drafts.
  bool may_have_drafts_after(const Plan& plan) const {
    return config_.speculation && num_draft_rows(static_cast<uint32_t>(plan.sequences.size())) > 0;
  }
  // Call it when the scheduled tokens of the sequence have been computed; wrong drafts must have been
  // dropped.
  void advance(Sequence& sequence);
  // Removes the sequence, whatever it was doing, and frees its blocks.
  void finish(Sequence& sequence);

  // A paused sequence keeps its blocks until others need them. Pausing a paused sequence does nothing, nor
  // does resuming one that is not paused.
  void pause(Sequence& sequence);
  void resume(Sequence& sequence);

  const BlockManager& blocks() const { return blocks_; }
  const SchedulerCounts& counts() const { return counts_; }
  uint32_t num_waiting() const { return static_cast<uint32_t>(waiting_.size()); }
  uint32_t num_running() const { return static_cast<uint32_t>(running_.size()); }
  uint32_t num_paused() const { return static_cast<uint32_t>(paused_.size()); }
  // For tests: CHECKs the invariants.
  void check_integrity() const;

 private:
  void schedule_prefill(Plan& plan);
  void schedule_decode(Plan& plan, uint32_t num_places);
  // Limit of the work of prompt rows in a step with this many next tokens, in the unit of work_of_row.
  uint64_t prompt_work(uint32_t num_decoding) const;
  // 1, or with positions_per_row: that number plus the positions that a row at this position attends to, on
  // average over the groups of layers.
  uint64_t work_of_row(uint32_t position) const;
  // Whether the first waiting sequence has begun before and can continue, so that it must get a place.
  bool keeps_a_place();
  void add_drafts(Plan& plan);
  void reserve_next(const Plan& plan);
  // Limit of the rows of drafts in a step with this many next tokens.
  uint32_t num_draft_rows(uint32_t num_decoding) const;
  void count(const Plan& plan);
  // Makes places for the next rows of a prompt that has begun, by taking blocks of paused sequences and of
  // prompts behind it if necessary. Returns false if others that run hold the blocks.
  bool extend(Sequence& sequence, Plan& plan);
  // Makes a place for the last token of the sequence available, by taking blocks of others if necessary.
  // Returns false if the sequence itself lost its blocks.
  bool make_room(Sequence& sequence, Plan& plan);
  void preempt_running(Sequence& sequence, Plan& plan);
  // The last waiting sequence that has blocks; nullptr if there is none.
  Sequence* last_holder() const;
  // Takes the blocks of the last waiting sequence that has any. Returns false if there is none.
  bool preempt_waiting(Plan& plan);
  // Takes the blocks of the sequence that has been paused longest. Returns false if no paused one has any.
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

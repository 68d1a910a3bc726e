#include "runner/engine/scheduler.h"

#include <algorithm>
#include <limits>
#include <span>

#include "runner/check.h"

namespace runnel {
namespace {

// mixed_prefill_tokens applies to this many next tokens.
constexpr uint32_t kFewStreams = 8;

// Returns how many drafts it appended. Those of a sequence with a mask are guesses after which the masks are
// known.
uint32_t append_drafts(Sequence& sequence, uint32_t max_drafts) {
  if (!sequence.mask) return sequence.speculation.append_drafts(sequence.token_ids, max_drafts);
  const std::vector<uint32_t>& guesses = sequence.next_masks.guessed_ids;
  const uint32_t num_drafts =
      std::min({max_drafts, static_cast<uint32_t>(guesses.size()), sequence.speculation.max_guesses()});
  sequence.speculation.pay(num_drafts);
  sequence.token_ids.insert(sequence.token_ids.end(), guesses.begin(), guesses.begin() + num_drafts);
  return num_drafts;
}

}  // namespace

Scheduler::Scheduler(const SchedulerConfig& config)
    : config_(config),
      blocks_(config.num_blocks, config.block_size, config.windows, hash_block, config.kv_index,
              config.kv_sources) {
  CHECK(config.max_num_batched_tokens > 0 && config.max_num_seqs > 0 && config.mixed_prefill_tokens > 0);
  // Each sequence has at least one row, and the model has no room for more rows.
  config_.max_num_seqs = std::min(config.max_num_seqs, config.max_num_batched_tokens);
}

void Scheduler::add(Sequence& sequence) {
  sequence.status = SequenceStatus::kWaiting;
  waiting_.push_back(&sequence);
}

Plan Scheduler::schedule() {
  Plan plan;
  if (config_.mixed_batches) schedule_decode(plan, config_.max_num_seqs - (keeps_a_place() ? 1 : 0));
  schedule_prefill(plan);
  if (plan.sequences.empty()) schedule_decode(plan, config_.max_num_seqs);
  CHECK(!plan.sequences.empty() || !has_work());
  plan.is_prefill = plan.num_decoding == 0;
  if (config_.speculation) add_drafts(plan);
  if (config_.reserves_next) reserve_next(plan);
  count(plan);
  return plan;
}

void Scheduler::schedule_prefill(Plan& plan) {
  uint32_t num_left = config_.max_num_batched_tokens - plan.num_decoding;
  uint64_t work_left = prompt_work(plan.num_decoding);
  uint32_t num_copied = 0;
  KvLook look = blocks_.look();
  while (!waiting_.empty() && plan.sequences.size() < config_.max_num_seqs && num_left > 0 && work_left > 0) {
    Sequence& sequence = *waiting_.front();
    if (num_copied >= kCopiedTokens && !sequence.kv_from.empty()) break;
    const bool is_new = !sequence.holds_blocks();
    uint32_t num_cached = sequence.num_cached_tokens;
    if (is_new) {
      const std::optional<uint32_t> num_cached_blocks = can_allocate(sequence);
      if (!num_cached_blocks) break;
      num_cached = *num_cached_blocks * config_.block_size;
    }
    if (!is_new && !extend(sequence, plan)) break;
    const auto max_rows_from = [&](uint64_t row_work) {
      return static_cast<uint32_t>(std::min(std::max<uint64_t>(work_left / row_work, 1), uint64_t{num_left}));
    };
    // In nano-vLLM only the first sequence of a step may be cut; a later one waits until it fits whole or is
    // first.
    const bool is_cut = sequence.num_tokens() - num_cached > max_rows_from(work_of_row(num_cached));
    if (is_cut && !plan.sequences.empty() && (!config_.mixed_batches || sequence.sees_ahead)) break;
    if (is_new) {
      blocks_.allocate(sequence, num_cached / config_.block_size);
      num_copied += blocks_.copy_from_sources(sequence, look) * config_.block_size;
      num_cached = sequence.num_cached_tokens;
      counts_.num_cached_tokens += num_cached;
    }
    const uint32_t num_tokens = sequence.num_tokens() - num_cached;
    const uint64_t row_work = work_of_row(num_cached);
    const uint32_t max_rows = std::min(max_rows_from(row_work), blocks_.num_places(sequence));
    sequence.has_begun = true;
    sequence.num_scheduled_tokens = std::min(num_tokens, max_rows);
    num_left -= sequence.num_scheduled_tokens;
    work_left -= std::min(work_left, sequence.num_scheduled_tokens * row_work);
    plan.sequences.push_back(&sequence);
    // The rest of this prompt comes before all other prompts.
    if (sequence.num_scheduled_tokens < num_tokens) break;
    waiting_.pop_front();
    sequence.status = SequenceStatus::kRunning;
    running_.push_back(&sequence);
  }
}

uint64_t Scheduler::prompt_work(uint32_t num_decoding) const {
  if (num_decoding == 0) return std::numeric_limits<uint64_t>::max();
  const uint64_t num_starting = std::min<uint64_t>(waiting_.size(), config_.max_num_seqs - num_decoding);
  const uint64_t num_rows_each = uint64_t{config_.mixed_prefill_tokens} *
                                 (uint64_t{num_decoding} + config_.rows_of_weights) /
                                 (uint64_t{kFewStreams} + config_.rows_of_weights);
  return num_starting * std::max<uint64_t>(num_rows_each, 1) * work_of_row(0);
}

uint64_t Scheduler::work_of_row(uint32_t position) const {
  if (config_.positions_per_row == 0) return 1;
  uint64_t num_seen = 0;
  for (const uint32_t window : config_.windows)
    num_seen += window == 0 ? position : std::min(position, window);
  return config_.positions_per_row + num_seen / config_.windows.size();
}

bool Scheduler::keeps_a_place() {
  if (waiting_.empty() || !waiting_.front()->has_begun) return false;
  const Sequence& first = *waiting_.front();
  return first.holds_blocks() || blocks_.can_allocate(first);
}

void Scheduler::schedule_decode(Plan& plan, uint32_t num_places) {
  // In nano-vLLM, sequences without a place wait until others end. Without pauses and mixed batches they
  // still do.
  const bool take_turns = config_.mixed_batches || std::ranges::any_of(running_, &Sequence::was_resumed);
  while (!running_.empty() && plan.sequences.size() < num_places) {
    Sequence& sequence = *running_.front();
    running_.pop_front();
    if (!make_room(sequence, plan)) break;
    blocks_.may_append(sequence);
    sequence.num_scheduled_tokens = 1;
    plan.sequences.push_back(&sequence);
  }
  const auto place = take_turns ? running_.end() : running_.begin();
  running_.insert(place, plan.sequences.begin(), plan.sequences.end());
  plan.num_decoding = static_cast<uint32_t>(plan.sequences.size());
}

void Scheduler::add_drafts(Plan& plan) {
  const auto num_sequences = static_cast<uint32_t>(plan.sequences.size());
  if (!waiting_.empty() || plan.num_decoding < num_sequences) return;
  uint32_t num_left = num_draft_rows(plan.num_decoding);
  for (uint32_t i = 0; i < num_sequences; ++i) {
    Sequence& sequence = *plan.sequences[i];
    // A sequence that uses less than its share leaves the rest to those after it. The last token is drawn and
    // needs no row.
    const uint32_t share = num_left / (num_sequences - i);
    const uint32_t num_useful = sequence.max_tokens - sequence.num_generated() - 1;
    const uint32_t max_drafts = std::min({share, num_useful, blocks_.num_draft_places(sequence)});
    sequence.num_drafts = append_drafts(sequence, max_drafts);
    blocks_.append_drafts(sequence);
    sequence.num_scheduled_tokens += sequence.num_drafts;
    num_left -= sequence.num_drafts;
    counts_.num_drafts += sequence.num_drafts;
  }
}

void Scheduler::reserve_next(const Plan& plan) {
  for (Sequence* sequence : std::span(plan.sequences).first(plan.num_decoding))
    if (sequence->num_generated() + 1 < sequence->max_tokens) blocks_.reserve_next(*sequence);
}

uint32_t Scheduler::num_draft_rows(uint32_t num_decoding) const {
  const uint32_t max_rows = std::min(kDraftRows, config_.max_num_batched_tokens);
  if (num_decoding >= max_rows) return 0;
  return num_decoding == 1 ? max_rows - 1 : std::min(num_decoding, max_rows - num_decoding);
}

void Scheduler::count(const Plan& plan) {
  const uint64_t num_prefilling = plan.sequences.size() - plan.num_decoding;
  if (plan.num_decoding > 0) {
    ++(num_prefilling > 0 ? counts_.num_mixed_steps : counts_.num_decode_steps);
  } else if (num_prefilling > 0) {
    ++counts_.num_prefill_steps;
  }
  counts_.num_decode_sequences += plan.num_decoding;
  counts_.num_prefill_sequences += num_prefilling;
  for (const Sequence* sequence : std::span(plan.sequences).subspan(plan.num_decoding))
    counts_.num_prefill_tokens += sequence->num_scheduled_tokens;
}

bool Scheduler::extend(Sequence& sequence, Plan& plan) {
  if (blocks_.num_places(sequence) > 0) return true;
  blocks_.extend(sequence);
  while (blocks_.num_places(sequence) == 0) {
    const bool is_last_holder = &sequence == last_holder();
    if (!reclaim_paused() && (is_last_holder || !preempt_waiting(plan))) return false;
    blocks_.extend(sequence);
  }
  return true;
}

bool Scheduler::make_room(Sequence& sequence, Plan& plan) {
  while (!blocks_.can_append(sequence)) {
    if (reclaim_paused() || preempt_waiting(plan)) continue;
    if (running_.empty()) {
      preempt_running(sequence, plan);
      return false;
    }
    Sequence& last = *running_.back();
    running_.pop_back();
    preempt_running(last, plan);
  }
  return true;
}

void Scheduler::preempt_running(Sequence& sequence, Plan& plan) {
  take_blocks_of(sequence);
  sequence.status = SequenceStatus::kWaiting;
  // No waiting sequence holds blocks any more, so the front is its place.
  waiting_.push_front(&sequence);
  plan.preempted.push_back(&sequence);
}

bool Scheduler::preempt_waiting(Plan& plan) {
  Sequence* const last = last_holder();
  if (last == nullptr) return false;
  take_blocks_of(*last);
  plan.preempted.push_back(last);
  return true;
}

Sequence* Scheduler::last_holder() const {
  const auto end =
      std::ranges::find_if(waiting_, [](const Sequence* sequence) { return !sequence->holds_blocks(); });
  return end == waiting_.begin() ? nullptr : *std::prev(end);
}

void Scheduler::take_blocks_of(Sequence& sequence) {
  blocks_.deallocate(sequence);
  ++counts_.num_preemptions;
}

void Scheduler::advance(Sequence& sequence) {
  blocks_.advance(sequence);
  sequence.num_scheduled_tokens = 0;
}

void Scheduler::finish(Sequence& sequence) {
  std::erase(queue_of(sequence), &sequence);
  blocks_.deallocate(sequence);
  sequence.status = SequenceStatus::kFinished;
}

void Scheduler::pause(Sequence& sequence) {
  if (sequence.status == SequenceStatus::kPaused) return;
  std::erase(queue_of(sequence), &sequence);
  sequence.status = SequenceStatus::kPaused;
  paused_.push_back(&sequence);
}

void Scheduler::resume(Sequence& sequence) {
  if (sequence.status != SequenceStatus::kPaused) return;
  std::erase(paused_, &sequence);
  sequence.was_resumed = true;
  // A sequence that lacks only its last token continues running. One that lacks more is in the middle of its
  // prompt.
  const bool holds_blocks = sequence.holds_blocks();
  if (holds_blocks && sequence.num_cached_tokens + 1 == sequence.num_tokens()) {
    sequence.status = SequenceStatus::kRunning;
    running_.push_back(&sequence);
    return;
  }
  // It comes before sequences that never began, as after a preemption, but after those that hold blocks.
  sequence.status = SequenceStatus::kWaiting;
  const auto place = std::ranges::find_if(
      waiting_, [&](const Sequence* other) { return holds_blocks || !other->holds_blocks(); });
  waiting_.insert(place, &sequence);
}

bool Scheduler::reclaim_paused() {
  for (Sequence* sequence : paused_) {
    if (!sequence->holds_blocks()) continue;
    take_blocks_of(*sequence);
    return true;
  }
  return false;
}

std::optional<uint32_t> Scheduler::can_allocate(const Sequence& sequence) {
  std::optional<uint32_t> num_cached_blocks = blocks_.can_allocate(sequence);
  while (!num_cached_blocks && reclaim_paused()) num_cached_blocks = blocks_.can_allocate(sequence);
  return num_cached_blocks;
}

std::deque<Sequence*>& Scheduler::queue_of(const Sequence& sequence) {
  CHECK(sequence.status != SequenceStatus::kFinished);
  if (sequence.status == SequenceStatus::kWaiting) return waiting_;
  return sequence.status == SequenceStatus::kRunning ? running_ : paused_;
}

void Scheduler::check_integrity() const {
  std::vector<const Sequence*> all;
  const auto check_queue = [&](const std::deque<Sequence*>& queue, SequenceStatus status) {
    for (const Sequence* sequence : queue) {
      CHECK(sequence->status == status);
      CHECK(std::ranges::find(all, sequence) == all.end());
      all.push_back(sequence);
    }
  };
  check_queue(waiting_, SequenceStatus::kWaiting);
  check_queue(running_, SequenceStatus::kRunning);
  check_queue(paused_, SequenceStatus::kPaused);
  CHECK(std::ranges::is_partitioned(waiting_, &Sequence::holds_blocks));
  for (const Sequence* sequence : running_) CHECK(sequence->holds_blocks());
  blocks_.check_integrity(all);
}

}  // namespace runnel

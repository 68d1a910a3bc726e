#include "runner/engine/engine.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "runner/check.h"
#include "runner/sampling/mask_threads.h"
#include "runner/sampling/sampler.h"

namespace runnel {
namespace {

// Several engines may use a model in turn.
uint64_t next_serial() {
  static std::atomic<uint64_t> last = 0;
  return ++last;
}

}  // namespace

Engine::Engine(Model& model, const EngineConfig& config, SteadyClock now, std::unique_ptr<MaskFiller> masks)
    : model_(model),
      config_(config),
      now_(std::move(now)),
      scheduler_(config.scheduler),
      masks_(masks ? std::move(masks)
                   : std::make_unique<MaskThreads>(model.config().vocab_size, config.num_mask_threads),
             model.config().vocab_size) {}

std::optional<RequestError> Engine::add(Sequence sequence) {
  const uint32_t request_id = sequence.request_id;
  CHECK(!contains(request_id) && sequence.num_tokens() < config_.max_model_len + (sequence.pooled ? 1 : 0));
  // An answer that fills the context ends like one that has max_tokens.
  if (!sequence.pooled)
    sequence.max_tokens = std::min(sequence.max_tokens, config_.max_model_len - sequence.num_prompt_tokens);
  if (std::optional<RequestError> refusal = refusal_of(sequence)) return refusal;
  sequence.sees_ahead = model_.config().is_encoder;
  sequence.serial = next_serial();
  if (sequence.accepted_at == std::chrono::steady_clock::time_point()) sequence.accepted_at = now_();
  scheduler_.add(sequences_.emplace(request_id, std::move(sequence)).first->second);
  return std::nullopt;
}

std::optional<RequestError> Engine::refusal_of(const Sequence& sequence) const {
  const uint32_t request_id = sequence.request_id;
  // The last token is drawn and not computed, so it needs no place in the cache.
  const uint32_t num_stored = sequence.num_prompt_tokens + sequence.max_tokens - 1;
  const BlockManager& blocks = scheduler_.blocks();
  if (blocks.windows().num_required(num_stored) > blocks.pool().num_blocks()) {
    return RequestError{request_id, ErrorCode::kOutOfMemory,
                        "The request may store " + std::to_string(num_stored) +
                            " tokens; the KV cache holds " + std::to_string(blocks.num_possible_tokens()) +
                            ". Ask for fewer, or start the runner with a larger --kv-cache-bytes."};
  }
  if (num_requests() == kMaxRequests) {
    return RequestError{request_id, ErrorCode::kQueueFull,
                        "The runner holds " + std::to_string(kMaxRequests) + " requests, its limit."};
  }
  uint64_t num_held = 0;
  for (const auto& [id, held] : sequences_) num_held += held.num_prompt_tokens;
  if (num_held + sequence.num_prompt_tokens > kMaxHeldTokens) {
    return RequestError{request_id, ErrorCode::kQueueFull,
                        "The runner holds prompts of " + std::to_string(num_held) + " tokens; with " +
                            std::to_string(sequence.num_prompt_tokens) +
                            " more they would be over its limit, " + std::to_string(kMaxHeldTokens) + "."};
  }
  return std::nullopt;
}

bool Engine::cancel(uint32_t request_id, bool is_complete) {
  const auto found = sequences_.find(request_id);
  if (found == sequences_.end() || found->second.is_cancelled) return false;
  ++(is_complete ? counts_.num_finished : counts_.num_failed);
  if (step_began_at_) {
    found->second.is_cancelled = true;
    cancelled_.push_back(&found->second);
  } else {
    finish(found->second);
    sequences_.erase(found);
  }
  return true;
}

void Engine::pause(uint32_t request_id) {
  const auto found = sequences_.find(request_id);
  if (found == sequences_.end()) return;
  found->second.is_held = true;
  scheduler_.pause(found->second);
}

void Engine::resume(uint32_t request_id) {
  const auto found = sequences_.find(request_id);
  if (found != sequences_.end()) resume(found->second);
}

void Engine::resume_all() {
  for (auto& [request_id, sequence] : sequences_) resume(sequence);
}

void Engine::resume(Sequence& sequence) {
  sequence.is_held = false;
  if (!sequence.mask_is_late) scheduler_.resume(sequence);
}

void Engine::finish(Sequence& sequence) {
  scheduler_.finish(sequence);
  masks_.drop(sequence);
}

bool Engine::continue_late(uint32_t request_id) {
  Sequence* const sequence = masks_.take_late(request_id);
  if (sequence != nullptr && !sequence->is_held) scheduler_.resume(*sequence);
  return sequence != nullptr;
}

bool Engine::make_late(uint32_t request_id) {
  CHECK(step_began_at_);
  const auto found = sequences_.find(request_id);
  if (found == sequences_.end()) return false;
  Sequence& sequence = found->second;
  const bool draws = sequence.num_cached_tokens + sequence.num_scheduled_tokens >= sequence.num_tokens();
  if (!sequence.mask || !sequence.next_masks.empty() || sequence.num_scheduled_tokens == 0 || !draws)
    return false;
  sequence.mask_is_late = true;
  return true;
}

Plan Engine::schedule() {
  CHECK(!step_began_at_);
  step_began_at_ = now_();
  const Plan plan = scheduler_.schedule();
  for (Sequence* sequence : plan.sequences) {
    if (sequence->started_at) continue;
    sequence->started_at = step_began_at_;
    sequence->num_reused_tokens = sequence->num_cached_tokens;
  }
  return plan;
}

StepOutput Engine::compute(const Plan& plan, const DuringStep& during_step) {
  CHECK(step_began_at_);
  const auto [wanted, states] = build_batch(plan);
  const std::vector<Sequence*> masked = sequences_without_masks(wanted);
  const bool may_guess = scheduler_.may_have_drafts_after(plan);
  for (Sequence* sequence : masked)
    masks_.start(*sequence, may_guess ? sequence->speculation.max_guesses() : 0);
  if (batch_.num_rows() > 0) {
    model_.forward(batch_, [&](Batch& batch) {
      during_step();
      cut_cancelled(batch);
    });
  }
  masks_.take(masked, now_);
  StepOutput output;
  for (const Sequence* sequence : masked)
    if (sequence->mask_is_late) output.late.push_back(sequence->request_id);
  const size_t max_head_rows = config_.max_head_rows;
  for (size_t begin = 0; begin < wanted.size(); begin += max_head_rows) {
    const size_t count = std::min(max_head_rows, wanted.size() - begin);
    use_rows(std::span(wanted).subspan(begin, count), during_step, output);
  }
  for (size_t begin = 0; begin < states.size(); begin += max_head_rows) {
    const size_t count = std::min(max_head_rows, states.size() - begin);
    use_states(std::span(states).subspan(begin, count), during_step, output);
  }
  settle(plan, output);
  const auto took = now_() - *step_began_at_;
  masks_.end_step(took);
  counts_.busy += took;
  step_began_at_.reset();
  return output;
}

// Updates sequences and blocks with the results of the step. All of it is done at the end, so that it does
// not matter when in the step a cancel came: a cancelled sequence gives no output, and its blocks are not
// remembered.
void Engine::settle(const Plan& plan, StepOutput& output) {
  const auto is_cancelled = [&](const auto& told) { return sequences_.at(told.request_id).is_cancelled; };
  std::erase_if(output.tokens, is_cancelled);
  std::erase_if(output.scored, is_cancelled);
  std::erase_if(output.embedded, is_cancelled);
  std::erase_if(output.errors, is_cancelled);
  std::erase_if(output.late, [&](uint32_t request_id) { return sequences_.at(request_id).is_cancelled; });
  for (Sequence* sequence : plan.sequences)
    if (!sequence->is_cancelled) scheduler_.advance(*sequence);

  for (const uint32_t request_id : output.late) {
    Sequence& sequence = sequences_.at(request_id);
    scheduler_.pause(sequence);
    masks_.add_late(sequence);
  }

  for (Sequence* sequence : std::exchange(cancelled_, {})) finish(*sequence);
  for (const RequestError& error : output.errors) finish(sequences_.at(error.request_id));
  counts_.num_failed += output.errors.size();
  for (const NewToken& token : output.tokens) {
    counts_.num_accepted_drafts += token.was_draft;
    if (token.finish_reason == FinishReason::kNone) continue;
    finish(sequences_.at(token.request_id));
    ++counts_.num_finished;
  }
  for (const Embedded& embedded : output.embedded) finish(sequences_.at(embedded.request_id));
  counts_.num_finished += output.embedded.size();
  counts_.num_generated_tokens += output.tokens.size();
  std::erase_if(sequences_,
                [](const auto& entry) { return entry.second.status == SequenceStatus::kFinished; });
}

// Builds the batch from the rows of the plan's sequences, one after the other, without sequences that were
// cancelled since. Returns the rows whose logits are needed: the last row of a sequence that is then
// complete, the rows of its drafts, and the rows before prompt tokens that need a score; and the rows whose
// hidden states go into a vector.
Engine::WantedRows Engine::build_batch(const Plan& plan) {
  batch_.token_ids.clear();
  batch_.positions.clear();
  batch_.types.clear();
  batch_.sequences.clear();
  batch_sequences_.clear();
  batch_.repeats = repeats(plan);
  WantedRows wanted;
  for (Sequence* sequence : plan.sequences) {
    if (sequence->is_cancelled) continue;
    const uint32_t first_position = sequence->num_cached_tokens;
    const uint32_t end_position = first_position + sequence->num_scheduled_tokens;
    batch_.sequences.push_back({batch_.num_rows(), sequence->num_scheduled_tokens, first_position,
                                sequence->block_tables, sequence->serial});
    batch_sequences_.push_back(sequence);
    const PooledStates* const pooled = sequence->pooled ? &*sequence->pooled : nullptr;
    for (uint32_t position = first_position; position < end_position; ++position) {
      const WantedRow row{sequence, batch_.num_rows(), position};
      if (pooled != nullptr) {
        if (pooled->wants(position)) wanted.states.push_back({sequence, row.row, position});
      } else if (row.draws() || sequence->wants_score(position + 1)) {
        wanted.logits.push_back(row);
      }
      batch_.token_ids.push_back(sequence->token_ids[position]);
      batch_.positions.push_back(position);
      const uint32_t second = sequence->second_type_from;
      batch_.types.push_back(second != 0 && position >= second ? 1 : 0);
    }
  }
  return wanted;
}

// Drafts, which depend on the tokens of this step, would add rows to the next one.
bool Engine::repeats(const Plan& plan) const {
  return !config_.scheduler.speculation && plan.num_decoding == plan.sequences.size() &&
         scheduler_.num_running() == plan.sequences.size() && scheduler_.num_waiting() == 0;
}

std::vector<Sequence*> Engine::sequences_without_masks(std::span<const WantedRow> wanted) {
  std::vector<Sequence*> sequences;
  for (const WantedRow& row : wanted)
    if (row.draws() && row.sequence->mask && row.sequence->next_masks.empty())
      sequences.push_back(row.sequence);
  return sequences;
}

void Engine::cut_cancelled(Batch& batch) const {
  size_t num_left = batch.sequences.size();
  while (num_left > 0 && batch_sequences_[num_left - 1]->is_cancelled) --num_left;
  batch.keep_first(num_left);
}

namespace {

// The draw of the token that comes after the first num_tokens tokens, which may include drafts.
Draw draw_of(const Sequence& sequence, uint32_t num_tokens) {
  std::span<const uint32_t> masked_ids;
  if (num_tokens - sequence.num_prompt_tokens < sequence.min_tokens) masked_ids = sequence.stop_ids;
  std::span<const uint32_t> allowed_bits;
  if (sequence.mask) allowed_bits = sequence.next_masks.allowed_bits.at(num_tokens - sequence.num_tokens());
  return {std::span(sequence.token_ids).first(num_tokens), sequence.num_prompt_tokens, sequence.sampling,
          masked_ids, allowed_bits};
}

// Whether an earlier row of the step has ended the request.
bool has_ended(uint32_t request_id, const StepOutput& output) {
  if (!output.errors.empty() && output.errors.back().request_id == request_id) return true;
  if (output.tokens.empty() || output.tokens.back().request_id != request_id) return false;
  return output.tokens.back().finish_reason != FinishReason::kNone;
}

FinishReason finish_reason(const Sequence& sequence, uint32_t token_id) {
  if (std::ranges::find(sequence.stop_ids, token_id) != sequence.stop_ids.end()) return FinishReason::kStopId;
  return sequence.num_generated() >= sequence.max_tokens ? FinishReason::kMaxTokens : FinishReason::kNone;
}

}  // namespace

HeadRow Engine::WantedRow::for_head() const {
  if (!draws()) return {.row = row, .wants_logits = true};
  return {.row = row,
          .draw = draw_of(*sequence, position + 1),
          .wants_logits = sequence->top_logprobs.has_value(),
          .is_last = sequence->num_generated() + 1 >= sequence->max_tokens};
}

void Engine::use_rows(std::span<const WantedRow> group, const DuringStep& during_step, StepOutput& output) {
  std::vector<WantedRow> wanted;
  std::vector<HeadRow> rows;
  for (const WantedRow& row : group) {
    if (row.sequence->is_cancelled || !row.counts()) continue;
    if (row.draws() && !row.sequence->mask_failure.empty()) {
      output.errors.push_back(
          {row.sequence->request_id, ErrorCode::kGrammarFailed, row.sequence->mask_failure});
      continue;
    }
    wanted.push_back(row);
    rows.push_back(row.for_head());
  }
  if (rows.empty()) return;
  LogitRows& logits = model_.logits(rows);
  during_step();
  const std::span<const std::optional<uint32_t>> drawn = logits.drawn();
  for (uint32_t i = 0; i < wanted.size(); ++i) {
    Sequence& sequence = *wanted[i].sequence;
    const bool draws = wanted[i].draws();
    if (!wanted[i].counts() || has_ended(sequence.request_id, output)) continue;
    if (draws ? !drawn[i] : !all_finite(logits.row(i))) {
      sequence.drop_drafts();
      output.errors.push_back({sequence.request_id, ErrorCode::kInferenceFailed,
                               "The logits after token " + std::to_string(wanted[i].position) +
                                   " of the request are not all finite numbers."});
    } else if (draws) {
      NewToken token = append_token(sequence, *drawn[i]);
      if (sequence.top_logprobs)
        token.logprobs = compute_logprobs(logits.row(i), *drawn[i], *sequence.top_logprobs);
      output.tokens.push_back(std::move(token));
    } else {
      output.scored.push_back(score(sequence, wanted[i].position + 1, logits.row(i)));
    }
  }
}

void Engine::use_states(std::span<const WantedState> group, const DuringStep& during_step,
                        StepOutput& output) {
  std::vector<WantedState> wanted;
  std::vector<uint32_t> rows;
  for (const WantedState& state : group) {
    if (state.sequence->is_cancelled || has_ended(state.sequence->request_id, output)) continue;
    wanted.push_back(state);
    rows.push_back(state.row);
  }
  if (rows.empty()) return;
  const std::vector<float> states = model_.states(rows);
  during_step();
  const size_t width = states.size() / rows.size();
  for (size_t i = 0; i < wanted.size(); ++i) {
    Sequence& sequence = *wanted[i].sequence;
    const std::span<const float> state = std::span(states).subspan(i * width, width);
    if (has_ended(sequence.request_id, output)) continue;
    if (!all_finite(state)) {
      output.errors.push_back({sequence.request_id, ErrorCode::kInferenceFailed,
                               "The hidden state of token " + std::to_string(wanted[i].position) +
                                   " of the request is not all finite numbers."});
      continue;
    }
    sequence.pooled->add(state);
    if (!sequence.pooled->is_complete()) continue;
    std::vector<float> vector = sequence.pooled->vector();
    if (sequence.pooled->is_ranked()) vector = {model_.classify(vector)};
    if (!all_finite(vector)) {
      output.errors.push_back({sequence.request_id, ErrorCode::kInferenceFailed,
                               "What the classification head made of the request is not a finite number."});
      continue;
    }
    sequence.has_output = true;
    output.embedded.push_back({sequence.request_id, std::move(vector), first_token(sequence)});
  }
}

ScoredToken Engine::score(Sequence& sequence, uint32_t index, std::span<const float> logits) const {
  CHECK(index == sequence.num_scored_tokens);
  ++sequence.num_scored_tokens;
  return {sequence.request_id, index,
          compute_logprobs(logits, sequence.token_ids[index], *sequence.prompt_logprobs)};
}

FirstToken Engine::first_token(const Sequence& sequence) const {
  using std::chrono::duration_cast, std::chrono::microseconds;
  return {.num_reused_tokens = sequence.num_reused_tokens,
          .queued = duration_cast<microseconds>(*sequence.started_at - sequence.accepted_at),
          .prefill = duration_cast<microseconds>(now_() - *sequence.started_at)};
}

NewToken Engine::append_token(Sequence& sequence, uint32_t token_id) {
  NewToken token{.request_id = sequence.request_id,
                 .index = sequence.num_generated(),
                 .token_id = token_id,
                 .finish_reason = FinishReason::kNone,
                 .logprobs = std::nullopt,
                 .first = std::nullopt};
  if (!std::exchange(sequence.has_output, true)) token.first = first_token(sequence);
  token.was_draft = sequence.num_drafts > 0 && sequence.token_ids[sequence.num_tokens()] == token_id;
  if (token.was_draft) {
    --sequence.num_drafts;
  } else {
    sequence.drop_drafts();
    sequence.token_ids.push_back(token_id);
  }
  const bool has_guess = !sequence.next_masks.guessed_ids.empty();
  const bool was_guessed = sequence.next_masks.drew(token_id);
  sequence.speculation.drew(token.was_draft || was_guessed);
  // The masks after it were filled for nothing.
  if (has_guess && !was_guessed && sequence.speculation.max_guesses() > 0) sequence.speculation.pay(1);
  token.finish_reason = finish_reason(sequence, token_id);
  if (token.finish_reason != FinishReason::kNone) sequence.drop_drafts();
  return token;
}

}  // namespace runnel

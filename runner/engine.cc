#include "runner/engine.h"

#include <algorithm>

#include "runner/check.h"

namespace runnel {

Engine::Engine(Model& model, const EngineConfig& config)
    : model_(model), config_(config), scheduler_(config.scheduler), sampler_(model.config().vocab_size) {}

std::optional<RequestError> Engine::add(Sequence sequence) {
  const uint32_t request_id = sequence.request_id;
  CHECK(!contains(request_id));
  if (num_requests() == kMaxRequests) {
    return RequestError{request_id, wire::ERROR_CODE_QUEUE_FULL,
                        "The runner holds " + std::to_string(kMaxRequests) + " requests, its limit."};
  }
  // The last token is drawn, not computed, and needs no place.
  const uint64_t num_wanted = uint64_t{sequence.num_prompt_tokens} + sequence.max_tokens;
  const auto num_stored = static_cast<uint32_t>(std::min<uint64_t>(num_wanted, config_.max_model_len)) - 1;
  const BlockManager& blocks = scheduler_.blocks();
  if (blocks.blocks_for(num_stored) > blocks.num_blocks()) {
    return RequestError{request_id, wire::ERROR_CODE_OUT_OF_MEMORY,
                        "The request may store " + std::to_string(num_stored) +
                            " tokens; the KV cache holds " +
                            std::to_string(uint64_t{blocks.num_blocks()} * config_.scheduler.block_size) +
                            ". Ask for fewer, or start the runner with a larger --kv-cache-bytes."};
  }
  scheduler_.add(sequences_.emplace(request_id, std::move(sequence)).first->second);
  return std::nullopt;
}

bool Engine::cancel(uint32_t request_id) {
  const auto found = sequences_.find(request_id);
  if (found == sequences_.end()) return false;
  scheduler_.finish(found->second);
  sequences_.erase(found);
  return true;
}

void Engine::pause(uint32_t request_id) {
  const auto found = sequences_.find(request_id);
  if (found != sequences_.end()) scheduler_.pause(found->second);
}

void Engine::resume(uint32_t request_id) {
  const auto found = sequences_.find(request_id);
  if (found != sequences_.end()) scheduler_.resume(found->second);
}

void Engine::resume_all() {
  for (auto& [request_id, sequence] : sequences_) scheduler_.resume(sequence);
}

StepOutput Engine::compute(const Plan& plan) {
  const std::vector<WantedRow> wanted = build_batch(plan);
  model_.forward(batch_);
  for (Sequence* sequence : plan.sequences) scheduler_.advance(*sequence);

  StepOutput output;
  const size_t vocab_size = model_.config().vocab_size;
  for (size_t begin = 0; begin < wanted.size(); begin += kMaxHeadRows) {
    const auto group =
        std::span(wanted).subspan(begin, std::min<size_t>(kMaxHeadRows, wanted.size() - begin));
    std::vector<uint32_t> rows;
    for (const WantedRow& row : group) rows.push_back(row.row);
    const std::span<const float> logits = model_.logits(rows);
    for (size_t i = 0; i < group.size(); ++i)
      use_logits(group[i], logits.subspan(i * vocab_size, vocab_size), output);
  }
  std::erase_if(sequences_,
                [](const auto& entry) { return entry.second.status == SequenceStatus::kFinished; });
  return output;
}

// The rows of the plan's sequences one after the other. Returns those that give a token or a score: the last
// row of a sequence that is then complete, and the rows before prompt tokens that are to be told of.
std::vector<Engine::WantedRow> Engine::build_batch(const Plan& plan) {
  batch_.token_ids.clear();
  batch_.positions.clear();
  batch_.sequences.clear();
  std::vector<WantedRow> wanted;
  for (Sequence* sequence : plan.sequences) {
    const uint32_t first_position = sequence->num_cached_tokens;
    const uint32_t end_position = first_position + sequence->num_scheduled_tokens;
    batch_.sequences.push_back(
        {batch_.num_rows(), sequence->num_scheduled_tokens, first_position, sequence->block_table});
    for (uint32_t position = first_position; position < end_position; ++position) {
      if (position + 1 == sequence->num_tokens() || sequence->wants_score(position + 1))
        wanted.push_back({sequence, batch_.num_rows(), position});
      batch_.token_ids.push_back(sequence->token_ids[position]);
      batch_.positions.push_back(position);
    }
  }
  return wanted;
}

void Engine::use_logits(const WantedRow& wanted, std::span<const float> logits, StepOutput& output) {
  Sequence& sequence = *wanted.sequence;
  if (sequence.status == SequenceStatus::kFinished) return;  // an earlier row of it failed
  if (!all_finite(logits)) {
    output.errors.push_back({sequence.request_id, wire::ERROR_CODE_INFERENCE_FAILED,
                             "The logits after token " + std::to_string(wanted.position) +
                                 " of the request are not all finite numbers."});
    scheduler_.finish(sequence);
  } else if (wanted.position + 1 < sequence.num_tokens()) {
    const uint32_t index = wanted.position + 1;
    CHECK(index == sequence.num_scored_tokens);
    output.scored.push_back({sequence.request_id, index,
                             compute_logprobs(logits, sequence.token_ids[index], *sequence.prompt_logprobs)});
    ++sequence.num_scored_tokens;
  } else {
    output.tokens.push_back(append_token(sequence, logits));
    if (output.tokens.back().finish_reason != FinishReason::kNone) scheduler_.finish(sequence);
  }
}

NewToken Engine::append_token(Sequence& sequence, std::span<const float> logits) {
  std::span<const uint32_t> masked_ids;
  if (sequence.num_generated() < sequence.min_tokens) masked_ids = sequence.stop_ids;
  const uint32_t token_id =
      sampler_.sample(logits, sequence.token_ids, sequence.num_prompt_tokens, sequence.sampling, masked_ids);
  NewToken token{.request_id = sequence.request_id,
                 .index = sequence.num_generated(),
                 .token_id = token_id,
                 .finish_reason = FinishReason::kNone,
                 .logprobs = std::nullopt};
  if (sequence.top_logprobs) token.logprobs = compute_logprobs(logits, token_id, *sequence.top_logprobs);
  sequence.token_ids.push_back(token_id);
  token.finish_reason = finish_reason(sequence);
  return token;
}

FinishReason Engine::finish_reason(const Sequence& sequence) const {
  if (std::ranges::find(sequence.stop_ids, sequence.token_ids.back()) != sequence.stop_ids.end())
    return FinishReason::kStopId;
  const bool is_long_enough = sequence.num_generated() >= sequence.max_tokens;
  const bool is_context_full = sequence.num_tokens() >= config_.max_model_len;
  return is_long_enough || is_context_full ? FinishReason::kMaxTokens : FinishReason::kNone;
}

}  // namespace runnel

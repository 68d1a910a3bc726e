#include "runner/request.h"

#include <cstdio>
#include <vector>

namespace runnel {
namespace {

std::string shown(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

Error refusal(const std::string& sentence) {
  return {ExitCode::kUsage, sentence};
}

Result<void> check_ids(const std::string& field, const std::vector<uint32_t>& ids, uint32_t vocab_size) {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < vocab_size) continue;
    return refusal(field + "[" + std::to_string(i) + "] is " + std::to_string(ids[i]) +
                   "; the model's ids are below " + std::to_string(vocab_size) + ".");
  }
  return {};
}

// Written so that NaN is outside every range.
Result<void> check_range(const std::string& field, float value, float min, float max) {
  if (value >= min && value <= max) return {};
  return refusal(field + " is " + shown(value) + "; the limit is " + shown(min) + " to " + shown(max) + ".");
}

Result<SamplingParams> sampling_from(const wire::Sampling& sampling) {
  SamplingParams params;
  if (sampling.has_temperature()) params.temperature = sampling.temperature();
  if (sampling.has_top_k()) params.top_k = sampling.top_k();
  if (sampling.has_top_p()) params.top_p = sampling.top_p();
  if (sampling.has_min_p()) params.min_p = sampling.min_p();
  if (sampling.has_repetition_penalty()) params.repetition_penalty = sampling.repetition_penalty();
  if (sampling.has_seed()) params.seed = sampling.seed();

  const Result<void> checks[] = {
      check_range("temperature", params.temperature, 0.0f, 100.0f),
      check_range("top_p", params.top_p, 0.0f, 1.0f),
      check_range("min_p", params.min_p, 0.0f, 1.0f),
      check_range("repetition_penalty", params.repetition_penalty, 0.0f, 100.0f),
  };
  for (const Result<void>& check : checks)
    if (!check.ok()) return check.error();
  if (params.repetition_penalty == 0.0f)
    return refusal("repetition_penalty is 0; it must be above 0, and 1 turns it off.");
  return params;
}

}  // namespace

Result<Sequence> sequence_from(const wire::Generate& generate, const RequestLimits& limits) {
  Sequence sequence;
  sequence.request_id = generate.request_id();
  sequence.token_ids.assign(generate.token_ids().begin(), generate.token_ids().end());
  sequence.stop_ids.assign(generate.stop_ids().begin(), generate.stop_ids().end());
  sequence.max_tokens = generate.max_tokens();

  const uint32_t num_tokens = sequence.num_tokens();
  if (num_tokens == 0) return refusal("token_ids is empty; at least one token is needed.");
  if (num_tokens >= limits.max_model_len) {
    return refusal("token_ids has " + std::to_string(num_tokens) + " ids; the limit is " +
                   std::to_string(limits.max_model_len - 1) + ", one less than the context of " +
                   std::to_string(limits.max_model_len) + ".");
  }
  if (generate.num_emitted() >= num_tokens) {
    return refusal("num_emitted is " + std::to_string(generate.num_emitted()) +
                   "; it must be below the number of token_ids, " + std::to_string(num_tokens) + ".");
  }
  if (sequence.max_tokens <= generate.num_emitted()) {
    return refusal("max_tokens is " + std::to_string(sequence.max_tokens) +
                   "; it must be more than num_emitted, " + std::to_string(generate.num_emitted()) + ".");
  }
  sequence.num_prompt_tokens = num_tokens - generate.num_emitted();
  if (sequence.stop_ids.size() > kMaxStopIds) {
    return refusal("stop_ids has " + std::to_string(sequence.stop_ids.size()) + " ids; the limit is " +
                   std::to_string(kMaxStopIds) + ".");
  }
  if (const auto check = check_ids("token_ids", sequence.token_ids, limits.vocab_size); !check.ok())
    return check.error();
  if (const auto check = check_ids("stop_ids", sequence.stop_ids, limits.vocab_size); !check.ok())
    return check.error();

  if (generate.has_top_logprobs()) {
    if (generate.top_logprobs() > kMaxTopLogprobs) {
      return refusal("top_logprobs is " + std::to_string(generate.top_logprobs()) + "; the limit is " +
                     std::to_string(kMaxTopLogprobs) + ".");
    }
    sequence.top_logprobs = generate.top_logprobs();
  }
  const Result<SamplingParams> sampling = sampling_from(generate.sampling());
  if (!sampling.ok()) return sampling.error();
  sequence.sampling = *sampling;
  return sequence;
}

}  // namespace runnel

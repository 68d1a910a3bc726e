#include "runner/request.h"

#include <algorithm>
#include <cstdio>
#include <span>
#include <unordered_set>
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

Result<void> check_count(const std::string& field, size_t count, const char* noun, uint32_t limit) {
  if (count <= limit) return {};
  return refusal(field + " has " + std::to_string(count) + " " + noun + "; the limit is " +
                 std::to_string(limit) + ".");
}

Result<void> check_ids(const std::string& field, std::span<const uint32_t> ids, uint32_t vocab_size) {
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

Result<std::vector<LogitBias>> logit_bias_from(const wire::Sampling& sampling, uint32_t vocab_size) {
  const auto count = check_count("logit_bias", sampling.logit_bias().size(), "entries", kMaxLogitBiases);
  if (!count.ok()) return count.error();
  std::vector<LogitBias> biases;
  for (const wire::LogitBias& entry : sampling.logit_bias()) {
    const std::string field = "logit_bias[" + std::to_string(biases.size()) + "]";
    if (entry.token_id() >= vocab_size) {
      return refusal(field + ".token_id is " + std::to_string(entry.token_id()) +
                     "; the model's ids are below " + std::to_string(vocab_size) + ".");
    }
    if (const auto check = check_range(field + ".bias", entry.bias(), -100.0f, 100.0f); !check.ok())
      return check.error();
    biases.push_back({entry.token_id(), entry.bias()});
  }
  return biases;
}

Result<SamplingParams> sampling_from(const wire::Sampling& sampling, uint32_t vocab_size) {
  SamplingParams params;
  if (sampling.has_temperature()) params.temperature = sampling.temperature();
  if (sampling.has_top_k()) params.top_k = sampling.top_k();
  if (sampling.has_top_p()) params.top_p = sampling.top_p();
  if (sampling.has_min_p()) params.min_p = sampling.min_p();
  if (sampling.has_repetition_penalty()) params.repetition_penalty = sampling.repetition_penalty();
  if (sampling.has_presence_penalty()) params.presence_penalty = sampling.presence_penalty();
  if (sampling.has_frequency_penalty()) params.frequency_penalty = sampling.frequency_penalty();
  if (sampling.has_seed()) params.seed = sampling.seed();

  const Result<void> checks[] = {
      check_range("temperature", params.temperature, 0.0f, 100.0f),
      check_range("top_p", params.top_p, 0.0f, 1.0f),
      check_range("min_p", params.min_p, 0.0f, 1.0f),
      check_range("repetition_penalty", params.repetition_penalty, 0.0f, 100.0f),
      check_range("presence_penalty", params.presence_penalty, -2.0f, 2.0f),
      check_range("frequency_penalty", params.frequency_penalty, -2.0f, 2.0f),
  };
  for (const Result<void>& check : checks)
    if (!check.ok()) return check.error();
  if (params.repetition_penalty == 0.0f)
    return refusal("repetition_penalty is 0; it must be above 0, and 1 turns it off.");
  Result<std::vector<LogitBias>> logit_bias = logit_bias_from(sampling, vocab_size);
  if (!logit_bias.ok()) return logit_bias.error();
  params.logit_bias = *std::move(logit_bias);
  params.allowed_ids.assign(sampling.allowed_token_ids().begin(), sampling.allowed_token_ids().end());
  params.banned_ids.assign(sampling.banned_token_ids().begin(), sampling.banned_token_ids().end());
  return params;
}

// Whether masks leave an id to draw: one that is allowed, not banned, and none of excluded.
bool leaves_any(const SamplingParams& params, std::span<const uint32_t> excluded, uint32_t vocab_size) {
  std::unordered_set<uint32_t> masked(params.banned_ids.begin(), params.banned_ids.end());
  masked.insert(excluded.begin(), excluded.end());
  if (params.allowed_ids.empty()) return masked.size() < vocab_size;
  return std::ranges::any_of(params.allowed_ids, [&](uint32_t id) { return !masked.contains(id); });
}

// Every mask a draw of this sequence can meet is known here, so no draw finds itself without candidates.
Result<void> check_masks(const Sequence& sequence, uint32_t vocab_size) {
  const SamplingParams& params = sequence.sampling;
  const Result<void> checks[] = {
      check_count("allowed_token_ids", params.allowed_ids.size(), "ids", kMaxMaskedIds),
      check_count("banned_token_ids", params.banned_ids.size(), "ids", kMaxMaskedIds),
      check_ids("allowed_token_ids", params.allowed_ids, vocab_size),
      check_ids("banned_token_ids", params.banned_ids, vocab_size),
  };
  for (const Result<void>& check : checks)
    if (!check.ok()) return check;
  if (!leaves_any(params, {}, vocab_size))
    return refusal(
        "allowed_token_ids and banned_token_ids leave no token to draw; allow one that is not banned.");
  if (sequence.min_tokens == 0 || leaves_any(params, sequence.stop_ids, vocab_size)) return {};
  return refusal(
      "min_tokens is " + std::to_string(sequence.min_tokens) +
      ", but allowed_token_ids and banned_token_ids leave nothing to draw besides stop_ids; make it 0, or "
      "allow another token.");
}

// At most kMaxTopLogprobs.
Result<void> check_logprobs(const std::string& field, uint32_t num_top) {
  if (num_top <= kMaxTopLogprobs) return {};
  return refusal(field + " is " + std::to_string(num_top) + "; the limit is " +
                 std::to_string(kMaxTopLogprobs) + ".");
}

}  // namespace

Result<Sequence> sequence_from(const wire::Generate& generate, const RequestLimits& limits) {
  Sequence sequence;
  sequence.request_id = generate.request_id();
  sequence.token_ids.assign(generate.token_ids().begin(), generate.token_ids().end());
  sequence.stop_ids.assign(generate.stop_ids().begin(), generate.stop_ids().end());
  sequence.max_tokens = generate.max_tokens();
  sequence.min_tokens = generate.min_tokens();

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
  if (sequence.min_tokens > sequence.max_tokens) {
    return refusal("min_tokens is " + std::to_string(sequence.min_tokens) + "; the limit is max_tokens, " +
                   std::to_string(sequence.max_tokens) + ".");
  }
  if (const auto check = check_count("stop_ids", sequence.stop_ids.size(), "ids", kMaxStopIds); !check.ok())
    return check.error();
  if (const auto check = check_ids("token_ids", sequence.token_ids, limits.vocab_size); !check.ok())
    return check.error();
  if (const auto check = check_ids("stop_ids", sequence.stop_ids, limits.vocab_size); !check.ok())
    return check.error();

  if (generate.has_top_logprobs()) sequence.top_logprobs = generate.top_logprobs();
  if (const auto check = check_logprobs("top_logprobs", generate.top_logprobs()); !check.ok())
    return check.error();
  if (generate.has_prompt_logprobs()) sequence.prompt_logprobs = generate.prompt_logprobs();
  if (const auto check = check_logprobs("prompt_logprobs", generate.prompt_logprobs()); !check.ok())
    return check.error();
  sequence.cache_salt = generate.cache_salt();
  if (sequence.cache_salt.size() > kMaxCacheSaltBytes) {
    return refusal("cache_salt has " + std::to_string(sequence.cache_salt.size()) + " bytes; the limit is " +
                   std::to_string(kMaxCacheSaltBytes) + ".");
  }
  Result<SamplingParams> sampling = sampling_from(generate.sampling(), limits.vocab_size);
  if (!sampling.ok()) return sampling.error();
  sequence.sampling = *std::move(sampling);
  if (const auto check = check_masks(sequence, limits.vocab_size); !check.ok()) return check.error();
  return sequence;
}

}  // namespace runnel

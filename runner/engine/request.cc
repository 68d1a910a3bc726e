#include "runner/engine/request.h"

#include <algorithm>
#include <cstdio>
#include <span>
#include <unordered_set>
#include <utility>

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

Result<void> check_logit_bias(std::span<const LogitBias> biases, uint32_t vocab_size) {
  if (const auto check = check_count("logit_bias", biases.size(), "entries", kMaxLogitBiases); !check.ok())
    return check;
  for (size_t i = 0; i < biases.size(); ++i) {
    const std::string field = "logit_bias[" + std::to_string(i) + "]";
    if (biases[i].token_id >= vocab_size) {
      return refusal(field + ".token_id is " + std::to_string(biases[i].token_id) +
                     "; the model's ids are below " + std::to_string(vocab_size) + ".");
    }
    if (const auto check = check_range(field + ".bias", biases[i].bias, -100.0f, 100.0f); !check.ok())
      return check;
  }
  return {};
}

Result<void> check_sampling(const SamplingParams& params, uint32_t vocab_size) {
  const Result<void> checks[] = {
      check_range("temperature", params.temperature, 0.0f, 100.0f),
      check_range("top_p", params.top_p, 0.0f, 1.0f),
      check_range("min_p", params.min_p, 0.0f, 1.0f),
      check_range("repetition_penalty", params.repetition_penalty, 0.0f, 100.0f),
      check_range("presence_penalty", params.presence_penalty, -2.0f, 2.0f),
      check_range("frequency_penalty", params.frequency_penalty, -2.0f, 2.0f),
  };
  for (const Result<void>& check : checks)
    if (!check.ok()) return check;
  if (params.repetition_penalty == 0.0f)
    return refusal("repetition_penalty is 0; it must be above 0, and 1 turns it off.");
  return check_logit_bias(params.logit_bias, vocab_size);
}

// Whether the masks leave an id to draw that is allowed, not banned and not one of excluded.
bool leaves_any(const SamplingParams& params, std::span<const uint32_t> excluded, uint32_t vocab_size) {
  std::unordered_set<uint32_t> masked(params.banned_ids.begin(), params.banned_ids.end());
  masked.insert(excluded.begin(), excluded.end());
  if (params.allowed_ids.empty()) return masked.size() < vocab_size;
  return std::ranges::any_of(params.allowed_ids, [&](uint32_t id) { return !masked.contains(id); });
}

// All masks of a draw of this sequence are known here, except those of a grammar. So no draw without a
// grammar is left without candidates.
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

// An answer by a grammar ends with a stop id, the only token that can be drawn at its end.
Result<void> check_request_grammar(const GrammarSource& grammar, std::span<const uint32_t> stop_ids) {
  if (stop_ids.empty())
    return refusal("A request with a grammar has no stop_ids; nothing could be drawn where its answer ends.");
  return check_grammar(grammar);
}

// num_top is at most kMaxTopLogprobs.
Result<void> check_logprobs(const std::string& field, std::optional<uint32_t> num_top) {
  if (num_top.value_or(0) <= kMaxTopLogprobs) return {};
  return refusal(field + " is " + std::to_string(*num_top) + "; the limit is " +
                 std::to_string(kMaxTopLogprobs) + ".");
}

Result<void> check_salt(const std::string& salt) {
  if (salt.size() <= kMaxCacheSaltBytes) return {};
  return refusal("cache_salt has " + std::to_string(salt.size()) + " bytes; the limit is " +
                 std::to_string(kMaxCacheSaltBytes) + ".");
}

Error no_tokens() {
  return refusal("token_ids is empty; at least one token is needed.");
}

}  // namespace

Result<Sequence> sequence_from(Request request, const RequestLimits& limits) {
  if (limits.is_encoder)
    return refusal(
        "The model is an encoder, which makes vectors of texts and writes none; ask for an embedding.");
  Sequence sequence;
  sequence.request_id = request.request_id;
  sequence.token_ids = std::move(request.token_ids);
  sequence.stop_ids = std::move(request.stop_ids);
  sequence.max_tokens = request.max_tokens;
  sequence.min_tokens = request.min_tokens;

  const uint32_t num_tokens = sequence.num_tokens();
  if (num_tokens == 0) return no_tokens();
  if (num_tokens >= limits.max_model_len) {
    return refusal("token_ids has " + std::to_string(num_tokens) + " ids; the limit is " +
                   std::to_string(limits.max_model_len - 1) + ", one less than the context of " +
                   std::to_string(limits.max_model_len) + ".");
  }
  if (request.num_emitted >= num_tokens) {
    return refusal("num_emitted is " + std::to_string(request.num_emitted) +
                   "; it must be below the number of token_ids, " + std::to_string(num_tokens) + ".");
  }
  if (sequence.max_tokens <= request.num_emitted) {
    return refusal("max_tokens is " + std::to_string(sequence.max_tokens) +
                   "; it must be more than num_emitted, " + std::to_string(request.num_emitted) + ".");
  }
  sequence.num_prompt_tokens = num_tokens - request.num_emitted;
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

  sequence.top_logprobs = request.top_logprobs;
  if (const auto check = check_logprobs("top_logprobs", request.top_logprobs); !check.ok())
    return check.error();
  sequence.prompt_logprobs = request.prompt_logprobs;
  if (const auto check = check_logprobs("prompt_logprobs", request.prompt_logprobs); !check.ok())
    return check.error();
  sequence.cache_salt = std::move(request.cache_salt);
  if (const auto check = check_salt(sequence.cache_salt); !check.ok()) return check.error();
  sequence.kv_from = std::move(request.kv_from);
  const auto num_sources = check_count("kv_from", sequence.kv_from.size(), "descriptors", kMaxKvSources);
  if (!num_sources.ok()) return num_sources.error();
  sequence.sampling = std::move(request.sampling);
  if (const auto check = check_sampling(sequence.sampling, limits.vocab_size); !check.ok())
    return check.error();
  if (const auto check = check_masks(sequence, limits.vocab_size); !check.ok()) return check.error();
  if (!request.grammar) return sequence;
  if (const auto check = check_request_grammar(*request.grammar, sequence.stop_ids); !check.ok())
    return check.error();
  return sequence;
}

Result<Sequence> sequence_from(EmbedRequest request, const RequestLimits& limits) {
  Sequence sequence;
  sequence.request_id = request.request_id;
  sequence.token_ids = std::move(request.token_ids);
  sequence.num_prompt_tokens = sequence.num_tokens();
  sequence.max_tokens = 1;
  if (sequence.num_prompt_tokens == 0) return no_tokens();
  if (sequence.num_prompt_tokens > limits.max_model_len) {
    return refusal("token_ids has " + std::to_string(sequence.num_prompt_tokens) + " ids; the limit is " +
                   std::to_string(limits.max_model_len) + ", the context.");
  }
  if (const auto check = check_ids("token_ids", sequence.token_ids, limits.vocab_size); !check.ok())
    return check.error();
  if (request.pooling == Pooling::kUnknown) return refusal("pooling must be last, mean, cls or rank.");
  if (request.pooling == Pooling::kRank && !limits.has_classifier)
    return refusal("pooling is rank, but the model has no classification head.");
  sequence.second_type_from = request.second_type_from;
  if (request.second_type_from >= sequence.num_prompt_tokens)
    return refusal("second_type_from is " + std::to_string(request.second_type_from) +
                   "; it must be below the number of token_ids, " +
                   std::to_string(sequence.num_prompt_tokens) + ".");
  if (request.second_type_from != 0 && limits.num_token_types < 2)
    return refusal("second_type_from is " + std::to_string(request.second_type_from) +
                   ", but the model has one type of tokens.");
  sequence.pooled = PooledStates(request.pooling, sequence.num_prompt_tokens);
  sequence.cache_salt = std::move(request.cache_salt);
  if (const auto check = check_salt(sequence.cache_salt); !check.ok()) return check.error();
  return sequence;
}

}  // namespace runnel

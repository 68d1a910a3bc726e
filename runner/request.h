// A request as it comes in: every limit of proto/runner.proto checked again, whoever sent it, before a
// sequence is made of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runner/grammar_source.h"
#include "runner/result.h"
#include "runner/sequence.h"

namespace runnel {

constexpr uint32_t kMaxTopLogprobs = 20;
constexpr uint32_t kMaxCacheSaltBytes = 32;

// What is asked for, unchecked: Generate in proto/runner.proto, without its frame.
struct Request {
  uint32_t request_id = 0;
  std::vector<uint32_t> token_ids = {};  // of the prompt, then those that were emitted
  uint32_t num_emitted = 0;              // by earlier runners, the last of token_ids
  uint32_t max_tokens = 0;               // generated tokens in all
  uint32_t min_tokens = 0;
  std::vector<uint32_t> stop_ids = {};
  SamplingParams sampling = {};
  std::optional<uint32_t> top_logprobs = {};     // unset: no log-probabilities
  std::optional<uint32_t> prompt_logprobs = {};  // the same for the prompt's own tokens
  std::string cache_salt = {};
  std::optional<GrammarSource> grammar = {};  // unset: the answer may be anything
};

// Embed in proto/runner.proto, unchecked, without its frame.
struct EmbedRequest {
  uint32_t request_id = 0;
  std::vector<uint32_t> token_ids = {};
  Pooling pooling = Pooling::kUnknown;
  std::string cache_salt = {};
};

// What a request may be depends on the model and on how the runner was started.
struct RequestLimits {
  uint32_t vocab_size;
  uint32_t max_model_len;  // tokens of prompt and answer together
};

// Why an engine refuses or ends a request.
enum class ErrorCode { kOutOfMemory, kQueueFull, kInferenceFailed, kGrammarFailed };

// A request's end without a finish reason.
struct RequestError {
  uint32_t request_id;
  ErrorCode code;
  std::string message;
};

// The sequence that is asked for, without a mask: its grammar is checked and not compiled. Fails with kUsage
// and a sentence that names the field, its value and the limit.
Result<Sequence> sequence_from(Request request, const RequestLimits& limits);
Result<Sequence> sequence_from(EmbedRequest request, const RequestLimits& limits);

}  // namespace runnel

// A request from outside. Every limit of proto/runner.proto is checked again before a sequence is made from
// it, whoever has sent it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runner/engine/grammar_source.h"
#include "runner/engine/sequence.h"
#include "runner/result.h"

namespace runnel {

constexpr uint32_t kMaxTopLogprobs = 20;
constexpr uint32_t kMaxCacheSaltBytes = 32;
constexpr uint32_t kMaxKvSources = 16;

// An unchecked request: Generate in proto/runner.proto without its frame.
struct Request {
  uint32_t request_id = 0;
  std::vector<uint32_t> token_ids = {};  // of the prompt, then the emitted ones
  uint32_t num_emitted = 0;              // ids at the end of token_ids that earlier runners emitted
  uint32_t max_tokens = 0;               // generated tokens in all
  uint32_t min_tokens = 0;
  std::vector<uint32_t> stop_ids = {};
  SamplingParams sampling = {};
  std::optional<uint32_t> top_logprobs = {};     // unset: no log-probabilities
  std::optional<uint32_t> prompt_logprobs = {};  // the same for the prompt's own tokens
  std::string cache_salt = {};
  std::vector<uint32_t> kv_from = {};
  std::optional<GrammarSource> grammar = {};  // unset: the answer may be anything
};

// An unchecked request: Embed in proto/runner.proto without its frame.
struct EmbedRequest {
  uint32_t request_id = 0;
  std::vector<uint32_t> token_ids = {};
  Pooling pooling = Pooling::kUnknown;
  std::string cache_salt = {};
  uint32_t second_type_from = 0;  // index of the first token of the second type; 0: there is none
};

// Limits of requests that depend on the model and on the runner's flags.
struct RequestLimits {
  uint32_t vocab_size;
  uint32_t max_model_len;  // tokens of prompt and answer together
  bool is_encoder = false;
  uint32_t num_token_types = 0;
  bool has_classifier = false;
};

// Why an engine refuses or ends a request.
enum class ErrorCode { kOutOfMemory, kQueueFull, kInferenceFailed, kGrammarFailed };

// The end of a request without a finish reason.
struct RequestError {
  uint32_t request_id;
  ErrorCode code;
  std::string message;
};

// Makes a sequence of a request. Its grammar is checked but not compiled, so the sequence has no mask. Fails
// with kUsage and a sentence that names the field, its value and the limit.
Result<Sequence> sequence_from(Request request, const RequestLimits& limits);
Result<Sequence> sequence_from(EmbedRequest request, const RequestLimits& limits);

}  // namespace runnel

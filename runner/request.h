// A request as it comes in: every limit of proto/runner.proto checked again, whoever sent it, before anything
// is stored.
#pragma once

#include <cstdint>
#include <string>

#include "runner/messages.h"
#include "runner/result.h"
#include "runner/sequence.h"

namespace runnel {

constexpr uint32_t kMaxTopLogprobs = 20;
constexpr uint32_t kMaxCacheSaltBytes = 32;

// What a request may be depends on the model and on how the runner was started.
struct RequestLimits {
  uint32_t vocab_size;
  uint32_t max_model_len;  // tokens of prompt and answer together
};

// Why a request ends without a finish reason.
struct RequestError {
  uint32_t request_id;
  wire::ErrorCode code;
  std::string message;
};

// The sequence that a Generate asks for. Fails with kUsage and a sentence that names the field, its value and
// the limit.
Result<Sequence> sequence_from(const wire::Generate& generate, const RequestLimits& limits);

}  // namespace runnel

#include "runner/bench/bench_request.h"

#include <utility>

namespace runnel {

Request random_prompt(std::mt19937_64& random, uint32_t vocab_size, uint32_t num_prompt_tokens,
                      uint32_t max_tokens) {
  Request request{.max_tokens = max_tokens};
  for (uint32_t i = 0; i < num_prompt_tokens; ++i)
    request.token_ids.push_back(static_cast<uint32_t>(random() % vocab_size));
  request.sampling.temperature = 0.0f;
  return request;
}

Result<void> submit(Request request, Engine& engine) {
  Result<Sequence> sequence = sequence_from(std::move(request), engine.limits());
  if (!sequence.ok()) return sequence.error();
  if (const auto refusal = engine.add(*std::move(sequence))) return Error{ExitCode::kUsage, refusal->message};
  return {};
}

}  // namespace runnel

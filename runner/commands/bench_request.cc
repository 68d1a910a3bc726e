#include "runner/commands/bench_request.h"

#include <utility>

namespace runnel {

wire::Generate random_prompt(std::mt19937_64& random, uint32_t vocab_size, uint32_t num_prompt_tokens,
                             uint32_t max_tokens) {
  wire::Generate request;
  for (uint32_t i = 0; i < num_prompt_tokens; ++i)
    request.add_token_ids(static_cast<uint32_t>(random() % vocab_size));
  request.set_max_tokens(max_tokens);
  request.mutable_sampling()->set_temperature(0.0f);
  return request;
}

Result<void> submit(const wire::Generate& request, Engine& engine) {
  Result<Sequence> sequence = sequence_from(request, engine.limits());
  if (!sequence.ok()) return sequence.error();
  if (const auto refusal = engine.add(*std::move(sequence))) return Error{ExitCode::kUsage, refusal->message};
  return {};
}

}  // namespace runnel

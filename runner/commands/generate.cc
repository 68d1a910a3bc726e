#include "runner/commands/generate.h"

#include <chrono>
#include <nlohmann/json.hpp>
#include <span>

namespace runnel {
namespace {

using Clock = std::chrono::steady_clock;

wire::Generate request_from(const GenerateFlags& flags) {
  wire::Generate request;
  request.set_request_id(1);
  request.mutable_token_ids()->Assign(flags.tokens.begin(), flags.tokens.end());
  request.set_max_tokens(flags.max_tokens);
  request.set_min_tokens(flags.min_tokens);
  request.mutable_stop_ids()->Assign(flags.stop_ids.begin(), flags.stop_ids.end());
  wire::Sampling& sampling = *request.mutable_sampling();
  sampling.set_temperature(flags.sampling.temperature);
  sampling.set_top_k(flags.sampling.top_k);
  sampling.set_top_p(flags.sampling.top_p);
  sampling.set_min_p(flags.sampling.min_p);
  sampling.set_repetition_penalty(flags.sampling.repetition_penalty);
  sampling.set_seed(flags.sampling.seed);
  sampling.set_presence_penalty(flags.sampling.presence_penalty);
  sampling.set_frequency_penalty(flags.sampling.frequency_penalty);
  for (const LogitBias& entry : flags.sampling.logit_bias) {
    wire::LogitBias& bias = *sampling.add_logit_bias();
    bias.set_token_id(entry.token_id);
    bias.set_bias(entry.bias);
  }
  sampling.mutable_allowed_token_ids()->Assign(flags.sampling.allowed_ids.begin(),
                                               flags.sampling.allowed_ids.end());
  sampling.mutable_banned_token_ids()->Assign(flags.sampling.banned_ids.begin(),
                                              flags.sampling.banned_ids.end());
  if (flags.logprobs) request.set_top_logprobs(*flags.logprobs);
  if (flags.prompt_logprobs) request.set_prompt_logprobs(*flags.prompt_logprobs);
  return request;
}

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

nlohmann::ordered_json logprobs_json(const TokenLogprobs& logprobs) {
  return {
      {"logprob", logprobs.logprob}, {"top_ids", logprobs.top_ids}, {"top_logprobs", logprobs.top_logprobs}};
}

nlohmann::ordered_json summary(const std::vector<NewToken>& tokens, std::span<const ScoredToken> scored,
                               const GenerateFlags& flags) {
  nlohmann::ordered_json json;
  json["token_ids"] = nlohmann::json::array();
  for (const NewToken& token : tokens) json["token_ids"].push_back(token.token_id);
  json["finish_reason"] = tokens.back().finish_reason == FinishReason::kStopId ? "stop_id" : "max_tokens";
  json["seed"] = flags.sampling.seed;
  if (flags.logprobs) {
    for (const NewToken& token : tokens) json["logprobs"].push_back(logprobs_json(*token.logprobs));
  }
  if (flags.prompt_logprobs) {
    json["prompt_logprobs"] = nlohmann::json::array();
    for (const ScoredToken& token : scored) json["prompt_logprobs"].push_back(logprobs_json(token.logprobs));
  }
  json["prompt_tokens"] = flags.tokens.size();
  return json;
}

}  // namespace

Result<void> generate(Engine& engine, const GenerateFlags& flags, std::ostream& out) {
  Result<Sequence> sequence = sequence_from(request_from(flags), engine.limits());
  if (!sequence.ok()) return sequence.error();
  if (const auto refusal = engine.add(*std::move(sequence))) return Error{ExitCode::kUsage, refusal->message};

  std::vector<NewToken> tokens;
  std::vector<ScoredToken> scored;
  const Clock::time_point start = Clock::now();
  Clock::time_point first_token = start;
  while (engine.has_work()) {
    const StepOutput output = engine.step();
    if (!output.errors.empty()) return Error{ExitCode::kInternal, output.errors.front().message};
    scored.insert(scored.end(), output.scored.begin(), output.scored.end());
    for (const NewToken& token : output.tokens) {
      if (tokens.empty()) first_token = Clock::now();
      tokens.push_back(token);
      if (!flags.json) out << token.token_id << std::endl;  // flushed, so that a reader sees it come
    }
  }
  if (!flags.json) return {};

  const Clock::time_point end = Clock::now();
  nlohmann::ordered_json json = summary(tokens, scored, flags);
  json["prefill_tok_s"] = static_cast<double>(flags.tokens.size()) / seconds_between(start, first_token);
  // The first token belongs to the prefill.
  const auto num_decoded = static_cast<double>(tokens.size() - 1);
  json["decode_tok_s"] = tokens.size() > 1 ? num_decoded / seconds_between(first_token, end) : 0.0;
  out << json.dump() << std::endl;
  return {};
}

}  // namespace runnel

#include "runner/serving/request_from.h"

namespace runnel {
namespace {

SamplingParams sampling_from(const wire::Sampling& sampling) {
  SamplingParams params;
  if (sampling.has_temperature()) params.temperature = sampling.temperature();
  if (sampling.has_top_k()) params.top_k = sampling.top_k();
  if (sampling.has_top_p()) params.top_p = sampling.top_p();
  if (sampling.has_min_p()) params.min_p = sampling.min_p();
  if (sampling.has_repetition_penalty()) params.repetition_penalty = sampling.repetition_penalty();
  if (sampling.has_presence_penalty()) params.presence_penalty = sampling.presence_penalty();
  if (sampling.has_frequency_penalty()) params.frequency_penalty = sampling.frequency_penalty();
  if (sampling.has_seed()) params.seed = sampling.seed();
  for (const wire::LogitBias& entry : sampling.logit_bias())
    params.logit_bias.push_back({entry.token_id(), entry.bias()});
  params.allowed_ids.assign(sampling.allowed_token_ids().begin(), sampling.allowed_token_ids().end());
  params.banned_ids.assign(sampling.banned_token_ids().begin(), sampling.banned_token_ids().end());
  return params;
}

GrammarKind kind_from(wire::GrammarKind kind) {
  switch (kind) {
    case wire::GRAMMAR_KIND_JSON_SCHEMA:
      return GrammarKind::kJsonSchema;
    case wire::GRAMMAR_KIND_JSON_OBJECT:
      return GrammarKind::kJsonObject;
    case wire::GRAMMAR_KIND_REGEX:
      return GrammarKind::kRegex;
    case wire::GRAMMAR_KIND_EBNF:
      return GrammarKind::kEbnf;
    case wire::GRAMMAR_KIND_STRUCTURAL_TAG:
      return GrammarKind::kStructuralTag;
    default:
      return GrammarKind::kUnknown;
  }
}

Pooling pooling_from(wire::Pooling pooling) {
  switch (pooling) {
    case wire::POOLING_LAST:
      return Pooling::kLast;
    case wire::POOLING_MEAN:
      return Pooling::kMean;
    case wire::POOLING_CLS:
      return Pooling::kCls;
    case wire::POOLING_RANK:
      return Pooling::kRank;
    default:
      return Pooling::kUnknown;
  }
}

}  // namespace

Request request_from(const wire::Generate& generate) {
  Request request;
  request.request_id = generate.request_id();
  request.token_ids.assign(generate.token_ids().begin(), generate.token_ids().end());
  request.num_emitted = generate.num_emitted();
  request.max_tokens = generate.max_tokens();
  request.min_tokens = generate.min_tokens();
  request.stop_ids.assign(generate.stop_ids().begin(), generate.stop_ids().end());
  request.sampling = sampling_from(generate.sampling());
  if (generate.has_top_logprobs()) request.top_logprobs = generate.top_logprobs();
  if (generate.has_prompt_logprobs()) request.prompt_logprobs = generate.prompt_logprobs();
  request.cache_salt = generate.cache_salt();
  request.kv_from.assign(generate.kv_from().begin(), generate.kv_from().end());
  if (generate.has_grammar()) {
    const wire::Grammar& grammar = generate.grammar();
    request.grammar = {
        .kind = kind_from(grammar.kind()), .strict = grammar.strict(), .text = grammar.source()};
  }
  return request;
}

EmbedRequest request_from(const wire::Embed& embed) {
  return {.request_id = embed.request_id(),
          .token_ids = {embed.token_ids().begin(), embed.token_ids().end()},
          .pooling = pooling_from(embed.pooling()),
          .cache_salt = embed.cache_salt(),
          .second_type_from = embed.second_type_from()};
}

}  // namespace runnel

#include <cmath>
#include <functional>
#include <numeric>

#include "runner/serving/request_from.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

constexpr RequestLimits kLimits{.vocab_size = 1000, .max_model_len = 50};

wire::Generate good() {
  wire::Generate generate;
  generate.set_request_id(1);
  for (uint32_t id = 0; id < 10; ++id) generate.add_token_ids(id);
  generate.set_num_emitted(4);
  generate.set_max_tokens(20);
  return generate;
}

void add_bias(wire::Generate& generate, uint32_t token_id, float bias) {
  wire::LogitBias& entry = *generate.mutable_sampling()->add_logit_bias();
  entry.set_token_id(token_id);
  entry.set_bias(bias);
}

// The sentence that refuses the request, or "".
std::string refusal_of(const std::function<void(wire::Generate&)>& change) {
  wire::Generate generate = good();
  change(generate);
  const Result<Sequence> sequence = sequence_from(generate, kLimits);
  if (sequence.ok()) return "";
  CHECK(sequence.error().exit_code == ExitCode::kUsage);
  return sequence.error().message;
}

}  // namespace

TEST_CASE("request: defaults are those of the protocol, and emitted tokens count as generated") {
  const Sequence sequence = sequence_from(good(), kLimits).value();
  CHECK(sequence.num_prompt_tokens == 6);
  CHECK(sequence.num_generated() == 4);
  CHECK(sequence.sampling.temperature == 1.0f);
  CHECK(sequence.sampling.top_k == 0);
  CHECK(sequence.sampling.top_p == 1.0f);
  CHECK(sequence.sampling.min_p == 0.0f);
  CHECK(sequence.sampling.repetition_penalty == 1.0f);
  CHECK(sequence.sampling.presence_penalty == 0.0f);
  CHECK(sequence.sampling.frequency_penalty == 0.0f);
  CHECK(sequence.sampling.logit_bias.empty());
  CHECK(sequence.sampling.seed == 0);
  CHECK(sequence.sampling.allowed_ids.empty());
  CHECK(sequence.sampling.banned_ids.empty());
  CHECK(sequence.min_tokens == 0);
  CHECK_FALSE(sequence.prompt_logprobs);
  CHECK_FALSE(sequence.top_logprobs);
}

TEST_CASE("request: every limit is checked, and the sentence names field, value and limit") {
  using G = wire::Generate;
  const float nan = std::nanf("");
  CHECK(refusal_of([](G& g) { g.clear_token_ids(); }) == "token_ids is empty; at least one token is needed.");
  CHECK(refusal_of([](G& g) {
          for (uint32_t i = 0; i < 40; ++i) g.add_token_ids(0);
        }) == "token_ids has 50 ids; the limit is 49, one less than the context of 50.");
  CHECK(refusal_of([](G& g) { g.set_token_ids(3, 1000); }) ==
        "token_ids[3] is 1000; the model's ids are below 1000.");
  CHECK(refusal_of([](G& g) { g.set_num_emitted(10); }) ==
        "num_emitted is 10; it must be below the number of token_ids, 10.");
  CHECK(refusal_of([](G& g) { g.set_max_tokens(4); }) ==
        "max_tokens is 4; it must be more than num_emitted, 4.");
  CHECK(refusal_of([](G& g) { g.add_stop_ids(4294967295u); }) ==
        "stop_ids[0] is 4294967295; the model's ids are below 1000.");
  CHECK(refusal_of([](G& g) {
          for (uint32_t i = 0; i < 65; ++i) g.add_stop_ids(1);
        }) == "stop_ids has 65 ids; the limit is 64.");
  CHECK(refusal_of([](G& g) { g.set_cache_salt(std::string(32, '\0')); }) == "");
  CHECK(refusal_of([](G& g) { g.set_cache_salt(std::string(33, 'x')); }) ==
        "cache_salt has 33 bytes; the limit is 32.");
  CHECK(refusal_of([](G& g) { g.set_top_logprobs(21); }) == "top_logprobs is 21; the limit is 20.");
  CHECK(refusal_of([](G& g) { g.mutable_sampling()->set_temperature(-0.5f); }) ==
        "temperature is -0.5; the limit is 0 to 100.");
  CHECK(refusal_of([&](G& g) { g.mutable_sampling()->set_temperature(nan); }) ==
        "temperature is nan; the limit is 0 to 100.");
  CHECK(refusal_of([](G& g) { g.mutable_sampling()->set_top_p(1.5f); }) ==
        "top_p is 1.5; the limit is 0 to 1.");
  CHECK(refusal_of([](G& g) { g.mutable_sampling()->set_min_p(-1.0f); }) ==
        "min_p is -1; the limit is 0 to 1.");
  CHECK(refusal_of([](G& g) { g.mutable_sampling()->set_repetition_penalty(0.0f); }) ==
        "repetition_penalty is 0; it must be above 0, and 1 turns it off.");
  CHECK(refusal_of([](G& g) { g.mutable_sampling()->set_repetition_penalty(100.5f); }) ==
        "repetition_penalty is 100.5; the limit is 0 to 100.");
  CHECK(refusal_of([](G& g) { g.mutable_sampling()->set_presence_penalty(2.5f); }) ==
        "presence_penalty is 2.5; the limit is -2 to 2.");
  CHECK(refusal_of([](G& g) { g.mutable_sampling()->set_frequency_penalty(-2.5f); }) ==
        "frequency_penalty is -2.5; the limit is -2 to 2.");
  CHECK(refusal_of([](G& g) {
          add_bias(g, 999, 1.0f);
          add_bias(g, 1000, 1.0f);
        }) == "logit_bias[1].token_id is 1000; the model's ids are below 1000.");
  CHECK(refusal_of([](G& g) { add_bias(g, 5, -100.5f); }) ==
        "logit_bias[0].bias is -100.5; the limit is -100 to 100.");
  CHECK(refusal_of([&](G& g) { add_bias(g, 5, nan); }) ==
        "logit_bias[0].bias is nan; the limit is -100 to 100.");
  CHECK(refusal_of([](G& g) {
          for (uint32_t i = 0; i < 1025; ++i) add_bias(g, 5, 0.0f);
        }) == "logit_bias has 1025 entries; the limit is 1024.");
  CHECK(refusal_of([](G& g) { g.set_prompt_logprobs(21); }) == "prompt_logprobs is 21; the limit is 20.");
  CHECK(refusal_of([](G& g) { g.set_min_tokens(21); }) == "min_tokens is 21; the limit is max_tokens, 20.");
  for (const std::string field : {"allowed_token_ids", "banned_token_ids"}) {
    const auto ids_of = [&](G& g) {
      wire::Sampling& sampling = *g.mutable_sampling();
      return field == "allowed_token_ids" ? sampling.mutable_allowed_token_ids()
                                          : sampling.mutable_banned_token_ids();
    };
    CHECK(refusal_of([&](G& g) {
            ids_of(g)->Add(999);
            ids_of(g)->Add(1000);
          }) == field + "[1] is 1000; the model's ids are below 1000.");
    CHECK(refusal_of([&](G& g) {
            for (uint32_t i = 0; i < 1025; ++i) ids_of(g)->Add(5);
          }) == field + " has 1025 ids; the limit is 1024.");
  }
}

TEST_CASE("request: masks that could exclude every token are refused") {
  const auto refusal = [](std::vector<uint32_t> allowed, std::vector<uint32_t> banned,
                          std::vector<uint32_t> stop_ids, uint32_t min_tokens) {
    return refusal_of([&](wire::Generate& generate) {
      generate.mutable_sampling()->mutable_allowed_token_ids()->Assign(allowed.begin(), allowed.end());
      generate.mutable_sampling()->mutable_banned_token_ids()->Assign(banned.begin(), banned.end());
      generate.mutable_stop_ids()->Assign(stop_ids.begin(), stop_ids.end());
      generate.set_min_tokens(min_tokens);
    });
  };
  const std::string nothing =
      "allowed_token_ids and banned_token_ids leave no token to draw; allow one that is not banned.";
  const std::string only_stops =
      "min_tokens is 9, but allowed_token_ids and banned_token_ids leave nothing to draw besides stop_ids; "
      "make it 0, or allow another token.";
  CHECK(refusal({1, 2}, {2, 1, 3}, {}, 0) == nothing);
  CHECK(refusal({1, 2}, {2, 3}, {}, 0) == "");
  CHECK(refusal({1, 2}, {}, {2, 1, 3}, 0) == "");
  CHECK(refusal({1, 2}, {}, {2, 1, 3}, 9) == only_stops);
  CHECK(refusal({1, 2, 4}, {4}, {2, 1, 3}, 9) == only_stops);
  CHECK(refusal({1, 2, 4}, {}, {2, 1, 3}, 9) == "");
  // All ids of the vocabulary of 1000.
  std::vector<uint32_t> all(1000);
  std::iota(all.begin(), all.end(), 0u);
  CHECK(refusal({}, all, {}, 0) == nothing);
  const std::vector<uint32_t> all_but_one(all.begin() + 1, all.end());
  CHECK(refusal({}, all_but_one, {}, 9) == "");
  CHECK(refusal({}, all_but_one, {0}, 0) == "");
  CHECK(refusal({}, all_but_one, {0}, 9) == only_stops);
}

TEST_CASE("request: values at their limits pass") {
  CHECK(refusal_of([](wire::Generate& generate) {
          for (uint32_t i = 0; i < 39; ++i) generate.add_token_ids(999);
          for (uint32_t i = 0; i < 64; ++i) generate.add_stop_ids(998);
          generate.set_top_logprobs(20);
          generate.set_prompt_logprobs(20);
          generate.set_max_tokens(5);
          generate.set_min_tokens(5);
          wire::Sampling& sampling = *generate.mutable_sampling();
          sampling.set_temperature(100.0f);
          sampling.set_top_k(4294967295u);
          sampling.set_top_p(0.0f);
          sampling.set_min_p(1.0f);
          sampling.set_repetition_penalty(100.0f);
          sampling.set_presence_penalty(2.0f);
          sampling.set_frequency_penalty(-2.0f);
          for (uint32_t i = 0; i < 1024; ++i) add_bias(generate, 999, i % 2 == 0 ? 100.0f : -100.0f);
          for (uint32_t i = 0; i < 1024; ++i) sampling.add_allowed_token_ids(i % 1000);
          for (uint32_t i = 0; i < 1024; ++i) sampling.add_banned_token_ids(i % 999);
          sampling.set_seed(18446744073709551615u);
        }) == "");
}

TEST_CASE("request: a vector request has its own limits and may fill the context") {
  const auto with = [](size_t num_ids, Pooling pooling, const std::string& salt = "") {
    return EmbedRequest{.request_id = 1,
                        .token_ids = std::vector<uint32_t>(num_ids, 7),
                        .pooling = pooling,
                        .cache_salt = salt};
  };
  const auto refusal = [](EmbedRequest request) {
    const Result<Sequence> sequence = sequence_from(std::move(request), kLimits);
    return sequence.ok() ? "" : sequence.error().message;
  };
  const Sequence longest = sequence_from(with(50, Pooling::kMean), kLimits).value();
  CHECK(longest.num_prompt_tokens == 50);
  CHECK(longest.pooled.has_value());
  CHECK(refusal(with(51, Pooling::kMean)) == "token_ids has 51 ids; the limit is 50, the context.");
  CHECK(refusal(with(0, Pooling::kMean)) == "token_ids is empty; at least one token is needed.");
  CHECK(refusal(with(1, Pooling::kUnknown)) == "pooling must be last, mean, cls or rank.");
  CHECK(refusal(with(1, Pooling::kRank)) == "pooling is rank, but the model has no classification head.");
  EmbedRequest pair = with(5, Pooling::kRank);
  RequestLimits reranker = kLimits;
  reranker.has_classifier = true;
  pair.second_type_from = 3;
  CHECK(sequence_from(pair, reranker).error().message ==
        "second_type_from is 3, but the model has one type of tokens.");
  reranker.num_token_types = 2;
  CHECK(sequence_from(pair, reranker)->second_type_from == 3);
  pair.second_type_from = 5;
  CHECK(sequence_from(pair, reranker).error().message ==
        "second_type_from is 5; it must be below the number of token_ids, 5.");
  CHECK(refusal(with(1, Pooling::kLast, std::string(33, 'x'))) ==
        "cache_salt has 33 bytes; the limit is 32.");
  EmbedRequest outside = with(2, Pooling::kLast);
  outside.token_ids[1] = 1000;
  CHECK(refusal(outside) == "token_ids[1] is 1000; the model's ids are below 1000.");
}

}  // namespace runnel

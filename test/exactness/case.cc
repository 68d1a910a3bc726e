#include "test/exactness/case.h"

#include <algorithm>

namespace runnel::exactness {
namespace {

// Chooses every kind of sampling, but none so often that it hides the others. plain: none that lists ids.
void choose_sampling(Random& random, uint32_t vocab_size, bool plain, wire::Sampling& sampling) {
  sampling.set_temperature(random.pick({0.0f, 0.0f, 0.3f, 0.7f, 1.0f, 1.0f, 1.8f}));
  sampling.set_seed(random.bits());
  if (random.one_in(4)) sampling.set_top_k(random.pick({1u, 5u, 40u}));
  if (random.one_in(4)) sampling.set_top_p(random.pick({0.0f, 0.5f, 0.9f, 0.99f}));
  if (random.one_in(4)) sampling.set_min_p(random.pick({0.02f, 0.2f, 1.0f}));
  if (plain) return;
  if (random.one_in(4)) sampling.set_repetition_penalty(random.pick({0.8f, 1.1f, 1.7f}));
  if (random.one_in(4)) sampling.set_presence_penalty(random.pick({-1.0f, 0.4f, 2.0f}));
  if (random.one_in(4)) sampling.set_frequency_penalty(random.pick({-0.3f, 0.2f, 1.5f}));
  if (random.one_in(6)) {
    for (uint32_t i = random.between(1, 5); i > 0; --i) {
      wire::LogitBias& bias = *sampling.add_logit_bias();
      bias.set_token_id(random.below(vocab_size));
      bias.set_bias(random.pick({-100.0f, -2.0f, 0.5f, 3.0f}));
    }
  }
  // With so few candidates answers repeat themselves, which gives drafts.
  if (random.one_in(6)) sampling.set_top_k(random.pick({1u, 2u}));
  // More ids are allowed than can be banned or be stop ids, so some are left to draw.
  if (random.one_in(8))
    for (uint32_t id = random.below(10); id < vocab_size; id += vocab_size / 25)
      sampling.add_allowed_token_ids(id);
  if (random.one_in(8))
    for (const uint32_t id : random.ids(5, vocab_size)) sampling.add_banned_token_ids(id);
}

// Two thirds of the prompts begin with tokens of the request under test.
void choose_prompt(Random& random, const Sizes& sizes, uint32_t vocab_size, const wire::Generate& under_test,
                   wire::Generate& request) {
  const auto num_shareable = static_cast<uint32_t>(under_test.token_ids_size());
  if (num_shareable > 0 && !random.one_in(3)) {
    const uint32_t num_shared = random.between(num_shareable / 2, num_shareable);
    for (uint32_t i = 0; i < num_shared; ++i) request.add_token_ids(under_test.token_ids(i));
  }
  const uint32_t num_left = sizes.max_prompt_tokens - request.token_ids_size();
  const uint32_t num_own =
      request.token_ids().empty() ? random.between(1, num_left) : random.below(num_left + 1);
  // Half of the prompts repeat themselves, so that drafts are made from them.
  const std::vector<uint32_t> own = random.ids(num_own, vocab_size);
  const uint32_t period = random.one_in(2) ? random.between(1, 12) : num_own;
  for (uint32_t i = 0; i < num_own; ++i) request.add_token_ids(own[i % period]);
}

wire::Generate random_request(Random& random, const Sizes& sizes, uint32_t vocab_size, uint32_t request_id,
                              bool plain, const wire::Generate& under_test) {
  wire::Generate request;
  request.set_request_id(request_id);
  choose_prompt(random, sizes, vocab_size, under_test, request);
  request.set_max_tokens(random.between(sizes.max_answer_tokens / 4, sizes.max_answer_tokens));
  if (random.one_in(3))
    for (const uint32_t id : random.ids(random.between(1, 4), vocab_size)) request.add_stop_ids(id);
  if (random.one_in(6)) request.set_min_tokens(random.between(1, request.max_tokens()));
  if (random.one_in(6)) request.set_cache_salt("another tenant");
  choose_sampling(random, vocab_size, plain, *request.mutable_sampling());
  return request;
}

}  // namespace

Case random_case(Random& random, const Sizes& sizes, uint32_t vocab_size) {
  Case made;
  made.is_plain = sizes.has_graphs && random.one_in(2);
  made.request = random_request(random, sizes, vocab_size, kRequestUnderTest, made.is_plain, {});
  // In half of the cases the others are far ahead, so that shared prefixes are already in the cache.
  made.arrivals.push_back({made.request, random.one_in(2) ? random.below(4) : random.between(8, 24)});
  const uint32_t num_neighbours = random.between(1, sizes.max_neighbours);
  for (uint32_t i = 0; i < num_neighbours; ++i) {
    made.arrivals.push_back(
        {random_request(random, sizes, vocab_size, kRequestUnderTest + 1 + i, made.is_plain, made.request),
         random.below(8)});
    if (random.one_in(4))
      made.arrivals.back().pooling =
          random.pick({Pooling::kLast, Pooling::kMean, Pooling::kMean, Pooling::kCls});
  }
  uint32_t longest = 0;
  for (const Arrival& arrival : made.arrivals)
    longest = std::max(longest, static_cast<uint32_t>(arrival.request.token_ids_size()));
  made.max_model_len = random.between(longest + 2, sizes.max_prompt_tokens + sizes.max_answer_tokens + 2);
  return made;
}

}  // namespace runnel::exactness

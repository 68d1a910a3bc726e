// Natural logarithms of the model's own probabilities, for requests that ask and for the score command: one
// function, so that both give the same bits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace runnel {

struct TokenLogprobs {
  float logprob = 0.0f;           // of the token
  std::vector<uint32_t> top_ids;  // most likely first, ties to the lower id
  std::vector<float> top_logprobs;
};

// log_softmax of logits (vocab_size), all finite, in double and rounded once at the end; num_top most likely
// ids, all if there are fewer.
TokenLogprobs compute_logprobs(std::span<const float> logits, uint32_t token_id, uint32_t num_top);

}  // namespace runnel

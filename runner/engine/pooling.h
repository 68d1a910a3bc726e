// Makes one vector for a text from the hidden states of its tokens. docs/numerics.md has the formula. It is
// computed on the host for every backend, token by token, with single additions in double precision, so that
// the result depends neither on how the prompt was cut nor on the other sequences of a step.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace runnel {

// kUnknown: a value in a frame that this program does not know; sequence_from refuses it.
// kRank: the state of the first token, of which a classification head makes a number.
enum class Pooling { kUnknown, kLast, kMean, kCls, kRank };

class PooledStates {
 public:
  PooledStates() = default;
  // num_tokens is the number of tokens of the text, at least 1.
  PooledStates(Pooling pooling, uint32_t num_tokens) : pooling_(pooling), num_tokens_(num_tokens) {}

  // Whether the state of the token at this position must still be added. A state that was added is not wanted
  // again, though it may be computed again.
  bool wants(uint32_t position) const;
  // Whether the state of a token before the last one is still wanted. That token must then be computed, even
  // if its K and V are stored.
  bool wants_earlier() const { return !is_complete() && pooling_ != Pooling::kLast; }
  // Adds a state. States are added in the order of positions, each when it is wanted. All states of a text
  // have the same width.
  void add(std::span<const float> state);
  bool is_complete() const { return num_tokens_ > 0 && num_added_ == num_wanted(); }
  bool is_ranked() const { return pooling_ == Pooling::kRank; }
  // The vector. All states that are wanted must have been added.
  std::vector<float> vector() const;

 private:
  uint32_t num_wanted() const { return pooling_ == Pooling::kMean ? num_tokens_ : 1; }

  Pooling pooling_ = Pooling::kLast;
  uint32_t num_tokens_ = 0;
  uint32_t num_added_ = 0;
  std::vector<double> sums_;
};

}  // namespace runnel

// One vector of a text, made of the hidden states of its tokens. docs/numerics.md has the formula. It is
// computed here, on the host, whatever computes the states: a token after the other, in single additions of
// double precision, so that neither the cuts of a prompt nor its neighbours in a step show in the result.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace runnel {

// kUnknown: one that a frame named and this program does not know; sequence_from refuses it.
enum class Pooling { kUnknown, kLast, kMean, kCls };

class PooledStates {
 public:
  PooledStates() = default;
  // num_tokens: of the text; at least 1.
  PooledStates(Pooling pooling, uint32_t num_tokens) : pooling_(pooling), num_tokens_(num_tokens) {}

  // Whether the state of the token at this position is still to be added. After one was added it is not
  // wanted again, though it may be computed again.
  bool wants(uint32_t position) const;
  // Whether a token's state is still wanted that comes before the last one: it has to be computed then, also
  // where its K and V are stored.
  bool wants_earlier() const { return !is_complete() && pooling_ != Pooling::kLast; }
  // The first one that is wanted, in the order of positions; all of a text have the same width.
  void add(std::span<const float> state);
  bool is_complete() const { return num_tokens_ > 0 && num_added_ == num_wanted(); }
  // Once it is complete.
  std::vector<float> vector() const;

 private:
  uint32_t num_wanted() const { return pooling_ == Pooling::kMean ? num_tokens_ : 1; }

  Pooling pooling_ = Pooling::kLast;
  uint32_t num_tokens_ = 0;
  uint32_t num_added_ = 0;
  std::vector<double> sums_;
};

}  // namespace runnel

#include "runner/engine/pooling.h"

#include "runner/check.h"

namespace runnel {

bool PooledStates::wants(uint32_t position) const {
  if (is_complete()) return false;
  if (pooling_ == Pooling::kMean) return position >= num_added_;
  return position == (pooling_ == Pooling::kLast ? num_tokens_ - 1 : 0);
}

void PooledStates::add(std::span<const float> state) {
  CHECK(!is_complete());
  sums_.resize(state.size());
  for (size_t i = 0; i < state.size(); ++i) sums_[i] = sums_[i] + double{state[i]};
  ++num_added_;
}

std::vector<float> PooledStates::vector() const {
  CHECK(is_complete());
  std::vector<float> vector;
  vector.reserve(sums_.size());
  for (const double sum : sums_) vector.push_back(static_cast<float>(sum / num_added_));
  return vector;
}

}  // namespace runnel

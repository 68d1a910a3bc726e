// How long steps wait for masks. The time is an account: what steps compute is added, what they wait is
// taken. So steps wait no longer in all than they compute, and a sequence without a mask keeps at least half
// of its steps, however slow the masks of others are.
#pragma once

#include <algorithm>
#include <chrono>

namespace runnel {

// Limit of the time for which one step waits for masks.
constexpr std::chrono::nanoseconds kMaxMaskWait = std::chrono::milliseconds(20);

class MaskBudget {
 public:
  std::chrono::nanoseconds left() const { return left_; }
  void computed(std::chrono::nanoseconds time) { left_ = std::min(kMaxMaskWait, left_ + time); }
  void waited(std::chrono::nanoseconds time) { left_ -= std::min(left_, time); }

 private:
  std::chrono::nanoseconds left_{};
};

}  // namespace runnel

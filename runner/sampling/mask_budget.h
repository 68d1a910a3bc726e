// How long steps wait for masks. The time is an account: a quarter of what steps compute is added, what they
// wait is taken. So a sequence without a mask keeps at least four fifths of its steps, however slow the masks
// of others are, less what filling these masks takes of the cores.
#pragma once

#include <algorithm>
#include <chrono>

namespace runnel {

// Limit of the time for which one step waits for masks.
constexpr std::chrono::nanoseconds kMaxMaskWait = std::chrono::milliseconds(20);
// Steps compute this many times as long in all as they wait.
constexpr int kComputedPerWait = 4;

class MaskBudget {
 public:
  std::chrono::nanoseconds left() const { return left_; }
  void computed(std::chrono::nanoseconds time) {
    left_ = std::min(kMaxMaskWait, left_ + time / kComputedPerWait);
  }
  void waited(std::chrono::nanoseconds time) { left_ -= std::min(left_, time); }

 private:
  std::chrono::nanoseconds left_{};
};

}  // namespace runnel

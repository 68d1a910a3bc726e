// How long the parts of a start took, for one line of text.
#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "runner/system/steady_clock.h"

namespace runnel {

class StartTimes {
 public:
  // The first part begins now.
  explicit StartTimes(SteadyClock now = std::chrono::steady_clock::now);

  // Ends a part, which began where the one before ended. remark: stands behind its time, in brackets.
  void end(const std::string& part, const std::string& remark = "");
  // "12.3 ms: driver 1.2, weights 11.1 (1 of them waiting)"
  std::string text() const;

 private:
  struct Part {
    std::string text;
    std::chrono::nanoseconds took;
  };

  SteadyClock now_;
  std::chrono::steady_clock::time_point began_at_;
  std::vector<Part> parts_;
};

// "12.3"
std::string milliseconds_text(std::chrono::nanoseconds time);

}  // namespace runnel

#include "runner/system/start_times.h"

#include <cstdio>

namespace runnel {

std::string milliseconds_text(std::chrono::nanoseconds time) {
  char text[32];
  const double milliseconds = std::chrono::duration<double, std::milli>(time).count();
  std::snprintf(text, sizeof text, "%.1f", milliseconds);
  return text;
}

StartTimes::StartTimes(SteadyClock now) : now_(std::move(now)), began_at_(now_()) {}

void StartTimes::end(const std::string& part, const std::string& remark) {
  const auto ended_at = now_();
  const auto took = ended_at - std::exchange(began_at_, ended_at);
  const std::string text = part + " " + milliseconds_text(took);
  parts_.push_back({remark.empty() ? text : text + " (" + remark + ")", took});
}

std::string StartTimes::text() const {
  std::chrono::nanoseconds sum{0};
  std::string parts;
  for (const Part& part : parts_) {
    sum += part.took;
    parts += (parts.empty() ? "" : ", ") + part.text;
  }
  return milliseconds_text(sum) + " ms: " + parts;
}

}  // namespace runnel

#include "runner/models/windows.h"

#include <utility>

namespace runnel {

Result<void> read_mixed_windows(const HyperParameters& parameters, uint32_t usual_every,
                                ModelConfig& config) {
  constexpr uint64_t kMaxGlobalEvery = 1024;
  config.local_window = std::exchange(config.sliding_window, 0);
  const Result<uint32_t> every =
      parameters.count("attention.sliding_window_pattern", kMaxGlobalEvery, usual_every);
  if (!every) return every.error();
  config.global_every = *every;
  return {};
}

}  // namespace runnel

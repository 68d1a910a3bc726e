// cpu-runner generate: token ids in, token ids out, for use by hand.
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <vector>

#include "runner/engine/engine.h"
#include "runner/result.h"

namespace runnel {

struct GenerateFlags {
  std::vector<uint32_t> tokens;
  uint32_t max_tokens = 128;
  uint32_t min_tokens = 0;
  std::vector<uint32_t> stop_ids;
  SamplingParams sampling;
  std::optional<uint32_t> logprobs;
  std::optional<uint32_t> prompt_logprobs;
  bool json = false;
};

// Prints each id on a line of its own as soon as it is drawn, or with json one object at the end. Fails with
// kUsage for values outside the limits of a request, and with kInternal if the model gives no usable logits.
Result<void> generate(Engine& engine, const GenerateFlags& flags, std::ostream& out);

}  // namespace runnel

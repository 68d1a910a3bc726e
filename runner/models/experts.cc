#include "runner/models/experts.h"

#include <algorithm>
#include <string>
#include <utility>

#include "runner/backend/decoder_spec.h"

namespace runnel {

Result<void> read_experts(const HyperParameters& parameters, const char* width_key, ModelConfig& config) {
  constexpr uint64_t kMaxExpertWidth = 1 << 16;
  // A tile of a product may have rows of only one expert.
  constexpr uint32_t kTileRows = 32;
  const Result<uint32_t> num_experts = parameters.count("expert_count", kMaxExperts);
  if (!num_experts) return num_experts.error();
  const Result<uint32_t> num_used =
      parameters.count("expert_used_count", std::min(*num_experts, kMaxUsedExperts));
  if (!num_used) return num_used.error();
  const Result<uint32_t> width = parameters.count(width_key, kMaxExpertWidth);
  if (!width) return width.error();
  for (const auto& [name, size] :
       {std::pair(width_key, *width), std::pair("embedding_length", config.hidden_size)}) {
    if (size % kTileRows != 0) {
      return parameters.error("has " + parameters.key(name) + " " + std::to_string(size) +
                              "; with experts it must be a multiple of " + std::to_string(kTileRows));
    }
  }
  config.num_experts = *num_experts;
  config.num_used_experts = *num_used;
  config.expert_ffn_size = *width;
  return {};
}

}  // namespace runnel

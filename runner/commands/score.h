// cpu-runner score: what the model thinks of given tokens, through the same scheduler and forward that serve
// uses.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "runner/engine.h"
#include "runner/result.h"

namespace runnel {

// The ids in a file that holds a JSON array of them. Fails with kNoFile, kNoPermission, or kUsage for other
// content.
Result<std::vector<uint32_t>> read_token_ids(const std::string& path);

// Prints {"next_logprob":[n-1],"top_ids":[[num_top] n],"top_logprob":[[num_top] n]}, natural logarithms;
// entry i is given ids 0 to i. Numbers have nine digits, so that the bits of a float survive. Fails as
// generate does.
Result<void> score(Engine& engine, std::vector<uint32_t> token_ids, uint32_t num_top, std::ostream& out);

}  // namespace runnel

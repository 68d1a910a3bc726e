// cpu-runner score: the model's probabilities of given tokens, by the same scheduler and forward pass as in
// serve.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "runner/engine/engine.h"
#include "runner/result.h"

namespace runnel {

// Reads the ids of a file with a JSON array of them. Fails with kNoFile, kNoPermission, or kUsage for other
// content.
Result<std::vector<uint32_t>> read_token_ids(const std::string& path);

// Prints {"next_logprob":[n-1],"top_ids":[[num_top] n],"top_logprob":[[num_top] n]} with natural logarithms.
// Entry i is conditional on ids 0 to i. Numbers have nine digits, which preserve the bits of a float. Fails
// as generate does.
Result<void> score(Engine& engine, std::vector<uint32_t> token_ids, uint32_t num_top, std::ostream& out);

}  // namespace runnel

// The requests of nano-vLLM's benchmark (github.com/GeeeekExplorer/nano-vllm, bench.py): 256 random prompts
// of 100 to 1,024 ids, with answers of 100 to 1,024 tokens that nothing ends earlier.
#pragma once

#include <cstdint>
#include <vector>

#include "runner/engine/request.h"

namespace runnel {

constexpr uint32_t kWorkloadSize = 256;

// The first num_requests of them, with request ids from 1 on. Ids are taken modulo vocab_size, for small
// models.
std::vector<Request> nano_vllm_workload(uint32_t num_requests, uint32_t vocab_size);

}  // namespace runnel

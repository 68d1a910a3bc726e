// What a runner would take of the memory with a model, found without reading its weights.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runner/commands/loaded_model.h"
#include "runner/formats/model_files.h"
#include "runner/result.h"

namespace runnel {

struct MemoryPlan {
  std::string device;
  uint32_t max_model_len;  // tokens of prompt and answer together
  uint32_t max_num_seqs;
  // In bytes, on the device.
  uint64_t weights;                   // of the tensors, as they are handed to it
  uint64_t kv_cache;                  // as it is reserved
  uint64_t step;                      // set aside for what a step computes, before there is one
  std::optional<uint64_t> available;  // there; none: nobody knows

  uint64_t total() const { return weights + kv_cache + step; }
};

// Does all that serving begins with, on a backend that gets a row of each type of matrix and one block of the
// cache. Fails as load() does: with what would keep the model from being served.
Result<MemoryPlan> plan_memory(const EngineFlags& flags, const ModelFiles& files,
                               const BackendFactory& factory);

// Why what is planned does not fit; none: it does, or nobody knows.
std::optional<std::string> shortage_of(const MemoryPlan& plan);

}  // namespace runnel

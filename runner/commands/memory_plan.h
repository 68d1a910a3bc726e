// How much memory a runner takes with a model, and how large its KV cache becomes. All of it is computed
// before anything is allocated, and no weight is read, so a model that does not fit is refused before its
// load. The order is: the memory that may be used, weights, KV cache and with it the context, and then what
// depends on the context.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runner/backend/backend.h"
#include "runner/formats/model_file.h"
#include "runner/models/model.h"
#include "runner/result.h"

namespace runnel {

struct EngineFlags;

// Part of the memory that is kept for what requests add: their tokens, the bookkeeping of blocks, frames.
constexpr uint64_t kReserveShare = 32;  // it is 1 / kReserveShare of all memory
constexpr uint64_t kMinReserveBytes = uint64_t{4} << 20;

// The memory of the device, or of this process where the device uses the system's memory.
struct UsableMemory {
  std::optional<uint64_t> available;  // bytes that can be taken now; nothing: unknown
  uint64_t process = 0;               // bytes that this process holds already; 0 on a device
  std::optional<uint64_t> of_device;  // all bytes of a device with memory of its own, used or free
  // Bytes of the device that a first step was seen to take beside what a plan counts, and that graphs will
  // take.
  uint64_t unplanned = 0;
  // With several runners: what all of them can have, of which this one takes no more than its part. The
  // others may not have taken theirs yet.
  std::optional<uint64_t> of_all_runners;
};

// The share of a device's memory that everything on it may take if nobody has set one.
constexpr double kDefaultUtilization = 0.9;
// The share that decides the size of the KV cache. Nothing if something else does: a flag, or
// --available-bytes, with which several models share the device.
std::optional<double> share_of_device(const EngineFlags& flags, const UsableMemory& usable);

UsableMemory usable_memory(const EngineFlags& flags, Backend& backend);

struct MemoryPlan {
  uint32_t max_model_len;  // tokens of prompt and answer together
  uint32_t num_blocks;
  KvShape shape;
  std::vector<uint32_t> windows;  // by group of layers, see KvGroups
  // In bytes.
  uint64_t process;  // see UsableMemory
  uint64_t weights;
  uint64_t kv_cache;
  StepMemory step;
  uint64_t requests;                  // kept for them; 0 on a device
  std::optional<uint64_t> available;  // see UsableMemory

  // What is still to be taken.
  uint64_t needed() const { return weights + kv_cache + step.total() + requests; }
  uint64_t total() const { return process + needed(); }
};

// What a model computes, with the handles that its weights will have, and the bytes that they will take.
struct CountedWeights {
  DecoderSpec spec;
  uint64_t bytes;
};
// Loads no weight. Fails as load_weights does.
Result<CountedWeights> count_weights(const ModelFile& file, const ModelConfig& config, Backend& backend);

// Also tells the backend what it will share with other ranks, if there are any, and fails as Backend::share
// does. Fails with kUsage for flags that contradict each other or the model, and with kBadModel as load()
// does. The plan may exceed the available memory.
Result<MemoryPlan> plan_memory(const EngineFlags& flags, const ModelFile& file, Backend& backend,
                               UsableMemory usable);

// kSystem with all figures if the plan exceeds the available memory. Nothing if it fits, or if the available
// memory is unknown.
std::optional<Error> shortage_of(const MemoryPlan& plan);

}  // namespace runnel

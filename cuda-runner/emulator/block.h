// The block that runs: its threads as fibers, who waits for whom, and what the checks of memory need to know
// of the thread that is running. There is one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "cuda-runner/emulator/launch.h"
#include "cuda-runner/emulator/place.h"
#include "cuda-runner/emulator/vector_types.h"

// CUDA's built-in variables, those of the thread that is running.
extern uint3 threadIdx;
extern uint3 blockIdx;
extern dim3 blockDim;
extern dim3 gridDim;

namespace runnel::emulator {

inline constexpr uint32_t kLanes = 32;

// When something happened in a block. Epochs are counted by sync_block(), over all blocks, and syncs by a
// warp's sync_warp(), so two moments without a barrier between have an epoch in common and, in a warp, a
// sync.
struct Moment {
  uint64_t launch_epoch;  // the first of this launch
  uint64_t first_epoch;   // of this block
  uint64_t epoch;
  uint32_t sync;
  uint16_t thread;
  uint16_t warp;
  uint32_t until_clock;  // things that threads do until somebody looks at the clock
};
// Of the thread that is running.
extern Moment now;

// Ends the block if it has taken longer than it may.
void look_at_clock(const Place& place);
// Whatever a thread does that the emulator sees.
inline void count_step(const Place& place) {
  if (--now.until_clock == 0) [[unlikely]]
    look_at_clock(place);
}

// Runs the threads of one block; the seed chooses the first. False: a fault ended it.
bool run_block(const Launch& launch, const uint3& index, uint64_t seed);
const std::string& running_kernel();
// After a fault: what the threads of the block have on their stacks is forgotten.
[[noreturn]] void abandon_block();

// The running thread waits for all of its block, or of its warp.
void wait_for_block(const char* word, const Place& place);
void wait_for_warp(const char* word, const Place& place);

// What a lane gives the others. All 32 must come to the same word; the answer is what they brought, and stays
// until this lane's next but one exchange.
inline constexpr size_t kExchangeBytes = 32;
struct alignas(16) Brought {
  std::byte bytes[kExchangeBytes];
};
std::span<const Brought, kLanes> exchange(const void* bytes, size_t num_bytes, const char* word,
                                          const Place& place);

}  // namespace runnel::emulator

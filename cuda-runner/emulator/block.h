// The running block: its threads, which are fibers, their barriers and exchanges, and the data about the
// running thread that the checks of memory need. One block runs at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "cuda-runner/emulator/launch.h"
#include "cuda-runner/emulator/place.h"
#include "cuda-runner/emulator/vector_types.h"

// CUDA's built-in variables, with the values of the running thread.
extern uint3 threadIdx;
extern uint3 blockIdx;
extern dim3 blockDim;
extern dim3 gridDim;

namespace runnel::emulator {

inline constexpr uint32_t kLanes = 32;

// A moment in the run of a block. sync_block() and the start of a block each begin a new epoch, counted over
// all blocks; sync_warp() starts a new sync of its warp. So two accesses without a barrier between them have
// the same epoch and, if they are of one warp, the same sync.
struct Moment {
  uint64_t launch_epoch;  // the first of this launch
  uint64_t first_epoch;   // the first of this block
  uint64_t epoch;
  uint32_t sync;
  uint16_t thread;
  uint16_t warp;
  uint16_t device;       // whose memory the launch may use
  uint32_t until_clock;  // steps until the next look_at_clock()
  // Whether the launches before this one are complete: it did not begin early, or the thread has waited.
  bool is_previous_complete;
};
// The moment of the running thread.
extern Moment now;

// Ends the block with a fault if it has taken longer than Settings::max_block_ms.
void look_at_clock(const Place& place);
// Called for every access, barrier and exchange of a thread.
inline void count_step(const Place& place) {
  if (--now.until_clock == 0) [[unlikely]]
    look_at_clock(place);
}

// Runs the threads of one block; the seed chooses the thread that begins. Returns false if a fault ended the
// block.
bool run_block(const Launch& launch, const uint3& index, uint64_t seed);
const std::string& running_kernel();
// Ends the block after a fault. The stacks of its threads are dropped without destructors.
[[noreturn]] void abandon_block();

// Makes the running thread wait for all threads of its block, or of its warp.
void wait_for_block(const char* word, const Place& place);
void wait_for_warp(const char* word, const Place& place);

// Lets the running thread use memory that earlier launches may write.
void wait_for_previous();

inline constexpr size_t kExchangeBytes = 32;
struct alignas(16) Brought {
  std::byte bytes[kExchangeBytes];
};
// Gives bytes of the running thread to the other lanes of its warp. All 32 lanes must come to the same word.
// Returns the bytes of all lanes, which are valid until this lane's second exchange after this one.
std::span<const Brought, kLanes> exchange(const void* bytes, size_t num_bytes, const char* word,
                                          const Place& place);

}  // namespace runnel::emulator

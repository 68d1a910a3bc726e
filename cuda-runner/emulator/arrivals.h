// What the last of the blocks that arrive at a counter (arrives_last) sees of the others: all that they did
// before. One block runs at a time, so a block's accesses are a range of epochs.
#pragma once

#include <cstdint>

namespace runnel::emulator {

// The running block arrives at the counter of `count` blocks at this address. Returns whether it is the last.
bool arrive(const void* counter, uint32_t count);
// Whether the running block was the last where a block arrived after this epoch of its own.
bool was_seen(uint64_t epoch);

// Sets of epochs of this launch, by number; 0 is the empty one. A byte that blocks read one after the other
// has the set of their reads.
uint32_t with_epoch(uint32_t set, uint64_t epoch);
bool were_seen(uint32_t set);

// Called when a launch, or a block, begins.
void forget_arrivals();
void forget_seen();

}  // namespace runnel::emulator

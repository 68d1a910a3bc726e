#include "cuda-runner/emulator/arrivals.h"

#include <algorithm>
#include <map>
#include <vector>

#include "cuda-runner/emulator/block.h"

namespace runnel::emulator {
namespace {

struct Epochs {
  uint64_t begin;
  uint64_t end;
};

struct Arrived {
  uint32_t num_blocks = 0;
  std::vector<Epochs> epochs;
};

std::map<const void*, Arrived> arrived;  // of this launch, by counter
std::vector<Epochs> seen;                // by the running block

}  // namespace

bool arrive(const void* counter, uint32_t count) {
  Arrived& there = arrived[counter];
  // What a block has seen is seen with it.
  there.epochs.insert(there.epochs.end(), seen.begin(), seen.end());
  there.epochs.push_back({now.first_epoch, now.epoch});
  if (++there.num_blocks < count) return false;
  seen.insert(seen.end(), there.epochs.begin(), there.epochs.end());
  arrived.erase(counter);
  return true;
}

bool was_seen(uint64_t epoch) {
  return std::ranges::any_of(
      seen, [&](const Epochs& epochs) { return epoch >= epochs.begin && epoch < epochs.end; });
}

void forget_arrivals() {
  arrived.clear();
}
void forget_seen() {
  seen.clear();
}

}  // namespace runnel::emulator

#include "cuda-runner/emulator/arrivals.h"

#include <algorithm>
#include <compare>
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

struct Set {
  uint32_t others;
  uint64_t epoch;
  auto operator<=>(const Set&) const = default;
};
std::vector<Set> sets;  // of this launch: number i + 1 at i
std::map<Set, uint32_t> numbers;

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

uint32_t with_epoch(uint32_t set, uint64_t epoch) {
  const Set wanted{set, epoch};
  // Most bytes have the readers of the byte before.
  static uint32_t last = 0;
  if (last == 0 || last > sets.size() || sets[last - 1] != wanted) {
    const auto [found, is_new] = numbers.try_emplace(wanted, static_cast<uint32_t>(sets.size() + 1));
    if (is_new) sets.push_back(wanted);
    last = found->second;
  }
  return last;
}

bool were_seen(uint32_t set) {
  for (; set != 0; set = sets[set - 1].others)
    if (!was_seen(sets[set - 1].epoch)) return false;
  return true;
}

void forget_arrivals() {
  arrived.clear();
  sets.clear();
  numbers.clear();
}
void forget_seen() {
  seen.clear();
}

}  // namespace runnel::emulator

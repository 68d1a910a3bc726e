#include "cuda-runner/emulator/counters.h"

#include <algorithm>
#include <vector>

#include "runner/check.h"

namespace runnel::emulator {

Counters* counters = nullptr;

namespace {

constexpr uint64_t kSectorBytes = 32;
constexpr uint32_t kBanks = 32;
constexpr uint32_t kBankBytes = 4;

std::vector<uint64_t>& unique(std::vector<uint64_t>& values) {
  std::ranges::sort(values);
  values.erase(std::ranges::unique(values).begin(), values.end());
  return values;
}

}  // namespace

Counts& Counts::operator+=(const Counts& other) {
  launches += other.launches;
  blocks += other.blocks;
  load_requests += other.load_requests;
  load_sectors += other.load_sectors;
  load_bytes += other.load_bytes;
  constant_sectors += other.constant_sectors;
  constant_bytes += other.constant_bytes;
  shared_turns += other.shared_turns;
  least_shared_turns += other.least_shared_turns;
  return *this;
}

Counters::Counters() {
  CHECK(counters == nullptr);
  counters = this;
}

Counters::~Counters() {
  counters = nullptr;
}

Counts Counters::of(std::string_view part_of_name) const {
  Counts sum;
  for (const auto& [kernel, counts] : counts_)
    if (kernel.find(part_of_name) != std::string::npos) sum += counts;
  return sum;
}

size_t Counters::Hash::operator()(const Access& access) const {
  uint64_t hash = reinterpret_cast<uintptr_t>(access.file);
  for (const uint64_t part : {uint64_t{access.line} << 32 | access.column,
                              uint64_t{access.bytes} << 32 | static_cast<uint64_t>(access.memory),
                              uint64_t{access.thread_or_warp} << 32 | access.number})
    hash = (hash ^ part) * 0x9e3779b97f4a7c15 ^ hash >> 29;
  return hash;
}

Counters::Request& Counters::request_of(Memory memory, uint32_t bytes, const Place& place) {
  Access access{place.file_name(), place.line(), place.column(), bytes, memory, now.thread, 0};
  access.number = num_requests_[access]++;
  access.thread_or_warp = now.warp;
  return requests_[access];
}

void Counters::add_load(const std::byte* from, uint32_t bytes, bool is_constant, const Place& place) {
  Request& request = request_of(Memory::kGlobal, bytes, place);
  const uint32_t lane = now.thread % kLanes;
  request.lanes |= 1u << lane;
  if (is_constant) request.constant_lanes |= 1u << lane;
  request.addresses[lane] = reinterpret_cast<uintptr_t>(from);
}

void Counters::add_shared(size_t offset, uint32_t bytes, const Place& place) {
  Request& request = request_of(Memory::kShared, bytes, place);
  const uint32_t lane = now.thread % kLanes;
  request.lanes |= 1u << lane;
  request.addresses[lane] = offset;
}

void Counters::add_global(const Request& request, uint32_t bytes, Counts& counts) {
  const auto add = [&](uint32_t lanes, uint64_t& num_sectors, uint64_t& num_bytes) {
    std::vector<uint64_t> addresses;
    std::vector<uint64_t> sectors;
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      if ((lanes >> lane & 1) == 0) continue;
      const uint64_t first = request.addresses[lane];
      addresses.push_back(first);
      for (uint64_t at = first / kSectorBytes; at * kSectorBytes < first + bytes; ++at) sectors.push_back(at);
    }
    num_sectors += unique(sectors).size();
    num_bytes += bytes * unique(addresses).size();
  };
  ++counts.load_requests;
  add(request.lanes, counts.load_sectors, counts.load_bytes);
  add(request.constant_lanes, counts.constant_sectors, counts.constant_bytes);
}

// Half a warp at a time moves values of 8 bytes, a quarter values of 16.
void Counters::add_turns(const Request& request, uint32_t bytes, Counts& counts) {
  const uint32_t lanes_at_once = std::clamp(kBanks * kBankBytes / bytes, 1u, kLanes);
  for (uint32_t first = 0; first < kLanes; first += lanes_at_once) {
    std::vector<uint64_t> words;
    for (uint32_t lane = first; lane < first + lanes_at_once; ++lane) {
      if ((request.lanes >> lane & 1) == 0) continue;
      const uint64_t begin = request.addresses[lane];
      for (uint64_t word = begin / kBankBytes; word * kBankBytes < begin + bytes; ++word)
        words.push_back(word);
    }
    std::array<uint32_t, kBanks> words_of_bank{};
    for (const uint64_t word : unique(words)) ++words_of_bank[word % kBanks];
    counts.shared_turns += std::ranges::max(words_of_bank);
    counts.least_shared_turns += words.empty() ? 0 : 1;
  }
}

void Counters::end_block(const std::string& kernel) {
  Counts& counts = counts_[kernel];
  ++counts.blocks;
  for (const auto& [access, request] : requests_) {
    if (access.memory == Memory::kGlobal) {
      add_global(request, access.bytes, counts);
    } else {
      add_turns(request, access.bytes, counts);
    }
  }
  requests_.clear();
  num_requests_.clear();
}

}  // namespace runnel::emulator

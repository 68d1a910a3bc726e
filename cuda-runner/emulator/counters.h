// What kernels do to memory and how often they are launched, counted for tests of speed. A request is what
// the lanes of a warp do in one execution of a load or store: the first one of each lane on a line of the
// source is one request, the second of each another.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>

#include "cuda-runner/emulator/block.h"
#include "cuda-runner/emulator/place.h"

namespace runnel::emulator {

struct Counts {
  uint64_t launches = 0;
  uint64_t blocks = 0;
  // Loads from device memory, asynchronous copies included.
  uint64_t load_requests = 0;
  uint64_t load_sectors = 0;  // pieces of 32 bytes of each request, added up
  uint64_t load_bytes = 0;    // bytes of each request; those that several lanes load count once
  // The same for bytes that came from the host: weights, and what it sends for a step.
  uint64_t constant_sectors = 0;
  uint64_t constant_bytes = 0;
  // Loads and stores of shared memory. A request takes at least one turn for each 128 bytes, and more where
  // lanes use different words of one bank.
  uint64_t shared_turns = 0;
  uint64_t least_shared_turns = 0;

  Counts& operator+=(const Counts& other);
};

// Counts from its constructor to its destructor. At most one exists.
class Counters {
 public:
  Counters();
  ~Counters();
  Counters(const Counters&) = delete;
  Counters& operator=(const Counters&) = delete;

  // The sum over all kernels whose name contains this. "" is in every name.
  Counts of(std::string_view part_of_name) const;

  // Called by the emulator.
  void begin_launch(const std::string& kernel) { ++counts_[kernel].launches; }
  void add_load(const std::byte* from, uint32_t bytes, bool is_constant, const Place& place);
  void add_shared(size_t offset, uint32_t bytes, const Place& place);
  // Adds up the requests of the block that has ended.
  void end_block(const std::string& kernel);

 private:
  enum class Memory : uint8_t { kGlobal, kShared };
  // A line of the source, with what distinguishes the accesses on it.
  struct Access {
    const char* file;
    uint32_t line;
    uint32_t column;
    uint32_t bytes;  // of a lane
    Memory memory;
    uint32_t thread_or_warp;
    uint32_t number;  // of the request
    bool operator==(const Access&) const = default;
  };
  struct Hash {
    size_t operator()(const Access& access) const;
  };
  struct Request {
    uint32_t lanes = 0;                        // one bit for each
    uint32_t constant_lanes = 0;               // those whose bytes came from the host
    std::array<uint64_t, kLanes> addresses{};  // of lanes
  };

  Request& request_of(Memory memory, uint32_t bytes, const Place& place);
  static void add_global(const Request& request, uint32_t bytes, Counts& counts);
  static void add_turns(const Request& request, uint32_t bytes, Counts& counts);

  std::map<std::string, Counts> counts_;                     // by kernel
  std::unordered_map<Access, uint32_t, Hash> num_requests_;  // of each thread of the block
  std::unordered_map<Access, Request, Hash> requests_;       // of each warp of the block
};

// nullptr: nothing is counted.
extern Counters* counters;

}  // namespace runnel::emulator

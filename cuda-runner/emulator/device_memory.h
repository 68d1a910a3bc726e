// The device's memory: allocations in a range of addresses that is never used twice, and what is known of
// each byte. A byte between allocations, or of one that was freed, stays forbidden for good.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

namespace runnel::emulator {

// All addresses there ever are. Nothing of it takes memory until it is used.
inline constexpr size_t kAddressSpaceBytes = size_t{256} << 30;
// What CUDA aligns allocations to, and what each begins and ends with room for.
inline constexpr size_t kAllocationBytes = 256;

// Of a byte.
inline constexpr uint8_t kAllocated = 1;
inline constexpr uint8_t kWritten = 3;  // and allocated

class GlobalRecord;

// Where it all is, for checks that are made at every access. No bytes before the first allocation.
struct AddressSpace {
  std::byte* data = nullptr;
  uint8_t* states = nullptr;
  GlobalRecord* records = nullptr;  // of each byte; none: races are not looked for
  size_t num_bytes = 0;
};
extern AddressSpace address_space;

class DeviceMemory {
 public:
  // Frees everything; from now on there are so many bytes.
  void reset(uint64_t total_bytes, bool finds_races);

  uint64_t total_bytes() const { return total_bytes_; }
  uint64_t free_bytes() const { return total_bytes_ - used_bytes_; }
  // None: there are not so many bytes.
  void* allocate(size_t bytes);
  // False: nothing was allocated there.
  bool free(void* memory);

 private:
  uint64_t total_bytes_ = 0;
  uint64_t used_bytes_ = 0;
  bool finds_races_ = false;
  size_t end_ = 0;  // of the addresses used so far
  std::map<std::byte*, size_t> allocations_;
};

inline size_t offset_of(const void* memory) {
  return static_cast<size_t>(static_cast<const std::byte*>(memory) - address_space.data);
}
inline bool is_in_address_space(const void* memory, size_t bytes) {
  const size_t offset = offset_of(memory);
  return offset < address_space.num_bytes && bytes <= address_space.num_bytes - offset;
}
// Of memory in the address space.
inline uint8_t* states_of(const void* memory) {
  return address_space.states + offset_of(memory);
}

// Whether all bytes there are of one allocation; and those that were written.
bool is_allocated(const void* memory, size_t bytes);
// The number of bytes from here on that were written, at most so many.
size_t num_written(const void* memory, size_t bytes);
void mark_written(void* memory, size_t bytes);
// A copy on the device carries what is known along.
void copy_states(void* to, const void* from, size_t bytes);

}  // namespace runnel::emulator

#include "cuda-runner/emulator/device_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include "cuda-runner/emulator/global_record.h"
#include "cuda-runner/emulator/settings.h"
#include "runner/check.h"

namespace runnel::emulator {

AddressSpace address_space;

namespace {

void* reserve(size_t bytes) {
  void* memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  CHECK(memory != MAP_FAILED);
  // Keeps these gigabytes out of core dumps.
  madvise(memory, bytes, MADV_DONTDUMP);
  return memory;
}

// The records of the whole address space; nullptr until races are to be found.
GlobalRecord* all_records = nullptr;

// Gives the whole pages of the range back to the system. The last page may be shared with the next
// allocation.
void give_back(void* memory, size_t bytes) {
  constexpr uintptr_t kPageBytes = 4096;
  const uintptr_t first = (reinterpret_cast<uintptr_t>(memory) + kPageBytes - 1) / kPageBytes * kPageBytes;
  const uintptr_t end = (reinterpret_cast<uintptr_t>(memory) + bytes) / kPageBytes * kPageBytes;
  if (first < end) madvise(reinterpret_cast<void*>(first), end - first, MADV_DONTNEED);
}

size_t rounded(size_t bytes) {
  return (std::max<size_t>(bytes, 1) + kAllocationBytes - 1) / kAllocationBytes * kAllocationBytes;
}

// Offsets that a device may still use: from `next` to `end`.
struct Addresses {
  size_t next = 0;
  size_t end = 0;
};
std::array<Addresses, kMaxDevices> addresses;
size_t first_free_chunk = 0;

// The offset of so many addresses of the device, which follow each other. Nothing if no more are free.
std::optional<size_t> take_addresses(uint32_t device, size_t bytes) {
  Addresses& own = addresses[device];
  if (bytes > own.end - own.next) {
    const size_t begin = first_free_chunk * kChunkBytes;
    if (own.end != begin) own = {begin, begin};
    const size_t num_chunks = (bytes - (own.end - own.next) + kChunkBytes - 1) / kChunkBytes;
    if (num_chunks > std::size(address_space.owners) - first_free_chunk) return std::nullopt;
    std::fill_n(address_space.owners + first_free_chunk, num_chunks, static_cast<uint8_t>(device));
    first_free_chunk += num_chunks;
    own.end = first_free_chunk * kChunkBytes;
  }
  return std::exchange(own.next, own.next + bytes);
}

bool are_races_found = false;

}  // namespace

void find_races(bool are_found) {
  are_races_found = are_found;
  address_space.records = are_found ? all_records : nullptr;
}

DeviceMemory::~DeviceMemory() {
  while (!allocations_.empty()) free(allocations_.begin()->first);
}

void* DeviceMemory::allocate(size_t bytes) {
  if (bytes > free_bytes() || rounded(bytes) > free_bytes()) return nullptr;
  if (address_space.num_bytes == 0) {
    address_space.data = static_cast<std::byte*>(reserve(kAddressSpaceBytes));
    address_space.states = static_cast<uint8_t*>(reserve(kAddressSpaceBytes));
    address_space.num_bytes = kAddressSpaceBytes;
  }
  if (are_races_found && all_records == nullptr) {
    all_records = static_cast<GlobalRecord*>(reserve(kAddressSpaceBytes * sizeof(GlobalRecord)));
    address_space.records = all_records;
  }
  // A forbidden range of kAllocationBytes precedes the allocation.
  const std::optional<size_t> offset = take_addresses(device_, kAllocationBytes + rounded(bytes));
  if (!offset) return nullptr;
  std::byte* const memory = address_space.data + *offset + kAllocationBytes;
  used_bytes_ += rounded(bytes);
  allocations_[memory] = bytes;
  std::memset(states_of(memory), kAllocated, bytes);
  return memory;
}

bool DeviceMemory::free(void* memory) {
  const auto found = allocations_.find(static_cast<std::byte*>(memory));
  if (found == allocations_.end()) return false;
  const size_t bytes = found->second;
  std::memset(states_of(memory), 0, bytes);
  give_back(memory, bytes);
  if (all_records != nullptr) give_back(all_records + offset_of(memory), bytes * sizeof(GlobalRecord));
  used_bytes_ -= rounded(bytes);
  allocations_.erase(found);
  return true;
}

bool DeviceMemory::take(uint64_t bytes) {
  if (bytes > free_bytes()) return false;
  used_bytes_ += bytes;
  return true;
}

bool is_allocated(const void* memory, size_t bytes) {
  if (!is_in_address_space(memory, bytes)) return false;
  const uint8_t* const states = states_of(memory);
  return std::all_of(states, states + bytes, [](uint8_t state) { return state != 0; });
}

size_t num_written(const void* memory, size_t bytes) {
  const uint8_t* const states = states_of(memory);
  return static_cast<size_t>(
      std::find_if(states, states + bytes, [](uint8_t state) { return (state & kWritten) != kWritten; }) -
      states);
}

bool is_any_written_by_kernel(const void* memory, size_t bytes) {
  const uint8_t* const states = states_of(memory);
  return std::any_of(states, states + bytes, [](uint8_t state) { return state == kWrittenByKernel; });
}

bool is_all_copied(const void* memory, size_t bytes) {
  const uint8_t* const states = states_of(memory);
  return std::all_of(states, states + bytes, [](uint8_t state) { return state == kWritten; });
}

void mark_written(void* memory, size_t bytes, uint8_t state) {
  std::memset(states_of(memory), state, bytes);
}

void copy_states(void* to, const void* from, size_t bytes) {
  uint8_t* const states = states_of(to);
  std::memmove(states, states_of(from), bytes);
  for (size_t i = 0; i < bytes; ++i) states[i] &= kWritten;
}

}  // namespace runnel::emulator

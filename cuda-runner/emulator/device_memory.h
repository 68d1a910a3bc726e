// The memory of emulated devices: allocations, and the state of each byte. Devices have one address space, as
// in CUDA, and each address belongs to one of them. No address is used twice, so bytes between allocations
// and bytes of freed allocations stay forbidden for ever.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

namespace runnel::emulator {

// The size of the address space. It takes memory only where it is used.
inline constexpr size_t kAddressSpaceBytes = size_t{256} << 30;
// Addresses are given to a device in units of this.
inline constexpr size_t kChunkBytes = size_t{64} << 20;
// The alignment of CUDA's allocations. The room of each is rounded up to a multiple of this and preceded by
// as many forbidden bytes.
inline constexpr size_t kAllocationBytes = 256;

// States of a byte, as bits; 0 is forbidden.
inline constexpr uint8_t kAllocated = 1;
inline constexpr uint8_t kWritten = 3;          // includes kAllocated
inline constexpr uint8_t kWrittenByKernel = 7;  // includes kWritten; the last write was a kernel's
inline constexpr uint8_t kFilled = 11;          // includes kWritten; the last write was cudaMemsetAsync's

class GlobalRecord;

// Addresses for the checks of each access. num_bytes is 0 before the first allocation.
struct AddressSpace {
  std::byte* data = nullptr;
  uint8_t* states = nullptr;
  GlobalRecord* records = nullptr;  // one for each byte; nullptr: races are not detected
  size_t num_bytes = 0;
  uint8_t owners[kAddressSpaceBytes / kChunkBytes] = {};  // numbers of devices, by chunk
};
extern AddressSpace address_space;

// Whether races are detected from now on. No memory may be allocated.
void find_races(bool are_found);

// The memory of one device.
class DeviceMemory {
 public:
  // device: its number, below kMaxDevices.
  DeviceMemory(uint32_t device, uint64_t total_bytes) : device_(device), total_bytes_(total_bytes) {}
  ~DeviceMemory();
  DeviceMemory(DeviceMemory&& other) noexcept = default;

  uint64_t total_bytes() const { return total_bytes_; }
  uint64_t free_bytes() const { return total_bytes_ - used_bytes_; }
  // nullptr if there are not enough free bytes.
  void* allocate(size_t bytes);
  // False if no allocation begins there.
  bool free(void* memory);
  // For what the driver keeps. False if there are not enough free bytes.
  bool take(uint64_t bytes);
  void release(uint64_t bytes) { used_bytes_ -= bytes; }

 private:
  uint32_t device_;
  uint64_t total_bytes_;
  uint64_t used_bytes_ = 0;
  std::map<std::byte*, size_t> allocations_;
};

inline size_t offset_of(const void* memory) {
  return static_cast<size_t>(static_cast<const std::byte*>(memory) - address_space.data);
}
inline bool is_in_address_space(const void* memory, size_t bytes) {
  const size_t offset = offset_of(memory);
  return offset < address_space.num_bytes && bytes <= address_space.num_bytes - offset;
}
// The number of the device that has this address, which must lie in the address space.
inline uint32_t owner_of(const void* memory) {
  return address_space.owners[offset_of(memory) / kChunkBytes];
}
// memory must lie in the address space.
inline uint8_t* states_of(const void* memory) {
  return address_space.states + offset_of(memory);
}

// Whether all of these bytes belong to one allocation.
bool is_allocated(const void* memory, size_t bytes);
// The number of bytes before the first that was never written; `bytes` if all were written.
size_t num_written(const void* memory, size_t bytes);
// Whether a kernel was the last to write one of these bytes.
bool is_any_written_by_kernel(const void* memory, size_t bytes);
// Whether copies were the last to write all of these bytes.
bool is_all_copied(const void* memory, size_t bytes);
void mark_written(void* memory, size_t bytes, uint8_t state);
// Called for copies on the device: a copied byte is written if its source is.
void copy_states(void* to, const void* from, size_t bytes);

}  // namespace runnel::emulator

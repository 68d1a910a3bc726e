// The state of the emulated machine: memory, streams, events and graphs.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "cuda-runner/emulator/device_memory.h"
#include "cuda-runner/emulator/random.h"
#include "cuda-runner/emulator/settings.h"
#include "cuda-runner/emulator/stream.h"

namespace runnel::emulator {

// The live objects of one kind, of which there are few. A handle is the address of its object.
template <typename T>
class Handles {
 public:
  T* make(T thing) { return live_.emplace_back(std::make_unique<T>(std::move(thing))).get(); }
  bool has(const T* handle) const { return find(handle) != live_.end(); }
  bool remove(const T* handle) {
    const auto found = find(handle);
    if (found == live_.end()) return false;
    live_.erase(found);
    return true;
  }
  void clear() { live_.clear(); }
  // In the order of their creation.
  const std::vector<std::unique_ptr<T>>& all() const { return live_; }

 private:
  auto find(const T* handle) const {
    return std::find_if(live_.begin(), live_.end(), [&](const auto& live) { return live.get() == handle; });
  }

  std::vector<std::unique_ptr<T>> live_;
};

// An allocation of pinned memory of the host.
struct Pinned {
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  using Pointer = std::unique_ptr<void, Free>;
  Pointer memory;
  size_t bytes;
};

struct OneDevice {
  DeviceMemory memory;
  bool has_context = false;
  std::set<const void*> loaded_kernels = {};
  // Of kernels that may have more than without asking.
  std::map<const void*, size_t> dynamic_shared_bytes = {};
  std::set<int> peers = {};  // devices that this one may copy from and to directly

  // False if the driver has no memory for it.
  bool load_kernel(const void* kernel, uint64_t kernel_bytes);
};

// The number of the device that this thread's calls are about, as cudaSetDevice has set it.
extern thread_local int current_device;

struct Machine {
  explicit Machine(const Settings& first_settings) { start(first_settings); }
  void start(const Settings& new_settings);
  // Runs the work of all streams, in a random order that their events allow.
  void run_all();
  // Breaks every capture under way, as a call that is not allowed in a capture does. Returns whether there
  // was one.
  bool breaks_capture();
  bool is_pinned(const void* memory, size_t bytes) const;
  // Copies on one device or between two, for work of a stream.
  void copy_on_device(void* to, const void* from, size_t bytes);
  OneDevice& current() { return devices[static_cast<size_t>(current_device)]; }

  Settings settings;
  Random random;
  std::vector<OneDevice> devices;
  std::map<const std::byte*, Pinned> pinned;  // by address
  Handles<CUstream_st> streams;
  Handles<CUevent_st> events;
  Handles<CUgraph_st> graphs;
  Handles<CUgraphExec_st> executables;
  uint64_t num_launches = 0;
  uint64_t num_peer_bytes = 0;    // copied between devices
  uint64_t num_upload_bytes = 0;  // copied from the host
  cudaError_t last_error = cudaSuccess;
};

// Any thread of the host may call; every call holds this mutex.
std::mutex& machine_mutex();
// The first call makes the machine, with the settings of the environment.
Machine& machine();

}  // namespace runnel::emulator

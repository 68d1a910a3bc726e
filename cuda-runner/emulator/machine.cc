#include "cuda-runner/emulator/machine.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "cuda-runner/emulator/fault.h"

namespace runnel::emulator {

thread_local int current_device = 0;

void Machine::start(const Settings& new_settings) {
  settings = new_settings;
  random = Random(settings.seed);
  streams.clear();
  events.clear();
  graphs.clear();
  executables.clear();
  pinned.clear();
  devices.clear();
  find_races(settings.finds_races);
  for (uint32_t device = 0; device < settings.num_devices; ++device)
    devices.push_back({.memory = DeviceMemory(device, settings.memory_bytes)});
  current_device = 0;
  num_launches = 0;
  num_peer_bytes = 0;
  num_upload_bytes = 0;
  last_error = cudaSuccess;
  forget_fault();
}

void Machine::run_all() {
  std::vector<CUstream_st*> waiting;
  for (const auto& stream : streams.all())
    if (!stream->is_empty()) waiting.push_back(stream.get());
  while (!waiting.empty()) {
    const auto chosen = waiting.begin() + static_cast<ptrdiff_t>(random.next() % waiting.size());
    // A stream that waits for an event of the chosen one may have emptied it.
    if (!(*chosen)->is_empty()) (*chosen)->run_one();
    if ((*chosen)->is_empty()) waiting.erase(chosen);
  }
}

bool Machine::breaks_capture() {
  bool breaks = false;
  for (const auto& stream : streams.all()) {
    if (stream->captured == nullptr) continue;
    stream->captured->is_broken = true;
    breaks = true;
  }
  return breaks;
}

bool Machine::is_pinned(const void* memory, size_t bytes) const {
  const auto* const first = static_cast<const std::byte*>(memory);
  const auto after = pinned.upper_bound(first);
  if (after == pinned.begin()) return false;
  const auto& [start, block] = *std::prev(after);
  const auto offset = static_cast<size_t>(first - start);
  return offset < block.bytes && bytes <= block.bytes - offset;
}

bool OneDevice::load_kernel(const void* kernel, uint64_t kernel_bytes) {
  if (loaded_kernels.contains(kernel)) return true;
  if (!memory.take(kernel_bytes)) return false;
  loaded_kernels.insert(kernel);
  return true;
}

std::mutex& machine_mutex() {
  static std::mutex mutex;
  return mutex;
}

Machine& machine() {
  static Machine the_machine(settings_from_environment());
  return the_machine;
}

void start(const Settings& settings) {
  const std::lock_guard lock(machine_mutex());
  machine().start(settings);
}

const Settings& settings() {
  return machine().settings;
}

}  // namespace runnel::emulator

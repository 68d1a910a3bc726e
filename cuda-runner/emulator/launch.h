// A kernel launch: the grid, and the function of its threads with the arguments of the call.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <tuple>
#include <type_traits>

#include "cuda-runner/emulator/runtime_api.h"

namespace runnel::emulator {

// The largest number of threads of a block, on all devices.
inline constexpr uint32_t kMaxThreads = 1024;
// The largest size of a kernel's arguments that all devices accept, in bytes.
inline constexpr size_t kMaxArgumentBytes = 4096;

struct Launch {
  std::string kernel;
  const void* function;
  int device;
  dim3 grid;
  dim3 block;
  // Whether it may begin before the launches before it are complete.
  bool begins_early;
  size_t dynamic_shared_bytes;
  std::function<void()> thread;
};

// Of the running launch.
extern size_t dynamic_shared_bytes;

// Runs the blocks one after the other, in an order that the seed decides. A fault ends the launch (fault.h).
void run_launch(const Launch& launch, uint64_t order_seed);

// words: the source text of the arguments of cudaLaunchKernelEx, from which the kernel's name is taken.
cudaError_t enqueue_launch(const char* words, const cudaLaunchConfig_t& config, const void* function,
                           std::function<void()> thread);

template <typename... Parameters, typename... Arguments>
cudaError_t launch(const char* words, const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                   Arguments&&... arguments) {
  using Taken = std::tuple<std::decay_t<Parameters>...>;
  static_assert((std::is_trivially_copyable_v<std::decay_t<Parameters>> && ...), "arguments go as bytes");
  static_assert(sizeof(Taken) <= kMaxArgumentBytes);
  return enqueue_launch(
      words, *config, reinterpret_cast<const void*>(kernel),
      [kernel, taken = Taken(std::forward<Arguments>(arguments)...)] { std::apply(kernel, taken); });
}

}  // namespace runnel::emulator

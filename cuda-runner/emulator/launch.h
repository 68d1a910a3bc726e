// A launch: what the threads of a grid run, with its arguments as they were when it was asked for.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <tuple>
#include <type_traits>

#include "cuda-runner/emulator/runtime_api.h"

namespace runnel::emulator {

// What a block may have, on every device there is.
inline constexpr uint32_t kMaxThreads = 1024;
// Bytes of arguments that every device takes.
inline constexpr size_t kMaxArgumentBytes = 4096;

struct Launch {
  std::string kernel;
  const void* function;
  dim3 grid;
  dim3 block;
  std::function<void()> thread;
};

// Runs the blocks one after the other, in an order made from the seed. A fault ends it: see fault.h.
void run_launch(const Launch& launch, uint64_t order_seed);

// words: the arguments of cudaLaunchKernelEx as they are written, for the kernel's name.
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

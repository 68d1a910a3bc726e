#include "cuda-runner/emulator/launch.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include "cuda-runner/emulator/arrivals.h"
#include "cuda-runner/emulator/block.h"
#include "cuda-runner/emulator/call.h"
#include "cuda-runner/emulator/counters.h"
#include "cuda-runner/emulator/launch_bounds.h"

namespace runnel::emulator {
namespace {

// The first compute capability whose launches may overlap.
constexpr uint32_t kEarlyCapability = 90;
constexpr uint32_t kMaxGridX = 0x7fffffff;
constexpr uint32_t kMaxGridYZ = 0xffff;
constexpr uint32_t kMaxBlockZ = 64;
// Dynamic shared memory that a kernel may have without asking for more.
constexpr size_t kMaxPlainSharedBytes = 48 * 1024;

// The second argument in the text of a call's arguments, which may have commas in brackets.
std::string second_argument(const std::string& words) {
  int depth = 0;
  size_t first = std::string::npos;
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == '<' || words[i] == '(') ++depth;
    if (words[i] == '>' || words[i] == ')') --depth;
    if (words[i] != ',' || depth > 0) continue;
    if (first != std::string::npos) return words.substr(first, i - first);
    first = words.find_first_not_of(' ', i + 1);
  }
  return words.substr(first);
}

bool is_between_1_and(uint32_t largest, uint32_t value) {
  return value >= 1 && value <= largest;
}

bool is_possible(const dim3& grid, const dim3& block) {
  return is_between_1_and(kMaxGridX, grid.x) && is_between_1_and(kMaxGridYZ, grid.y) &&
         is_between_1_and(kMaxGridYZ, grid.z) && is_between_1_and(kMaxThreads, block.x) &&
         is_between_1_and(kMaxThreads, block.y) && is_between_1_and(kMaxBlockZ, block.z) &&
         uint64_t{block.x} * block.y * block.z <= kMaxThreads;
}

// Whether the attributes let the launch begin early. Sets `refusal` for those that are not emulated.
bool begins_early(const cudaLaunchConfig_t& config, const Settings& settings, std::string& refusal) {
  bool early = false;
  for (const cudaLaunchAttribute& attribute : std::span(config.attrs, config.numAttrs)) {
    if (attribute.id != cudaLaunchAttributeProgrammaticStreamSerialization) {
      refusal = " is launched with attribute " + std::to_string(attribute.id) + ", which is not emulated";
    } else if (settings.compute_capability < kEarlyCapability) {
      refusal = " is launched before the end of the launch before it, which needs compute capability 9.0";
    } else {
      early = attribute.val.programmaticStreamSerializationAllowed != 0;
    }
  }
  return early;
}

}  // namespace

size_t dynamic_shared_bytes = 0;

void run_launch(const Launch& launch, uint64_t order_seed) {
  const uint64_t num_blocks = uint64_t{launch.grid.x} * launch.grid.y * launch.grid.z;
  // Visits every block once: the step and the number of blocks have no common divisor.
  now.launch_epoch = now.epoch + 1;
  now.device = static_cast<uint16_t>(launch.device);
  dynamic_shared_bytes = launch.dynamic_shared_bytes;
  forget_arrivals();
  if (counters != nullptr) counters->begin_launch(launch.kernel);
  Random random(order_seed);
  uint64_t block = random.next() % num_blocks;
  uint64_t step = random.next() % num_blocks;
  while (std::gcd(step, num_blocks) != 1) ++step;
  for (uint64_t count = 0; count < num_blocks; ++count) {
    const uint3 index = {static_cast<uint32_t>(block % launch.grid.x),
                         static_cast<uint32_t>(block / launch.grid.x % launch.grid.y),
                         static_cast<uint32_t>(block / launch.grid.x / launch.grid.y)};
    if (!run_block(launch, index, random.next())) return;
    block = (block + step) % num_blocks;
  }
}

cudaError_t enqueue_launch(const char* words, const cudaLaunchConfig_t& config, const void* function,
                           std::function<void()> thread) {
  return call_on(config.stream, [&](Machine& machine) {
    std::string refusal;
    Launch launch{second_argument(words),  function,         config.stream->device,
                  config.gridDim,          config.blockDim,  begins_early(config, machine.settings, refusal),
                  config.dynamicSmemBytes, std::move(thread)};
    if (!is_possible(launch.grid, launch.block))
      return refuse(cudaErrorInvalidConfiguration,
                    launch.kernel + " is launched with a grid or blocks that no device has");
    if (launch.device != current_device) return refuse_other_device(*config.stream, launch.kernel);
    OneDevice& device = machine.current();
    const auto asked = device.dynamic_shared_bytes.find(function);
    const size_t most = std::max<size_t>(kMaxPlainSharedBytes,
                                         asked == device.dynamic_shared_bytes.end() ? 0 : asked->second);
    if (config.dynamicSmemBytes > most)
      return refuse(cudaErrorInvalidValue, launch.kernel + " is launched with " +
                                               std::to_string(config.dynamicSmemBytes) +
                                               " bytes of dynamic shared memory; it may have " +
                                               std::to_string(most) + " (cudaFuncSetAttribute)");
    if (!refusal.empty()) return refuse(cudaErrorInvalidValue, launch.kernel + refusal);
    const uint32_t num_threads = launch.block.x * launch.block.y * launch.block.z;
    if (const uint32_t bound = max_threads_of(function); num_threads > bound)
      return refuse(cudaErrorInvalidValue,
                    launch.kernel + " is launched with blocks of " + std::to_string(num_threads) +
                        " threads; its __launch_bounds__ are " + std::to_string(bound));
    if (config.stream->captured != nullptr && !device.loaded_kernels.contains(function))
      return refuse_in_capture(*config.stream, launch.kernel +
                                                   ", which was never loaded, as by a launch or by "
                                                   "cudaFuncGetAttributes,");
    if (!device.load_kernel(function, machine.settings.kernel_bytes)) return cudaErrorMemoryAllocation;
    config.stream->add([&machine, launch = std::move(launch)] {
      if (++machine.num_launches == machine.settings.die_at_launch) {
        lose_device(cudaErrorECCUncorrectable, "It dies at launch " + std::to_string(machine.num_launches) +
                                                   ", " + launch.kernel + ", as it was told to.");
        return;
      }
      run_launch(launch, machine.random.next());
    });
    return cudaSuccess;
  });
}

}  // namespace runnel::emulator

#include "cuda-runner/emulator/settings.h"

#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string>

#include "runner/exit_code.h"

namespace runnel::emulator {
namespace {

template <typename Integer>
void take(const char* name, Integer& setting, Integer largest = std::numeric_limits<Integer>::max(),
          Integer least = 0) {
  const std::string variable = std::string("RUNNEL_EMULATOR_") + name;
  const char* const value = std::getenv(variable.c_str());
  if (value == nullptr) return;
  const std::string text = value;
  Integer number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size() && number >= least && number <= largest) {
    setting = number;
    return;
  }
  std::fprintf(stderr, "%s must be a whole number between %llu and %llu, got %s.\n", variable.c_str(),
               static_cast<unsigned long long>(least), static_cast<unsigned long long>(largest), value);
  _exit(static_cast<int>(ExitCode::kUsage));
}

}  // namespace

Settings settings_from_environment() {
  Settings settings;
  take("DEVICES", settings.num_devices, kMaxDevices);
  take("COMPUTE_CAPABILITY", settings.compute_capability);
  take("MULTIPROCESSORS", settings.num_multiprocessors, 1024u, 1u);
  take("MEMORY_BYTES", settings.memory_bytes);
  take("KERNEL_BYTES", settings.kernel_bytes);
  take("GRAPH_BYTES", settings.graph_bytes);
  take("DRIVER_VERSION", settings.driver_version);
  take("DIE_AT_LAUNCH", settings.die_at_launch);
  take("FLIP_AFTER_LAUNCH", settings.flip_after_launch);
  uint32_t finds_races = 0;
  take("RACES", finds_races, 1u);
  settings.finds_races = finds_races == 1;
  take("MAX_BLOCK_MS", settings.max_block_ms);
  take("SEED", settings.seed);
  return settings;
}

}  // namespace runnel::emulator

#include "runner/process_memory.h"

#include <fstream>
#include <string>

namespace runnel {

std::optional<uint64_t> anonymous_memory_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string name; status >> name;) {
    uint64_t num_kib = 0;
    if (name == "RssAnon:" && status >> num_kib) return num_kib * 1024;
    std::getline(status, name);
  }
  return std::nullopt;
}

}  // namespace runnel

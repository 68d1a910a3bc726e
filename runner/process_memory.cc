#include "runner/process_memory.h"

#include <fstream>
#include <limits>
#include <string>

namespace runnel {

Result<uint64_t> private_memory_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string name; status >> name;) {
    uint64_t kib = 0;
    if (name == "RssAnon:" && status >> kib) return kib * 1024;
    status.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return Error{ExitCode::kSystem, "/proc/self/status does not tell RssAnon, the memory of this process."};
}

}  // namespace runnel

#include "runner/commands/memory_command.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>

#include "runner/system/memory_file.h"

namespace runnel {

Result<void> hold_kv_memory(int input, std::ostream& out) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const auto num_bytes =
      static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  Result<MemoryFile> memory = MemoryFile::create("runnel-kv");
  if (!memory.ok()) return memory.error();
  if (const auto sized = memory->resize(num_bytes); !sized.ok()) return sized;
  if (const auto sealed = memory->seal(Seals::kSize); !sealed.ok()) return sealed;
  out << memory->descriptor() << std::endl;
  char ignored;
  while (read(input, &ignored, 1) > 0) {
  }
  return {};
}

}  // namespace runnel

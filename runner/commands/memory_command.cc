#include "runner/commands/memory_command.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>

#include "runner/system/sealed_memory.h"

namespace runnel {

Result<void> hold_kv_memory(int input, std::ostream& out) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const auto num_bytes =
      static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const Result<SealedMemory> memory = SealedMemory::create("runnel-kv", num_bytes);
  if (!memory.ok()) return memory.error();
  out << memory->descriptor() << std::endl;
  char ignored;
  while (read(input, &ignored, 1) > 0) {
  }
  return {};
}

}  // namespace runnel

// The parts of the sandbox. Each applies to this process after the call. An error is a fragment of a sentence
// that says why this kernel refuses the part.
#pragma once

#include <linux/filter.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace runnel {

using SandboxObstacle = std::optional<std::string>;

// The kernel's version of Landlock; 0: it has none.
int landlock_version();

// Landlock: no file can be opened, created, removed or changed by its path. From version 4 on, no TCP port
// can be connected or listened to. From version 6 on, no process outside can get a signal or be reached
// through an abstract socket.
SandboxObstacle deny_files_and_ports();

// Memory that was writable cannot become executable.
SandboxObstacle deny_new_code();

// The program by which the kernel decides about each system call of this process, for the architecture that
// this is compiled for.
std::vector<sock_filter> system_call_filter();

// System calls that are not on the list fail with EPERM, and calls that only an intruder makes end the
// process with SIGSYS. Must be the last part, since it denies entering the others.
SandboxObstacle deny_system_calls();

}  // namespace runnel

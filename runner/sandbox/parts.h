// The parts of the sandbox. Each holds for this process from its return on; an error is a fragment that says
// why this kernel refuses it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace runnel {

using SandboxObstacle = std::optional<std::string>;

// Version of Landlock that the kernel has; 0: none.
int landlock_version();

// Landlock: no file can be opened, created, removed or changed by its path; from version 4 no TCP port can be
// connected or listened to; from version 6 no process outside can get a signal or be reached through an
// abstract socket.
SandboxObstacle deny_files_and_ports();

// No memory that was writable becomes executable.
SandboxObstacle deny_new_code();

// System calls off the list fail with EPERM, and those that only an intruder makes end the process by SIGSYS.
// To be entered last: it denies entering the others.
SandboxObstacle deny_system_calls();

}  // namespace runnel

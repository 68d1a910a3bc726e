// What a runner gives up before it reads a model file. The file is an attacker's way in, so whoever takes the
// parser over shall find a process that can compute, read its pipes and write to them, and nothing else: no
// file to open, no socket, no other program, no other process. docs/operations.md, "What is not trusted".
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "runner/result.h"

namespace runnel {

enum class SandboxMode {
  kStrict,  // every part, or no start
  kAuto,    // the parts that this kernel has
  kOff,
};

std::optional<SandboxMode> sandbox_mode_named(std::string_view name);
std::string_view sandbox_mode_name(SandboxMode mode);
inline constexpr std::string_view kSandboxModeNames = "strict, auto, off";

// Why no part can be had in this build, such as one with a sanitizer; none: they can.
std::optional<std::string> sandbox_obstacle();

// Confines this process for good. Call it while there is one thread: Landlock holds for the calling thread
// and those it starts. Descriptors that are open stay usable. Returns what holds, for Hello: parts joined by
// "+", or "none" or "off", with what is missing and why behind it. kStrict fails with kUsage where a part is
// missing: the same flag gives the same on this machine, so nobody shall try again and again.
// obstacle: why no part can be had here, for a reason of the caller's.
Result<std::string> enter_sandbox(SandboxMode mode,
                                  const std::optional<std::string>& obstacle = sandbox_obstacle());

}  // namespace runnel

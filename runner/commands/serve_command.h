// cpu-runner serve: what the gateway spawns. The order of messages is docs/protocol.md's, "The life of a
// runner".
#pragma once

#include <cstdint>
#include <string>

#include "runner/command_decoder.h"
#include "runner/commands/loaded_model.h"
#include "runner/recorder.h"
#include "runner/result.h"
#include "runner/sandbox/sandbox.h"

namespace runnel {

struct ServeFlags {
  FrameForm form = FrameForm::kBinary;
  std::string record;  // path; empty: no recording
  uint64_t record_max_bytes = kDefaultRecordMaxBytes;
  SandboxMode sandbox = SandboxMode::kAuto;
};

// Takes stdin and stdout for frames and serves until the gateway wants no more. Its error has been sent as
// Failure.
Result<void> serve_command(const EngineFlags& flags, const ServeFlags& serve_flags,
                           const BackendFactory& factory);

}  // namespace runnel

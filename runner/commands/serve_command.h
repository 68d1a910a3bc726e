// cpu-runner serve: what the gateway spawns. The order of messages is docs/protocol.md's, "The life of a
// runner".
#pragma once

#include <cstdint>
#include <string>

#include "runner/commands/loaded_model.h"
#include "runner/recordings/record_limits.h"
#include "runner/result.h"
#include "runner/sandbox/sandbox.h"

namespace runnel {

struct ServeFlags {
  bool json_frames = false;   // one JSON object a line instead of frames
  std::string expected_file;  // RegularFile::identity() of the model; empty: any
  std::string record;         // path; empty: no recording
  uint64_t record_max_bytes = kDefaultRecordMaxBytes;
  SandboxMode sandbox = SandboxMode::kAuto;
};

// Takes stdin and stdout for frames and serves until the gateway wants no more. Its error has been sent as
// Failure. Which serve_command and replay_command a runner has is decided when it is linked.
Result<void> serve_command(const EngineFlags& flags, const ServeFlags& serve_flags,
                           const BackendFactory& factory);

// Tells the reader of frames why serve does not begin: its command line does not parse.
void send_refusal(const Error& error, bool json_frames);

}  // namespace runnel

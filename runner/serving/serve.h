// The loop of a runner: take commands, schedule, forward, sample, send one Step frame. Cancels are obeyed
// during a step too. docs/protocol.md defines the order of messages.
#pragma once

#include "runner/engine/engine.h"
#include "runner/recordings/recorder.h"
#include "runner/result.h"
#include "runner/serving/channel.h"
#include "runner/serving/heartbeat.h"
#include "runner/serving/inbox.h"

namespace runnel {

// Serves requests from the inbox until a Drain or the end of the stream, and then until all accepted requests
// have ended. Must be called after Ready was sent. If there is a recorder, it gets each command before the
// command is obeyed. Fails with kProtocol (the gateway broke the protocol) or kInputOutput (the gateway is
// gone).
Result<void> serve(Engine& engine, Inbox& inbox, FrameWriter& writer, Vitals& vitals,
                   Recorder* recorder = nullptr);

}  // namespace runnel

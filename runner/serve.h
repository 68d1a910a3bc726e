// The loop of a runner: take commands, schedule, forward, sample, one Step frame. Cancels are obeyed between
// two layers of the forward too. The order of messages is docs/protocol.md's.
#pragma once

#include "runner/channel.h"
#include "runner/engine.h"
#include "runner/heartbeat.h"
#include "runner/inbox.h"
#include "runner/recorder.h"
#include "runner/result.h"

namespace runnel {

// Serves requests from the inbox until Drain or the end of the stream, and until those accepted have ended.
// Call it after Ready. The recorder, if there is one, gets each command before it is obeyed. Fails with
// kProtocol (the gateway broke the protocol) or kInputOutput (it is gone).
Result<void> serve(Engine& engine, Inbox& inbox, FrameWriter& writer, Vitals& vitals,
                   Recorder* recorder = nullptr);

}  // namespace runnel

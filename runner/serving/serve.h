// The loop of a runner: take commands, schedule, forward, sample, one Step frame. Cancels are obeyed while
// a step computes too. The order of messages is docs/protocol.md's.
#pragma once

#include "runner/engine.h"
#include "runner/recordings/recorder.h"
#include "runner/result.h"
#include "runner/serving/channel.h"
#include "runner/serving/heartbeat.h"
#include "runner/serving/inbox.h"

namespace runnel {

// Serves requests from the inbox until Drain or the end of the stream, and until those accepted have ended.
// Call it after Ready. The recorder, if there is one, gets each command before it is obeyed. Fails with
// kProtocol (the gateway broke the protocol) or kInputOutput (it is gone).
Result<void> serve(Engine& engine, Inbox& inbox, FrameWriter& writer, Vitals& vitals,
                   Recorder* recorder = nullptr);

}  // namespace runnel

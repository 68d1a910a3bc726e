// The loop of a runner: take commands, schedule, forward, sample, one Step frame. The order of messages is
// docs/protocol.md's.
#pragma once

#include "runner/channel.h"
#include "runner/engine.h"
#include "runner/heartbeat.h"
#include "runner/inbox.h"
#include "runner/result.h"

namespace runnel {

// Serves requests from the inbox until Drain or the end of the stream, and until those accepted have ended.
// Call it after Ready. Fails with kProtocol (the gateway broke the protocol) or kInputOutput (it is gone).
Result<void> serve(Engine& engine, Inbox& inbox, FrameWriter& writer, Vitals& vitals);

}  // namespace runnel

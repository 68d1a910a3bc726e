// Repeats a recording: the same commands after the same steps, with the same session and engine. Every frame
// is compared with the recorded one, bit for bit, except for the times in it.
#pragma once

#include <cstdint>
#include <limits>
#include <ostream>
#include <string>

#include "runner/engine/engine.h"
#include "runner/recordings/recording.h"
#include "runner/result.h"

namespace runnel {

// What determines the results of the engine, to be compared with the recorded values.
struct ReplaySubject {
  std::string numerics_id;  // of the backend, as in Hello
  std::string model_identity;
  std::string model_numerics_id = {};  // with the model, as in Ready
};

// Prints the result. If the recorded process ended in the middle of its work, the step in which it ended is
// computed last, so that a crash that repeats is repeated there. Fails with kDifferent and the first
// difference, and with kUsage if the subject differs or the recording is damaged.
Result<void> replay(Recording& recording, Engine& engine, const ReplaySubject& subject, uint64_t until_step,
                    std::ostream& out);

}  // namespace runnel

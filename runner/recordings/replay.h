// Does again what a recording holds: the same commands after the same steps, through the same session and
// engine, and every frame compared with the one that was sent then, bit for bit
// but for the times in it.
#pragma once

#include <cstdint>
#include <limits>
#include <ostream>
#include <string>

#include "runner/engine.h"
#include "runner/recordings/recording.h"
#include "runner/result.h"

namespace runnel {

// What the engine computes with, to be compared with what the recorded one did.
struct ReplaySubject {
  std::string numerics_id;
  std::string model_identity;
};

// Prints how it went. If the recorded process ended in the middle of its work, the step in which it did is
// computed last: a crash that repeats, repeats there. Fails with kDifferent and the first difference; with
// kUsage if the subject is another, or the recording damaged.
Result<void> replay(Recording& recording, Engine& engine, const ReplaySubject& subject, uint64_t until_step,
                    std::ostream& out);

}  // namespace runnel

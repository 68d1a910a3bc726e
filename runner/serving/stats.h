// What the Stats frame tells of an engine.
#pragma once

#include "runner/engine.h"
#include "runner/serving/messages.h"

namespace runnel {

// All but memory_bytes, which is the process's and not the engine's.
wire::Stats stats_of(const Engine& engine);

}  // namespace runnel

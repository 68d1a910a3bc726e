// Fills the Stats frame from an engine.
#pragma once

#include "runner/engine/engine.h"
#include "runner/serving/messages.h"

namespace runnel {

// Sets everything but memory_bytes, which belongs to the process and not to the engine.
wire::Stats stats_of(const Engine& engine);

}  // namespace runnel

// What the runner says, for people and scripts: one JSON object with one member, named as in
// proto/runner.proto.
#pragma once

#include <string>

#include "runner/serving/messages.h"

namespace runnel {

// {"load_progress":{"loaded_bytes":0,"total_bytes":1024}}, on one line and without its end. Every field is
// there but those whose being unset means something. Numbers above 2^53 are strings, so that no reader rounds
// them; floats have the digits that give back their bits.
std::string event_to_json(const wire::FromRunner& event);

}  // namespace runnel

// Damage to streams of frames: to their order, to the messages in them as protobuf has them, and to bytes. It
// knows the encoding and no schema, so it serves both directions.
#pragma once

#include <string>

#include "test/fuzz/random.h"

namespace runnel::fuzz {

// The bytes may be damaged already.
void mutate_frames(std::string& bytes, Random& random);

}  // namespace runnel::fuzz

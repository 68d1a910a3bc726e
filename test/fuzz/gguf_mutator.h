// Damage to GGUF files that knows where their fields are, so that it gets past the first of them.
#pragma once

#include <string>

#include "test/fuzz/random.h"

namespace runnel::fuzz {

// The bytes may be damaged already.
void mutate_gguf(std::string& bytes, Random& random);

}  // namespace runnel::fuzz

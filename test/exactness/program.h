// Exactness, the promise of docs/numerics.md, on random cases: a request's ids, and every bit of the logits
// they are drawn from, are the same computed alone and plainly as among others, in chunks, from a warm cache,
// after preemptions, pauses and kills, and by whatever ways the backend has: threads, kernels, graphs.
#pragma once

#include "test/exactness/contender.h"

namespace runnel::exactness {

// Returns the process's exit status.
int run_program(int argc, const char* const* argv, const Contender& contender);

}  // namespace runnel::exactness

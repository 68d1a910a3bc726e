// The command line of a runner binary.
#pragma once

#include "runner/commands/loaded_model.h"

namespace runnel {

// Runs the command that argv names and returns the process's exit status. An error is one sentence on stderr.
int run_commands(int argc, const char* const* argv, const BackendFactory& factory);

}  // namespace runnel

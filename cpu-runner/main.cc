#include "cpu-runner/cpu_backend.h"
#include "runner/commands/run_commands.h"

int main(int argc, char** argv) {
  return runnel::run_commands(argc, argv, {.kind = "cpu", .make = runnel::make_cpu_backend});
}

#include "cpu-runner/cpu_backend.h"
#include "runner/commands/run_commands.h"

int main(int argc, char** argv) {
  return runnel::run_commands(argc, argv, {.kind = "cpu", .make = [](uint32_t num_threads) {
                                             return runnel::make_cpu_backend({.num_threads = num_threads});
                                           }});
}

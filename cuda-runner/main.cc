#include "cuda-runner/cuda_backend.h"
#include "cuda-runner/devices_report.h"
#include "runner/commands/run_commands.h"

int main(int argc, char** argv) {
  return runnel::run_commands(
      argc, argv,
      {.kind = "cuda", .make = runnel::make_cuda_backend, .report_devices = runnel::report_devices});
}

// What a kernel does that it must not. The sentence goes to stderr, the kernel ends where it stands, and the
// device is lost as a real one would be: every later call returns the error.
#pragma once

#include <string>

#include "cuda-runner/emulator/place.h"
#include "cuda-runner/emulator/runtime_api.h"

namespace runnel::emulator {

// By a thread of the block that runs. what: "reads element %zu of a view of %zu". Nothing that has a
// destructor may be alive in the caller: its stack is left as it is.
[[noreturn, gnu::format(printf, 3, 4)]] void fault(cudaError_t error, const Place& place, const char* what,
                                                   ...);
// What is not one thread's doing; the caller abandons the block.
void report_fault_of_block(cudaError_t error, const std::string& what);

// Says the sentence and loses the device, for what is no kernel's doing.
void lose_device(cudaError_t error, const std::string& sentence);
// Success, or the error that each call returns from now on.
cudaError_t device_error();
// The sentence of the fault that lost the device, or nothing.
const std::string& last_fault();
void forget_fault();

}  // namespace runnel::emulator

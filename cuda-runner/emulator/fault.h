// Faults: mistakes of a kernel. A fault prints a sentence to stderr, ends the kernel at once, and loses the
// device, as a real device would be lost: every later call returns the error.
#pragma once

#include <string>

#include "cuda-runner/emulator/place.h"
#include "cuda-runner/emulator/runtime_api.h"

namespace runnel::emulator {

// Reports a fault of the running thread and abandons its block. what: a format such as "reads element %zu of
// a view of %zu". The caller must have no live object with a destructor, because its stack is not unwound.
[[noreturn, gnu::format(printf, 3, 4)]] void fault(cudaError_t error, const Place& place, const char* what,
                                                   ...);
// The same for a fault that belongs to no line of the kernel.
[[noreturn]] void fault_of_thread(cudaError_t error, const char* what);
// Reports a fault that belongs to no single thread. The caller must abandon the block.
void report_fault_of_block(cudaError_t error, const std::string& what);

// Prints the sentence and loses the device, for faults outside of kernels.
void lose_device(cudaError_t error, const std::string& sentence);
// cudaSuccess, or the error that each call returns since the device was lost.
cudaError_t device_error();
// The sentence of the fault that lost the device, or "".
const std::string& last_fault();
void forget_fault();

}  // namespace runnel::emulator

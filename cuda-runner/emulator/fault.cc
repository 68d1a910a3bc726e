#include "cuda-runner/emulator/fault.h"

#include <cstdarg>
#include <cstdio>

#include "cuda-runner/emulator/block.h"

namespace runnel::emulator {
namespace {

constexpr size_t kMaxWhatBytes = 512;

cudaError_t error_of_device = cudaSuccess;
std::string sentence_of_fault;

std::string coordinates(const uint3& index) {
  char text[48];
  std::snprintf(text, sizeof(text), "(%u, %u, %u)", index.x, index.y, index.z);
  return text;
}

void report_fault_of_thread(cudaError_t error, const std::string& what) {
  lose_device(error, "Kernel " + running_kernel() + ", block " + coordinates(blockIdx) + ", thread " +
                         coordinates(threadIdx) + " " + what + ".");
}

}  // namespace

std::string name_of(const Place& place) {
  const std::string path = place.file_name();
  return path.substr(path.rfind('/') + 1) + ":" + std::to_string(place.line());
}

void fault(cudaError_t error, const Place& place, const char* what, ...) {
  char text[kMaxWhatBytes];
  va_list arguments;
  va_start(arguments, what);
  std::vsnprintf(text, sizeof(text), what, arguments);
  va_end(arguments);
  report_fault_of_thread(error, std::string(text) + ", at " + name_of(place));
  abandon_block();
}

void fault_of_thread(cudaError_t error, const char* what) {
  report_fault_of_thread(error, what);
  abandon_block();
}

void report_fault_of_block(cudaError_t error, const std::string& what) {
  lose_device(error, "Kernel " + running_kernel() + ", block " + coordinates(blockIdx) + ": " + what + ".");
}

void lose_device(cudaError_t error, const std::string& sentence) {
  error_of_device = error;
  sentence_of_fault = sentence;
  std::fprintf(stderr, "Emulated device: %s\n", sentence.c_str());
}

cudaError_t device_error() {
  return error_of_device;
}

const std::string& last_fault() {
  return sentence_of_fault;
}

void forget_fault() {
  error_of_device = cudaSuccess;
  sentence_of_fault.clear();
}

}  // namespace runnel::emulator

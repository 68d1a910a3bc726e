#include "cuda-runner/device/stream.h"

namespace runnel {
namespace {

cudaStream_t create_stream() {
  cudaStream_t stream = nullptr;
  expect_success(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "creating a stream");
  return stream;
}

}  // namespace

Stream::Stream() : stream_(create_stream()) {}

void Stream::wait(const Event& event) const {
  expect_success(cudaStreamWaitEvent(get(), event.get(), 0), "making a stream wait");
}

void Stream::synchronize() const {
  expect_success(cudaStreamSynchronize(get()), "waiting for the GPU");
}

void Stream::copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) const {
  expect_success(cudaMemcpyAsync(to, from, bytes, kind, get()), "copying memory");
}

void Stream::fill_with_zeros(void* memory, size_t bytes) const {
  expect_success(cudaMemsetAsync(memory, 0, bytes, get()), "filling memory");
}

}  // namespace runnel

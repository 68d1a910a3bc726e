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

void Stream::copy_rows(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t bytes,
                       size_t num_rows) const {
  expect_success(cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, bytes, num_rows, cudaMemcpyDefault, get()),
                 "copying rows");
}

void Stream::fill_with_zeros(void* memory, size_t bytes) const {
  expect_success(cudaMemsetAsync(memory, 0, bytes, get()), "filling memory");
}

}  // namespace runnel

// Work for the device, done in its order. Calls return before it is done: what they name must live, and may
// not be looked at, until synchronize().
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <span>

#include "cuda-runner/device/device_buffer.h"
#include "cuda-runner/device/event.h"
#include "cuda-runner/device/handle.h"
#include "cuda-runner/device/pinned_buffer.h"
#include "runner/check.h"

namespace runnel {

class Stream {
 public:
  Stream();

  cudaStream_t get() const { return stream_.get(); }

  // All elements of `from`, to those of `to` from `first` on. They are read later. From memory that is not
  // pinned the driver may read now or later as it likes, so there is no such upload.
  template <typename T>
  void upload(DeviceBuffer<T>& to, size_t first, const PinnedPart<T>& from) {
    CHECK(first <= to.size() && from.values.size() <= to.size() - first);
    copy(to.data() + first, from.values.data(), from.values.size_bytes(), cudaMemcpyHostToDevice);
  }
  // As many as `to` has. To memory that is not pinned this waits until they are there.
  template <typename T>
  void download(std::span<T> to, const DeviceBuffer<T>& from, size_t first) {
    CHECK(first <= from.size() && to.size() <= from.size() - first);
    copy(to.data(), from.data() + first, to.size_bytes(), cudaMemcpyDeviceToHost);
  }
  // All elements, from one place on the device to another of the same size.
  template <typename T>
  void copy(DeviceBuffer<T>& to, const DeviceBuffer<T>& from) const {
    CHECK(to.size() == from.size());
    copy(to.data(), from.data(), from.num_bytes(), cudaMemcpyDeviceToDevice);
  }
  template <typename T>
  void fill_with_zeros(DeviceBuffer<T>& buffer) {
    fill_with_zeros(buffer.data(), buffer.num_bytes());
  }

  // What is given from now on waits for the event.
  void wait(const Event& event) const;
  // Waits on the host until all work is done.
  void synchronize() const;

 private:
  void copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) const;
  void fill_with_zeros(void* memory, size_t bytes) const;

  Handle<cudaStream_t, cudaStreamDestroy> stream_;
};

}  // namespace runnel

// A queue of work for the device, which does the work in order. Calls return before the work is done: what
// their arguments refer to must live, and results must not be read, until synchronize().
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

  // Copies all elements of `from` to `to`, from element `first` on. They are read when the copy runs. There
  // is no upload from memory that is not pinned, because CUDA does not say whether the driver reads that
  // before the call returns or later.
  template <typename T>
  void upload(DeviceBuffer<T>& to, size_t first, const PinnedPart<T>& from) {
    RUNNEL_CHECK(first <= to.size() && from.values.size() <= to.size() - first);
    copy(to.data() + first, from.values.data(), from.values.size_bytes(), cudaMemcpyHostToDevice);
  }
  // Copies the first `width` elements of each of num_rows rows, which are `stride` elements long on both
  // sides.
  template <typename T>
  void upload_rows(DeviceBuffer<T>& to, size_t first, const PinnedPart<T>& from, size_t stride, size_t width,
                   size_t num_rows) {
    RUNNEL_CHECK(width <= stride && num_rows * stride <= from.values.size());
    RUNNEL_CHECK(first <= to.size() && num_rows * stride <= to.size() - first);
    copy_rows(to.data() + first, stride * sizeof(T), from.values.data(), stride * sizeof(T),
              width * sizeof(T), num_rows);
  }
  // Copies to.size() elements of `from`, from element `first` on. If `to` is not pinned memory, this waits
  // until they are there.
  template <typename T>
  void download(std::span<T> to, const DeviceBuffer<T>& from, size_t first) {
    RUNNEL_CHECK(first <= from.size() && to.size() <= from.size() - first);
    copy(to.data(), from.data() + first, to.size_bytes(), cudaMemcpyDeviceToHost);
  }
  // Copies all elements to another buffer of the same size.
  template <typename T>
  void copy(DeviceBuffer<T>& to, const DeviceBuffer<T>& from) const {
    RUNNEL_CHECK(to.size() == from.size());
    copy(to.data(), from.data(), from.num_bytes(), cudaMemcpyDeviceToDevice);
  }
  // Copies `width` elements of each of num_rows rows, whose first elements are `stride` apart. The buffers
  // may be of different devices.
  template <typename T>
  void copy_rows(DeviceBuffer<T>& to, size_t to_first, size_t to_stride, const DeviceBuffer<T>& from,
                 size_t from_first, size_t from_stride, size_t width, size_t num_rows) const {
    if (width == 0 || num_rows == 0) return;
    RUNNEL_CHECK(to_first + (num_rows - 1) * to_stride + width <= to.size());
    RUNNEL_CHECK(from_first + (num_rows - 1) * from_stride + width <= from.size());
    copy_rows(to.data() + to_first, to_stride * sizeof(T), from.data() + from_first, from_stride * sizeof(T),
              width * sizeof(T), num_rows);
  }
  template <typename T>
  void fill_with_zeros(DeviceBuffer<T>& buffer) {
    fill_with_zeros(buffer.data(), buffer.num_bytes());
  }

  // Makes work that is given to the stream from now on wait for the event.
  void wait(const Event& event) const;
  // Makes the host wait until all work of the stream is done.
  void synchronize() const;

 private:
  void copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) const;
  void copy_rows(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t bytes,
                 size_t num_rows) const;
  void fill_with_zeros(void* memory, size_t bytes) const;

  Handle<cudaStream_t, cudaStreamDestroy> stream_;
};

}  // namespace runnel

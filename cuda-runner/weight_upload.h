// Sends weights to the device. Threads pack them tile by tile into pieces of pinned memory, which are used in
// turn: some are packed while others are copied.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>

#include "cuda-runner/device/device_buffer.h"
#include "cuda-runner/device/event.h"
#include "cuda-runner/device/pinned_buffer.h"
#include "cuda-runner/device/stream.h"
#include "cuda-runner/kernels/product.h"
#include "cuda-runner/packing_threads.h"
#include "runner/formats/tensor.h"
#include "runner/result.h"

namespace runnel {

// A matrix on the device.
struct UploadedMatrix {
  TensorType type;
  uint32_t rows;
  uint32_t columns;
  DeviceBuffer<uint32_t> quants;
  DeviceBuffer<uint16_t> scales;

  DeviceMatrix view() const { return {type, rows, columns, quants.view(), scales.view()}; }
  // The rows from `first` on, which must be the first of a tile.
  DeviceMatrix view_of(uint32_t first, uint32_t count) const;
  uint64_t num_bytes() const { return quants.num_bytes() + scales.num_bytes(); }
};

class WeightUpload {
 public:
  // The number of pieces, and the bytes of each unless a single tile needs more.
  static constexpr size_t kPieces = 16;
  static constexpr size_t kPieceBytes = size_t{1} << 20;

  // num_threads: of those that pack, 1 to kMaxPackingThreads. Fails with kSystem if no memory can be pinned
  // or a thread cannot be started.
  static Result<WeightUpload> create(Stream& stream, uint32_t num_threads);

  // Bytes of the device's memory that matrix() takes. Reads no values.
  static uint64_t bytes_of(std::span<const TensorView> stacked);
  // The stacked tensors become one matrix; they are as PackedTensor needs them. Returns as soon as the last
  // copy has been given to the stream; the tensors are not read any more. Fails with kSystem if the memory of
  // the device or the host is too small.
  Result<UploadedMatrix> matrix(std::span<const TensorView> stacked);
  // Sends a vector. name is that of the tensor, for the error. Fails as matrix() does.
  Result<DeviceBuffer<float>> vector(const std::string& name, std::span<const float> values);

  // How long calls have waited for threads, and for copies.
  std::chrono::nanoseconds waited_for_packing() const { return waited_for_packing_; }
  std::chrono::nanoseconds waited_for_copies() const { return waited_for_copies_; }

 private:
  struct Piece {
    Event copied;
    bool is_used = false;
  };

  explicit WeightUpload(Stream& stream) : stream_(&stream) {}
  // Gives each piece this many bytes at least.
  Result<void> make_room(size_t piece_bytes);
  template <typename T>
  std::span<T> memory_of(size_t piece, size_t first_byte, size_t count);
  // Waits until the last copy from the piece is done.
  void wait_for_copy(size_t piece);
  void mark_used(size_t piece);

  Stream* stream_;
  std::unique_ptr<PackingThreads> threads_;
  PinnedBuffer<std::byte> memory_;
  std::array<Piece, kPieces> pieces_;
  size_t piece_bytes_ = 0;
  size_t next_ = 0;  // the piece that is used next
  std::chrono::nanoseconds waited_for_packing_{0};
  std::chrono::nanoseconds waited_for_copies_{0};
};

}  // namespace runnel

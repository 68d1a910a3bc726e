// Sends weights to the device. They are packed tile by tile into two pieces of pinned memory: one is copied
// while the other is filled.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "cuda-runner/device/device_buffer.h"
#include "cuda-runner/device/event.h"
#include "cuda-runner/device/pinned_buffer.h"
#include "cuda-runner/device/stream.h"
#include "cuda-runner/kernels/product.h"
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
  // Fails with kSystem if no memory can be pinned.
  static Result<WeightUpload> create(Stream& stream);

  // Bytes of the device's memory that matrix() takes. Reads no values.
  static uint64_t bytes_of(std::span<const TensorView> stacked);
  // The stacked tensors become one matrix; they are as PackedTensor needs them. Returns as soon as the last
  // copy has been given to the stream; the tensors are not read any more. Fails with kSystem if the memory of
  // the device or the host is too small.
  Result<UploadedMatrix> matrix(std::span<const TensorView> stacked);
  // Sends a vector. name is that of the tensor, for the error. Fails as matrix() does.
  Result<DeviceBuffer<float>> vector(const std::string& name, std::span<const float> values);

 private:
  struct Piece {
    PinnedBuffer<uint32_t> quants;
    PinnedBuffer<uint16_t> scales;
    PinnedBuffer<float> values;  // used by vector()
    Event copied;
    bool is_used = false;
  };

  explicit WeightUpload(Stream& stream) : stream_(&stream) {}
  // Waits until the last copy from the piece is done.
  static void wait_for(Piece& piece);
  void mark_used(Piece& piece);
  // Makes the piece's buffers at least this large.
  Result<void> make_room(Piece& piece, size_t num_quant_words, size_t num_scales);

  Stream* stream_;
  std::array<Piece, 2> pieces_;
};

}  // namespace runnel

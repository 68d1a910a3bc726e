#include "cuda-runner/packed_tensor.h"

#include <algorithm>
#include <cstring>

#include "cuda-runner/kernels/product.h"
#include "runner/check.h"

namespace runnel {
namespace {

constexpr size_t kPieceBytes = 16;
constexpr size_t kPieceWords = kPieceBytes / sizeof(uint32_t);

// Halves in front of a block's quants: d, and m.
uint32_t scales_of_block(TensorType type) {
  if (!is_quantised(type)) return 0;
  return type == TensorType::kQ4_1 ? 2 : 1;
}

}  // namespace

PackedTensor::PackedTensor(const TensorView& tensor) : tensor_(tensor) {
  constexpr uint64_t kMaxSize = uint64_t{1} << 30;
  CHECK(tensor.num_dims == 2 && tensor.rows() <= kMaxSize && tensor.columns() <= kMaxSize);
  CHECK(tensor.columns() % block_weights(tensor.type) == 0);
}

uint32_t PackedTensor::num_tiles() const {
  return (rows() + kWarpTileRows - 1) / kWarpTileRows;
}

uint32_t PackedTensor::num_pieces() const {
  const size_t row_bytes = size_t{columns()} / block_weights(type()) * block_bytes(type());
  const size_t scale_bytes = size_t{columns()} / block_weights(type()) * scales_of_block(type()) * 2;
  return static_cast<uint32_t>((row_bytes - scale_bytes + kPieceBytes - 1) / kPieceBytes);
}

size_t PackedTensor::num_quant_words() const {
  return size_t{num_pieces()} * kWarpTileRows * kPieceWords;
}

size_t PackedTensor::num_scales() const {
  return size_t{columns()} / block_weights(type()) * scales_of_block(type()) * kWarpTileRows;
}

void PackedTensor::pack(uint32_t tile, std::span<uint32_t> quants, std::span<uint16_t> scales) const {
  CHECK(tile < num_tiles() && quants.size() == num_quant_words() && scales.size() == num_scales());
  std::ranges::fill(quants, 0u);
  std::ranges::fill(scales, uint16_t{0});
  const size_t row_bytes = tensor_.data.size() / rows();
  const size_t scale_bytes = scales_of_block(type()) * sizeof(uint16_t);
  // Between two scales; F16 and F32 have none.
  const size_t stretch_bytes = is_quantised(type()) ? block_bytes(type()) - scale_bytes : row_bytes;
  const uint32_t first_row = tile * kWarpTileRows;
  for (uint32_t row = first_row; row < std::min(first_row + kWarpTileRows, rows()); ++row) {
    const std::byte* from = tensor_.data.data() + row * row_bytes;
    const std::byte* const end = from + row_bytes;
    uint32_t* to = quants.data() + (row - first_row) * kPieceWords;
    uint16_t* scale = scales.data() + (row - first_row) * scales_of_block(type());
    while (from < end) {
      if (scale_bytes > 0) std::memcpy(scale, from, scale_bytes);
      from += scale_bytes;
      scale += scales_of_block(type()) * kWarpTileRows;
      for (size_t done = 0; done < stretch_bytes; done += kPieceBytes) {
        std::memcpy(to, from + done, std::min(kPieceBytes, stretch_bytes - done));
        to += kWarpTileRows * kPieceWords;
      }
      from += stretch_bytes;
    }
  }
}

}  // namespace runnel

// Packs a matrix, or several of one type whose rows are stacked, tile by tile, into the layout that kernels
// read (DeviceMatrix in kernels/product.h). This runs on the host, before the matrix is sent to the device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "runner/formats/tensor.h"

namespace runnel {

class PackedTensor {
 public:
  // Whether the second matrix can be stacked on the first: a tile has rows of one matrix only.
  static bool can_stack(const TensorView& first, const TensorView& second);

  // The tensors must have two dimensions, each at most 2^30, and must outlive this. Each must be one that can
  // be stacked on the one before.
  explicit PackedTensor(std::span<const TensorView> stacked);

  TensorType type() const { return stacked_.front().type; }
  uint32_t rows() const { return rows_; }
  uint32_t columns() const { return static_cast<uint32_t>(stacked_.front().columns()); }
  uint32_t num_tiles() const;
  // Sizes of one tile.
  size_t num_quant_words() const;
  size_t num_scales() const;  // 16-bit numbers

  // Writes one tile. quants and scales must have the sizes above.
  void pack(uint32_t tile, std::span<uint32_t> quants, std::span<uint16_t> scales) const;

 private:
  // Write one row of a tile: floats, and quantised weights.
  void pack_values(std::span<const std::byte> row, uint32_t row_in_tile, std::span<uint32_t> quants) const;
  void pack_blocks(const std::byte* row, uint32_t row_in_tile, std::span<uint32_t> quants,
                   std::span<uint16_t> scales) const;

  std::span<const TensorView> stacked_;
  uint32_t rows_ = 0;
};

}  // namespace runnel

// A matrix of the file as kernels want it: see DeviceMatrix in kernels/product.h. Here on the host, tile by
// tile, on its way to the device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "runner/formats/tensor.h"

namespace runnel {

class PackedTensor {
 public:
  // The tensor has two dimensions, each of at most 2^30; it must outlive this.
  explicit PackedTensor(const TensorView& tensor);

  TensorType type() const { return tensor_.type; }
  uint32_t rows() const { return static_cast<uint32_t>(tensor_.rows()); }
  uint32_t columns() const { return static_cast<uint32_t>(tensor_.columns()); }
  uint32_t num_tiles() const;
  // Of a tile.
  size_t num_quant_words() const;
  size_t num_scales() const;  // numbers of 16 bits

  // Fills both, of the sizes above.
  void pack(uint32_t tile, std::span<uint32_t> quants, std::span<uint16_t> scales) const;

 private:
  // One row of a tile.
  void pack_values(std::span<const std::byte> row, uint32_t row_in_tile, std::span<uint32_t> quants) const;
  void pack_blocks(const std::byte* row, uint32_t row_in_tile, std::span<uint32_t> quants,
                   std::span<uint16_t> scales) const;

  const TensorView& tensor_;
};

}  // namespace runnel

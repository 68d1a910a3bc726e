#include "cuda-runner/packed_tensor.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "cuda-runner/kernels/device_codes.h"
#include "cuda-runner/kernels/product.h"
#include "runner/check.h"
#include "runner/formats/quant_block.h"

namespace runnel {
namespace {

constexpr size_t kPieceBytes = 16;
constexpr size_t kPieceWords = kPieceBytes / sizeof(uint32_t);
constexpr uint32_t kSegmentBlocks = kSegmentColumns / kBlockColumns;

// Sizes of what one row of a tile has for a block of columns.
struct BlockSizes {
  size_t words;             // of codes
  size_t scales;            // 16-bit numbers: d, and m if the type has it
  size_t blocks_of_scales;  // number of blocks that share d and m
  size_t sub_scales;        // 16-bit numbers
};

BlockSizes sizes_of(TensorType type) {
  return with_quantised_type(type, [](auto constant) -> BlockSizes {
    constexpr QuantFormat kFormat = quant_format(constant);
    constexpr bool kHasSubScales = kFormat.num_sub_scales > 0;
    return {.words = kFormat.num_words(),
            .scales = kFormat.has_minimum ? 2 : 1,
            .blocks_of_scales = kHasSubScales ? kSegmentBlocks : 1,
            .sub_scales = kHasSubScales ? 1 : 0};
  });
}

// The index of word w of a row's block among the words of the tile's block. QuantBlockView reads it there.
template <QuantFormat kFormat>
size_t word_place(uint32_t w, uint32_t row) {
  constexpr uint32_t kLowWords = kFormat.num_low_words();
  constexpr uint32_t kRun = std::min<uint32_t>(kLowWords, kPieceWords);
  if (w < kLowWords) return (w / kRun * kWarpTileRows + row) * kRun + w % kRun;
  return kLowWords * kWarpTileRows + row * kFormat.high_bits() + (w - kLowWords);
}

}  // namespace

bool PackedTensor::can_stack(const TensorView& first, const TensorView& second) {
  return first.type == second.type && first.columns() == second.columns() &&
         first.rows() % kWarpTileRows == 0;
}

PackedTensor::PackedTensor(std::span<const TensorView> stacked) : stacked_(stacked) {
  constexpr uint64_t kMaxSize = uint64_t{1} << 30;
  const TensorView* before = nullptr;
  for (const TensorView& tensor : stacked) {
    CHECK(tensor.num_dims == 2 && tensor.rows() <= kMaxSize && tensor.columns() <= kMaxSize);
    CHECK(tensor.columns() % block_weights(tensor.type) == 0);
    CHECK(before == nullptr || can_stack(*before, tensor));
    rows_ += static_cast<uint32_t>(tensor.rows());
    before = &tensor;
  }
}

uint32_t PackedTensor::num_tiles() const {
  return (rows() + kWarpTileRows - 1) / kWarpTileRows;
}

size_t PackedTensor::num_quant_words() const {
  if (is_quantised(type())) return columns() / kBlockColumns * kWarpTileRows * sizes_of(type()).words;
  const size_t row_bytes = size_t{columns()} * block_bytes(type());
  return (row_bytes + kPieceBytes - 1) / kPieceBytes * kWarpTileRows * kPieceWords;
}

size_t PackedTensor::num_scales() const {
  if (!is_quantised(type())) return 0;
  const BlockSizes sizes = sizes_of(type());
  const size_t num_blocks = columns() / kBlockColumns;
  return (num_blocks / sizes.blocks_of_scales * sizes.scales + num_blocks * sizes.sub_scales) * kWarpTileRows;
}

void PackedTensor::pack(uint32_t tile, std::span<uint32_t> quants, std::span<uint16_t> scales) const {
  CHECK(tile < num_tiles() && quants.size() == num_quant_words() && scales.size() == num_scales());
  std::ranges::fill(quants, 0u);
  std::ranges::fill(scales, uint16_t{0});
  const TensorView* tensor = stacked_.data();
  uint64_t first_row = uint64_t{tile} * kWarpTileRows;
  for (; first_row >= tensor->rows(); ++tensor) first_row -= tensor->rows();
  const size_t row_bytes = tensor->data.size() / tensor->rows();
  const uint64_t end = std::min(first_row + kWarpTileRows, tensor->rows());
  for (uint64_t row = first_row; row < end; ++row) {
    const std::byte* from = tensor->data.data() + row * row_bytes;
    if (is_quantised(type())) {
      pack_blocks(from, static_cast<uint32_t>(row - first_row), quants, scales);
    } else {
      pack_values({from, row_bytes}, static_cast<uint32_t>(row - first_row), quants);
    }
  }
}

void PackedTensor::pack_values(std::span<const std::byte> row, uint32_t row_in_tile,
                               std::span<uint32_t> quants) const {
  uint32_t* to = quants.data() + row_in_tile * kPieceWords;
  for (size_t done = 0; done < row.size(); done += kPieceBytes) {
    std::memcpy(to, row.data() + done, std::min(kPieceBytes, row.size() - done));
    to += kWarpTileRows * kPieceWords;
  }
}

void PackedTensor::pack_blocks(const std::byte* row, uint32_t row_in_tile, std::span<uint32_t> quants,
                               std::span<uint16_t> scales) const {
  const BlockSizes sizes = sizes_of(type());
  with_quantised_type(type(), [&](auto constant) {
    constexpr QuantFormat kFormat = quant_format(constant);
    for (size_t index = 0; index < columns() / kBlockColumns; ++index) {
      QuantBlock block = read_block(constant, row, index);
      for (uint32_t& codes : block.codes) codes ^= 0x01010101u * flipped_bits(kFormat);
      const QuantWords<constant> words = pack_codes<constant>(block);
      const size_t first_word = index * kFormat.num_words() * kWarpTileRows;
      for (uint32_t w = 0; w < words.size(); ++w)
        quants[first_word + word_place<kFormat>(w, row_in_tile)] = words[w];

      const size_t group = index / sizes.blocks_of_scales;
      const size_t first_scale =
          group * (sizes.scales + sizes.blocks_of_scales * sizes.sub_scales) * kWarpTileRows;
      const size_t at = first_scale + scale_place(row_in_tile) * sizes.scales;
      scales[at] = block.scale;
      if constexpr (kFormat.has_minimum) scales[at + 1] = block.minimum;
      if constexpr (kFormat.num_sub_scales > 0) {
        const std::array<uint8_t, 2> bytes = pack_sub_scales<constant>(block);
        const size_t in_group = index % sizes.blocks_of_scales;
        scales[first_scale + (sizes.scales + in_group) * kWarpTileRows + scale_place(row_in_tile)] =
            static_cast<uint16_t>(bytes[0] | bytes[1] << 8);
      }
    }
  });
}

}  // namespace runnel

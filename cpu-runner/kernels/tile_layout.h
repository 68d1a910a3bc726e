// Where the weights of a segment of 256 columns, or of what is left of them, lie in a tile: see matrix.h. The
// functions are static and always inlined, since kernels of every instruction set use them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runner/formats/quant_format.h"

namespace runnel {

// Weights are held in tiles of 32 rows, whose products are a block of the next product's columns; a lane of a
// vector is a row.
inline constexpr uint32_t kTileRows = 32;
// Blocks of columns that share a scale.
inline constexpr uint32_t kBlockColumns = 32;
// Columns whose products are summed before they are added to the total.
inline constexpr uint32_t kSegmentColumns = 256;

// Offsets in bytes from the segment's first. Scales are at 0.
struct SegmentLayout {
  uint32_t minima;
  uint32_t sub_scales;
  uint32_t sub_minima;
  uint32_t words;
  uint32_t end;
};

template <QuantFormat kFormat>
[[gnu::always_inline]] static constexpr inline SegmentLayout segment_layout(uint32_t num_blocks) {
  constexpr uint32_t kNumSubScales = kFormat.num_sub_scales;
  SegmentLayout layout{};
  layout.minima = (kNumSubScales > 0 ? 1 : num_blocks) * kTileRows * uint32_t{sizeof(uint16_t)};
  layout.sub_scales = layout.minima * (kFormat.has_minimum ? 2 : 1);
  layout.sub_minima = layout.sub_scales + num_blocks * kTileRows * kNumSubScales;
  layout.words = layout.sub_minima + (kNumSubScales == 1 && kFormat.has_minimum ? num_blocks * kTileRows : 0);
  layout.end = layout.words + num_blocks * kFormat.num_words() * kTileRows * uint32_t{sizeof(uint32_t)};
  return layout;
}

}  // namespace runnel

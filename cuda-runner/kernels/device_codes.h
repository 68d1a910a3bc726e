// How the device has quantised weights, besides QuantFormat. Host and device code.
#pragma once

#include <cstdint>

#include "runner/formats/quant_format.h"

namespace runnel {

// If q is a code less an offset, the device has q itself, as a signed number of code_bits bits: the code with
// its highest bit flipped. These are the bits that are flipped in a byte; 0: codes are stored as they are.
constexpr uint32_t flipped_bits(QuantFormat format) {
  if (format.values != CodeValues::kCode || format.code_offset == 0) return 0;
  return 1u << (format.code_bits - 1);
}

// The place of a row of a tile among its scales: those that a lane of the tensor cores has, rows g, g + 8,
// g + 16 and g + 24, are adjacent.
constexpr uint32_t scale_place(uint32_t row) {
  return row % 8 * 4 + row / 8;
}

}  // namespace runnel

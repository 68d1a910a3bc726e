// How the device has the codes of quantised weights. Host and device code.
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

}  // namespace runnel

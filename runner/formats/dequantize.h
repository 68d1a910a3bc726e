// Weights as floats, one row at a time, in plain scalar code: the meaning of each storage type, and what the
// kernels are tested against. Formulas: ggml's, per block of 32 weights with scale d and minimum m:
//   Q4_0  d * (q - 8)    q in 0..15
//   Q4_1  d * q + m      q in 0..15
//   Q8_0  d * q          q in -128..127
// Both 4-bit types hold weight i of a block in the low half of byte i, weight i + 16 in its high half. The
// products are exact in a float: d has 11 bits.
#pragma once

#include <cstddef>
#include <span>

#include "runner/formats/tensor.h"

namespace runnel {

// row is one row of a tensor of this type; out.size() is its number of columns, a multiple of the block.
void dequantize_row(TensorType type, std::span<const std::byte> row, std::span<float> out);

// The integer q of each weight of one block as a signed number (Q4_0: minus 8), for those who lay blocks out
// anew. type is a quantised one.
void unpack_block(TensorType type, const std::byte* block, std::span<int8_t, 32> out);

}  // namespace runnel

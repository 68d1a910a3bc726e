// How the values of a tensor are arranged in a file that differs from GGUF.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runner/formats/tensor.h"

namespace runnel {

struct Arrangement {
  enum Kind : uint8_t {
    kSame,
    kTransposed,   // column after column, as GPT-2's layers store their matrices, or so each expert's matrix
    kInterleaved,  // vectors whose values lie between those of others
    kHalvedHeads,  // rows of a head: first the first rows of all rotated pairs, then the second ones
    kLessOne,      // gains of a norm to which 1 must be added, which WeightLoader::vector does
    kMxfp4Blocks,  // the codes of MXFP4 alone, 16 bytes a block, neighbours in one byte
    kMxfp4Scales,  // the scales of such blocks, which are no tensor of their own
  };
  Kind kind = kSame;
  uint64_t head_rows = 0;  // of kHalvedHeads: even, and divides the number of rows
  // Of kTransposed, kInterleaved and kMxfp4Blocks: of the rows that are stored, one after the other, the
  // tensor has every step-th, from `first` on. In a vector each value is a row.
  uint32_t first = 0;
  uint32_t step = 1;
  std::span<const std::byte> scales = {};  // of kMxfp4Blocks: one byte for each block that is stored
};

// Returns the values in GGUF's order, row after row. For kSame and kLessOne this is an unchanged copy. tensor
// must have floats, or MXFP4 for kMxfp4Blocks, and the shape that GGUF gives it; its data are all that is
// stored.
std::vector<std::byte> arranged(const TensorView& tensor, const Arrangement& arrangement);

}  // namespace runnel

// Takes the rows of weights that a rank loads.
#pragma once

#include <cstddef>
#include <list>
#include <span>
#include <vector>

#include "runner/formats/tensor.h"
#include "runner/ranks/shard_plan.h"

namespace runnel {

// Some rows of matrices that are stacked.
struct CutMatrices {
  std::vector<TensorView> parts;
  std::list<std::vector<std::byte>> copies;  // of rows that do not lie together; parts refers to them
};

// rows: ranges of rows of the stack, none of which has rows of two matrices unless it is one of a matrix that
// has several kinds of rows; none: all rows. A matrix of which no row is taken is left out.
CutMatrices cut_rows(std::span<const TensorView> stacked, std::span<const RowRange> rows);
std::vector<float> cut_values(std::span<const float> values, std::span<const RowRange> rows);

}  // namespace runnel

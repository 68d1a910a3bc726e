#include "runner/ranks/cut_rows.h"

#include <algorithm>

#include "runner/check.h"

namespace runnel {

CutMatrices cut_rows(std::span<const TensorView> stacked, std::span<const RowRange> rows) {
  CutMatrices cut;
  if (rows.empty()) {
    cut.parts.assign(stacked.begin(), stacked.end());
    return cut;
  }
  uint64_t first_row = 0;  // of the matrix, in the stack
  for (const TensorView& whole : stacked) {
    const uint64_t end_row = first_row + whole.rows();
    const size_t row_bytes = whole.data.size() / whole.rows();
    std::vector<std::span<const std::byte>> pieces;
    uint64_t num_rows = 0;
    for (const RowRange& range : rows) {
      if (range.first < first_row || range.first >= end_row) continue;
      CHECK(range.end() <= end_row);
      pieces.push_back(whole.data.subspan((range.first - first_row) * row_bytes, range.count * row_bytes));
      num_rows += range.count;
    }
    first_row = end_row;
    if (num_rows == 0) continue;
    TensorView& part = cut.parts.emplace_back(whole);
    part.shape[1] = num_rows;
    part.data = pieces.front();
    if (pieces.size() == 1) continue;
    std::vector<std::byte>& copy = cut.copies.emplace_back();
    for (const auto& piece : pieces) copy.insert(copy.end(), piece.begin(), piece.end());
    part.data = copy;
  }
  return cut;
}

std::vector<float> cut_values(std::span<const float> values, std::span<const RowRange> rows) {
  if (rows.empty()) return {values.begin(), values.end()};
  std::vector<float> cut;
  for (const RowRange& range : rows) {
    const std::span<const float> piece = values.subspan(range.first, range.count);
    cut.insert(cut.end(), piece.begin(), piece.end());
  }
  return cut;
}

}  // namespace runnel

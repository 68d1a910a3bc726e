#include "cuda-runner/attend_plan.h"

#include <algorithm>
#include <functional>

#include "runner/check.h"

namespace runnel {

uint32_t AttendPlan::max_pieces(const AttendPlanShape& shape) {
  return shape.max_rows + shape.max_cut_splits;
}

uint64_t AttendPlan::max_words(const AttendPlanShape& shape) {
  // The counts, a piece or a tile for each row, and a piece for each split of rows that are cut.
  return kAttendEntryWords * (1 + uint64_t{max_pieces(shape)});
}

void AttendPlan::part_rows(std::span<const uint32_t> positions, std::span<const uint32_t> sequences) {
  tiles_.clear();
  rows_.clear();
  const auto num_rows = static_cast<uint32_t>(positions.size());
  const auto add_rows = [&](uint32_t begin, uint32_t end) {
    for (uint32_t row = begin; row < end; ++row) {
      const uint32_t position = positions[row];
      const bool sees_all = shape_.window == 0 || position < shape_.window;
      const uint32_t first = sees_all ? 0 : (position - shape_.window + 1) / kAttendSplit;
      rows_.push_back({row, first, position / kAttendSplit - first + 1});
    }
  };
  for (uint32_t begin = 0, end = 0; begin < num_rows; begin = end) {
    // Rows of a sequence that are a whole tile or more.
    end = begin + 1;
    while (end < num_rows && sequences[end] == sequences[begin] && positions[end] == positions[end - 1] + 1)
      ++end;
    if (shape_.tile_rows < 2 || end - begin < shape_.tile_rows) {
      add_rows(begin, end);
      continue;
    }
    for (uint32_t row = begin; row < end; row += shape_.tile_rows)
      tiles_.push_back({row, std::min(shape_.tile_rows, end - row), sequences[row], positions[row]});
  }
  if (tiles_.size() * shape_.num_kv_heads < shape_.min_tile_blocks) {
    for (const AttendTile& tile : tiles_) add_rows(tile.first_row, tile.first_row + tile.num_rows);
    tiles_.clear();
  }
}

void AttendPlan::add(uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  for (const uint32_t word : {a, b, c, d}) words_.push_back(word);
}

std::span<const uint32_t> AttendPlan::make(std::span<const uint32_t> positions,
                                           std::span<const uint32_t> sequences) {
  CHECK(positions.size() == sequences.size() && positions.size() <= shape_.max_rows);
  part_rows(positions, sequences);
  // What takes long comes first, so that the blocks end at about the same time.
  std::ranges::stable_sort(tiles_, std::ranges::greater(), &AttendTile::first_position);
  std::ranges::stable_sort(rows_, std::ranges::greater(), &Row::num_splits);

  // The rows that have more splits than each block computes are cut, as far as there are places.
  uint64_t num_splits = 0;
  for (const Row& row : rows_) num_splits += row.num_splits;
  const uint64_t share = std::max<uint64_t>(num_splits * shape_.num_groups / shape_.num_blocks, 1);
  uint32_t num_cut = 0;
  const auto is_whole = std::ranges::find_if(rows_, [&](const Row& row) {
    if (row.num_splits <= share || row.num_splits > shape_.max_cut_splits - num_cut) return true;
    num_cut += row.num_splits;
    return false;
  });
  const auto cut = std::span(rows_.begin(), is_whole);
  const auto whole = std::span(is_whole, rows_.end());

  words_.clear();
  const uint32_t num_pieces = num_cut + static_cast<uint32_t>(whole.size());
  const bool is_apart =
      shape_.num_groups < shape_.num_heads && uint64_t{num_pieces} * shape_.num_heads <= shape_.num_blocks;
  add(num_cut, num_pieces, num_tiles(), is_apart ? 1 : 0);
  const auto add_piece = [&](const Row& row, uint32_t split) {
    add(row.row, sequences[row.row], positions[row.row], split);
  };
  for (const Row& row : cut) {
    for (uint32_t i = 0; i < row.num_splits; ++i) add_piece(row, row.first_split + i);
  }
  for (const Row& row : whole) add_piece(row, row.first_split);
  for (const AttendTile& tile : tiles_)
    add(tile.first_row, tile.num_rows, tile.sequence, tile.first_position);
  return words_;
}

}  // namespace runnel

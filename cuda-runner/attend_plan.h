// Cuts the attention of a step into pieces for the blocks of the device (kernels/attend_work.h). Rows of a
// prompt are computed in tiles, if there are enough. Of the others, a row that takes long beside the rest of
// the step is cut into its splits, and any other row is one piece. In a step with few pieces each query has a
// block of its own. A row has the same bits in each case (docs/numerics.md).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cuda-runner/kernels/attend_work.h"

namespace runnel {

struct AttendPlanShape {
  uint32_t window;        // of the layers that the plan is for; 0: none
  uint32_t num_groups;    // attend_groups(): pieces are taken once for each of them,
  uint32_t num_heads;     // or of these if queries are apart
  uint32_t num_kv_heads;  // tiles are taken once for each of them
  uint32_t tile_rows;     // attend_tile_rows()
  uint32_t max_rows;
  uint32_t max_cut_splits;  // places in the workspace
  // With fewer blocks than this, tiles leave much of a large device idle, and rows are computed by
  // themselves.
  uint32_t min_tile_blocks = 256;
  uint32_t num_blocks = kMaxAttendBlocks;  // attend_blocks(), which take the pieces in turn
};

class AttendPlan {
 public:
  explicit AttendPlan(const AttendPlanShape& shape) : shape_(shape) {}

  // The most pieces and tiles of a list, and the words of the longest list.
  static uint32_t max_pieces(const AttendPlanShape& shape);
  static uint64_t max_words(const AttendPlanShape& shape);

  // Makes the list for rows at these positions of these sequences, and returns its words.
  std::span<const uint32_t> make(std::span<const uint32_t> positions, std::span<const uint32_t> sequences);
  // Of the list that was made last.
  bool has_pieces() const { return !rows_.empty(); }
  uint32_t num_tiles() const { return static_cast<uint32_t>(tiles_.size()); }

 private:
  struct Row {
    uint32_t row;
    uint32_t first_split;
    uint32_t num_splits;
  };

  // Finds the tiles, if there are enough, and the rows that are in none.
  void part_rows(std::span<const uint32_t> positions, std::span<const uint32_t> sequences);
  void add(uint32_t a, uint32_t b, uint32_t c, uint32_t d);

  AttendPlanShape shape_;
  std::vector<AttendTile> tiles_;
  std::vector<Row> rows_;
  std::vector<uint32_t> words_;
};

}  // namespace runnel

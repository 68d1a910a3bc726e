// Cuts the attention of a step into pieces for the blocks of the device (kernels/attend_work.h). A row that
// takes long beside the rest of the step is cut into its splits, which are joined afterwards; any other row
// is one piece. A row has the same bits in either case (docs/numerics.md).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace runnel {

struct AttendPlanShape {
  uint32_t window;      // of the layers that the plan is for; 0: none
  uint32_t num_groups;  // attend_groups(): pieces are taken once for each of them
  uint32_t max_rows;
  uint32_t max_cut_splits;  // places in the workspace
};

class AttendPlan {
 public:
  explicit AttendPlan(const AttendPlanShape& shape) : shape_(shape) {}

  // Words of the longest list.
  static uint64_t max_words(const AttendPlanShape& shape);

  // Makes the list for rows at these positions of these sequences, and returns its words.
  std::span<const uint32_t> make(std::span<const uint32_t> positions, std::span<const uint32_t> sequences);

 private:
  struct Row {
    uint32_t row;
    uint32_t first_split;
    uint32_t num_splits;
  };

  AttendPlanShape shape_;
  std::vector<Row> rows_;
  std::vector<uint32_t> words_;
};

}  // namespace runnel

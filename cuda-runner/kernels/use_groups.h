// The uses of experts (experts.h) ordered by expert, so that an expert's matrices are read once for a group
// of rows that use it and not once for each row.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "cuda-runner/kernels/experts.h"
#include "cuda-runner/kernels/ready_rows.h"

namespace runnel {

// The most uses of a group.
inline constexpr uint32_t kGroupUses = 32;
// Products copy the scales of four rows at once, so the places of each expert begin at a multiple of four.
inline constexpr uint32_t kPlaceStep = 4;
inline constexpr uint32_t kGroupWords = 4;  // of UseGroups::groups

// Some consecutive rows of a step.
struct UsePart {
  uint32_t first_row;
  uint32_t num_rows;
};

// Those of a part of a step's rows. The uses of an expert have places that follow each other, in the order of
// their numbers, and the experts follow each other too. A group is up to kGroupUses uses of one expert. There
// are as many groups as there may be at most, since a captured launch cannot depend on which experts are
// used: those that are left over have no uses.
struct UseGroups {
  Global<uint32_t> counts;  // (num_experts): how many uses there are of each
  Global<uint32_t> uses;    // (places): the number of the use
  Global<uint32_t> groups;  // (num_groups, kGroupWords): the expert, the first place, how many uses, 0
  uint32_t num_groups;

  // The most places and groups that so many uses of so many experts take.
  static constexpr uint32_t most_places(uint32_t num_uses, uint32_t num_experts) {
    return num_uses + most_unused(std::min(num_uses, num_experts));
  }
  // Of these places the most that have no use.
  static constexpr uint32_t most_unused(uint32_t num_experts) { return (kPlaceStep - 1) * num_experts; }
  static constexpr uint32_t most_groups(uint32_t num_uses, uint32_t num_experts) {
    return num_uses / kGroupUses + std::min(num_uses, num_experts);
  }
};

// Fills in the groups of a part of the rows whose experts are chosen.
cudaError_t group_uses(const ExpertUses& uses, uint32_t num_experts, const UsePart& part,
                       const UseGroups& groups, cudaStream_t stream);

enum class GatheredRows { kValues, kBlocks };

// Copies to row i of out what is row use / uses_of_row of in, where use is the one at place i: the values,
// which products with float weights read, or everything else. Both must have the same width.
cudaError_t gather_rows(const ReadyRows& in, GatheredRows what, uint32_t uses_of_row, const UseGroups& groups,
                        const ReadyRows& out, cudaStream_t stream);

// out[row] += the sum over the uses of each row of the part, in order, of weight * what the use has in
// outputs. There the part's first use is row 0. width: of outputs, and of the columns of out.
cudaError_t add_uses(const FloatRows& outputs, const ExpertUses& uses, const UsePart& part, uint32_t width,
                     const FloatRows& out, cudaStream_t stream);

// Loads the kernels: see load.h.
cudaError_t load_use_groups();

}  // namespace runnel

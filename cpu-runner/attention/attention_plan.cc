#include "cpu-runner/attention/attention_plan.h"

#include <algorithm>
#include <functional>
#include <span>
#include <utility>

#include "cpu-runner/kernels/kv.h"

namespace runnel {
namespace {

constexpr uint32_t kTilesPerSplit = kSplitPositions / kTilePositions;

uint32_t num_tiles(const SeenPositions& seen) {
  return seen.last / kTilePositions - seen.first / kTilePositions + 1;
}

// Rows of a group, which share K and V.
uint32_t rows_at_once(uint32_t queries_per_kv) {
  return std::max(1u, kMaxQueries / queries_per_kv);
}

// Groups that may be cut: as many KV heads are then cut as there are threads. Whole ones keep the threads
// busy until fewer are left than threads, and the chunks of those that are cut fill up the rest. More would
// only take more memory.
uint32_t max_cut_groups(uint32_t num_threads, uint32_t num_kv_heads) {
  return (num_threads + num_kv_heads - 1) / num_kv_heads;
}

}  // namespace

uint64_t AttentionPlan::Subject::tiles_of(const Rows& rows, uint32_t first_position,
                                          uint32_t num_rows) const {
  uint64_t tiles = 0;
  for (uint32_t i = 0; i < num_rows; ++i) tiles += num_tiles(seen(rows, first_position + i));
  return tiles;
}

bool AttentionPlan::prepare(const Batch& batch, const AttentionShape& shape, uint32_t num_threads) {
  Subject subject{{}, shape.num_heads, shape.num_kv_heads, shape.window, shape.sees_ahead, num_threads};
  for (const BatchSequence& sequence : batch.sequences)
    subject.sequences.push_back({sequence.first_row, sequence.num_rows, sequence.first_position});
  if (subject == subject_) return false;
  subject_ = std::move(subject);
  make_groups();
  make_chunks();
  return true;
}

void AttentionPlan::make_groups() {
  uint64_t tiles_of_all = 0;
  for (const Subject::Rows& rows : subject_.sequences)
    tiles_of_all += subject_.tiles_of(rows, rows.first_position, rows.num_rows);
  const uint64_t num_wanted = uint64_t{kChunksPerThread} * subject_.num_threads;
  const uint64_t max_tiles =
      subject_.num_threads == 1 ? tiles_of_all : tiles_of_all * subject_.num_kv_heads / num_wanted;
  groups_.clear();
  for (uint32_t i = 0; i < subject_.sequences.size(); ++i) add_sequence(i, max_tiles);
  limit_cuts();
}

// Makes groups of at most max_tiles tiles a KV head, as far as rows and splits can be cut. Splits are cut
// before rows, since K and V are read less often the more rows a group has.
void AttentionPlan::add_sequence(uint32_t sequence, uint64_t max_tiles) {
  const Subject::Rows& rows = subject_.sequences[sequence];
  const uint32_t queries_per_kv = subject_.num_heads / subject_.num_kv_heads;
  const uint32_t tiles_of_last = num_tiles(subject_.seen(rows, rows.last_position()));
  const auto rows_of_group = static_cast<uint32_t>(std::clamp<uint64_t>(
      max_tiles / std::min(tiles_of_last, kTilesPerSplit), 1, rows_at_once(queries_per_kv)));
  for (uint32_t first = 0; first < rows.num_rows; first += rows_of_group) {
    Group group{.sequence = sequence,
                .first_row = rows.first_row + first,
                .num_rows = std::min(rows_of_group, rows.num_rows - first),
                .first_position = rows.first_position + first,
                .last_position = rows.last_position(),
                .first_split = 0,
                .num_splits = 0,
                .splits_per_chunk = 0,
                .first_partial = 0};
    const uint32_t last_row = group.first_position + group.num_rows - 1;
    group.first_split = subject_.seen(rows, group.first_position).first / kSplitPositions;
    group.num_splits = subject_.seen(rows, last_row).last / kSplitPositions - group.first_split + 1;
    group.splits_per_chunk = group.num_splits;
    if (subject_.tiles_of(rows, group.first_position, group.num_rows) > max_tiles) {
      const uint64_t max_splits = max_tiles / (uint64_t{group.num_rows} * kTilesPerSplit);
      group.splits_per_chunk = static_cast<uint32_t>(std::clamp<uint64_t>(max_splits, 1, group.num_splits));
    }
    groups_.push_back(group);
  }
}

// Leaves only the largest groups cut, and gives them their partial sums.
void AttentionPlan::limit_cuts() {
  std::vector<Group*> cut;
  for (Group& group : groups_)
    if (group.is_cut()) cut.push_back(&group);
  const auto work = [](const Group* group) { return uint64_t{group->num_rows} * group->num_splits; };
  std::ranges::stable_sort(cut, std::ranges::greater(), work);
  const size_t num_left =
      std::min<size_t>(cut.size(), max_cut_groups(subject_.num_threads, subject_.num_kv_heads));
  for (Group* group : std::span(cut).subspan(num_left)) group->splits_per_chunk = group->num_splits;
  num_partials_ = 0;
  for (Group* group : std::span(cut).first(num_left)) {
    group->first_partial = num_partials_;
    num_partials_ += group->num_rows * subject_.num_heads * group->num_splits;
  }
}

void AttentionPlan::make_chunks() {
  // Work of a chunk, as rows times splits.
  const auto work = [](const Group& group) {
    return uint64_t{group.num_rows} * group.num_splits / group.chunks_per_head();
  };
  std::ranges::stable_sort(groups_, std::ranges::greater(), work);
  chunks_.clear();
  for (uint32_t i = 0; i < groups_.size(); ++i) {
    const Group& group = groups_[i];
    for (uint32_t kv_head = 0; kv_head < subject_.num_kv_heads; ++kv_head) {
      for (uint32_t first = 0; first < group.num_splits; first += group.splits_per_chunk) {
        const uint32_t num_splits = std::min(group.splits_per_chunk, group.num_splits - first);
        chunks_.push_back({i, kv_head, group.first_split + first, num_splits});
      }
    }
  }
}

uint64_t AttentionPlan::max_partials(uint32_t num_threads, uint32_t num_heads, uint32_t num_kv_heads,
                                     uint32_t max_rows, uint32_t max_positions) {
  if (num_threads == 1) return 0;
  const uint64_t num_rows =
      uint64_t{max_cut_groups(num_threads, num_kv_heads)} * rows_at_once(num_heads / num_kv_heads);
  const uint32_t num_splits = (max_positions + kSplitPositions - 1) / kSplitPositions;
  return std::min<uint64_t>(num_rows, max_rows) * num_heads * num_splits;
}

}  // namespace runnel

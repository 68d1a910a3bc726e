// How the attention of a batch is cut into chunks for the threads. Rows of one sequence that are computed
// together read K and V once. Rows that take long beside the rest of the batch are cut into runs of splits,
// whose partial sums are merged when the last run is done. A row computes the same in either case
// (docs/numerics.md), so the plan may depend on the number of threads.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runner/backend/attention_shape.h"
#include "runner/backend/batch.h"

namespace runnel {

// The first position that a row at this position sees.
inline uint32_t first_seen(uint32_t position, uint32_t window) {
  return window == 0 || position < window ? 0 : position - window + 1;
}

// The positions that a row sees, both included.
struct SeenPositions {
  uint32_t first;
  uint32_t last;
};
// last: the last position of the sequence in the batch.
inline SeenPositions seen_by(uint32_t position, uint32_t last, uint32_t window, bool sees_ahead) {
  return {first_seen(position, window), sees_ahead ? last : position};
}

class AttentionPlan {
 public:
  // Chunks per thread, if all chunks took equally long. More chunks balance the threads better; fewer chunks
  // read K and V less often.
  static constexpr uint32_t kChunksPerThread = 8;

  // Consecutive rows of one sequence.
  struct Group {
    uint32_t sequence;  // index in the batch
    uint32_t first_row;
    uint32_t num_rows;
    uint32_t first_position;  // of the first row
    uint32_t last_position;   // of the sequence in the batch
    uint32_t first_split;
    uint32_t num_splits;
    uint32_t splits_per_chunk;
    uint32_t first_partial;  // index of its first partial sums, if the group is cut; see num_partials

    uint32_t chunks_per_head() const { return (num_splits + splits_per_chunk - 1) / splits_per_chunk; }
    bool is_cut() const { return splits_per_chunk < num_splits; }
    // The positions that row i of the group sees.
    SeenPositions seen(uint32_t i, const AttentionShape& shape) const {
      return seen_by(first_position + i, last_position, shape.window, shape.sees_ahead);
    }
  };
  struct Chunk {
    uint32_t group;
    uint32_t kv_head;
    uint32_t first_split;
    uint32_t num_splits;
  };

  // Returns true if the plan has changed, because the batch has other rows than the one before.
  bool prepare(const Batch& batch, const AttentionShape& shape, uint32_t num_threads);

  std::span<const Group> groups() const { return groups_; }
  // The chunks that take longest come first, so that the threads end at about the same time.
  std::span<const Chunk> chunks() const { return chunks_; }
  // Number of partial sums of the groups that are cut. They are ordered by group, row, query head and split.
  uint32_t num_partials() const { return num_partials_; }
  // Upper bound of num_partials() for batches of at most max_rows rows, and sequences of at most
  // max_positions positions.
  static uint64_t max_partials(uint32_t num_threads, uint32_t num_heads, uint32_t num_kv_heads,
                               uint32_t max_rows, uint32_t max_positions);

 private:
  // What the plan depends on. Equal subjects have equal plans.
  struct Subject {
    struct Rows {
      uint32_t first_row, num_rows, first_position;
      uint32_t last_position() const { return first_position + num_rows - 1; }
      bool operator==(const Rows&) const = default;
    };
    std::vector<Rows> sequences;
    uint32_t num_heads = 0;
    uint32_t num_kv_heads = 0;
    uint32_t window = 0;
    bool sees_ahead = false;
    uint32_t num_threads = 0;
    // Tiles of K that num_rows rows see, from a row of this position on.
    uint64_t tiles_of(const Rows& rows, uint32_t first_position, uint32_t num_rows) const;
    SeenPositions seen(const Rows& rows, uint32_t position) const {
      return seen_by(position, rows.last_position(), window, sees_ahead);
    }
    bool operator==(const Subject&) const = default;
  };

  void make_groups();
  void add_sequence(uint32_t sequence, uint64_t max_tiles);
  void limit_cuts();
  void make_chunks();

  Subject subject_;
  std::vector<Group> groups_;
  std::vector<Chunk> chunks_;
  uint32_t num_partials_ = 0;
};

}  // namespace runnel

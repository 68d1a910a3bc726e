// The attention of a step as a list of pieces that blocks take in turn. The host makes the list for each step
// (attend_plan.h), since a captured launch cannot depend on where the rows are.
#pragma once

#include <cstdint>

#include "cuda-runner/kernels/lang.h"

namespace runnel {

// The positions of a row are cut into splits of this many (docs/numerics.md).
inline constexpr uint32_t kAttendSplit = 256;

// The most blocks that take pieces: as many as 150 multiprocessors hold of the smallest.
inline constexpr uint32_t kMaxAttendBlocks = 1536;

// Queries of a tile: of neighbouring rows of a sequence that are computed together (attend_tiles-inl.h).
inline constexpr uint32_t kTileQueries = 32;

// A row, or one split of a row that is cut. Piece i < num_cut is one split, whose result goes to place i of
// the workspace; each of the others is a whole row. The splits of a row are adjacent, in order.
struct AttendPiece {
  uint32_t row;
  uint32_t sequence;
  uint32_t position;  // of the row
  uint32_t split;     // if the row is cut
};

// Consecutive rows of a sequence.
struct AttendTile {
  uint32_t first_row;
  uint32_t num_rows;
  uint32_t sequence;
  uint32_t first_position;
};

struct AttendCounts {
  uint32_t num_cut;
  uint32_t num_pieces;
  uint32_t num_tiles;
  uint32_t is_apart;  // 1: each query of a piece has a block of its own; 0: each group of queries
};

// Each of these has four words in the list: the counts, then pieces and tiles.
inline constexpr uint32_t kAttendEntryWords = 4;

struct AttendWork {
  Global<const uint32_t> words;
  uint32_t max_pieces;  // that the list has room for
  // As launches need it. Steps that are captured have no tiles, and always have pieces.
  bool has_pieces;
  uint32_t num_tiles;

#if defined(__CUDACC__) || defined(RUNNEL_CUDA_EMULATOR)
  // No kernel writes the list, so it may be read before the launches before are complete.
  __device__ AttendCounts counts() const {
    const uint4 entry = at(0);
    return {entry.x, entry.y, entry.z, entry.w};
  }
  // Beyond num_pieces it is any piece: so the piece and the counts can be loaded together.
  __device__ AttendPiece piece(uint32_t index) const {
    const uint4 entry = at(1 + (index < max_pieces ? index : max_pieces - 1));
    return {entry.x, entry.y, entry.z, entry.w};
  }
  __device__ AttendTile tile(const AttendCounts& counts, uint32_t index) const {
    const uint4 entry = at(1 + counts.num_pieces + index);
    return {entry.x, entry.y, entry.z, entry.w};
  }

 private:
  __device__ uint4 at(uint32_t entry) const {
    return words.load_read_only<uint4>(size_t{entry} * kAttendEntryWords);
  }
#endif
};

}  // namespace runnel

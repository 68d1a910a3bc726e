// The KV cache as kernels see it. Keys and values lie in tiles: the positions of one KV head that attention
// visits together. In a tile of keys a lane is a position, so that scores need no sums across lanes. In a
// tile of values a lane is a value of the head, so that weighted sums need none either.
//
//   keys:    (width, positions)
//   values:  (positions, width)
//
// Tiles hold halves, floats or, for Q8_0, signed bytes. The scales of Q8_0 lie before the values of the tile:
// halves, (head_dim / 32, positions), for keys and values alike.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runner/backend/kv_type.h"

namespace runnel {

// Positions of a tile, and of a split. The tiles of a split have a sum of their own (docs/numerics.md).
inline constexpr uint32_t kTilePositions = 32;
inline constexpr uint32_t kSplitPositions = 256;
inline constexpr uint32_t kMaxHeadDim = 256;
// Limit of the queries in one call of attend. Their state is on the stack.
inline constexpr uint32_t kMaxQueries = 24;
// The width of a row of values is a multiple of this; no vector is wider.
inline constexpr uint32_t kKvWidthMultiple = 16;
// Values of a head that share a scale in a Q8_0 cache.
inline constexpr uint32_t kKvBlockValues = 32;

struct KvLayout {
  KvType type;
  uint32_t head_dim;    // at most kMaxHeadDim
  uint32_t width;       // head_dim, filled up with zeros that nobody writes
  uint32_t positions;   // of a tile: kTilePositions, or those of a block if a block has fewer
  size_t scales_bytes;  // before the values of a tile; 0 if the type has no scales
  size_t tile_bytes;
};

// K and V of one layer and one KV head. A block of more positions than a tile holds several tiles.
struct KvView {
  KvLayout layout;
  const std::byte* keys;  // of block 0
  const std::byte* values;
  size_t block_stride;          // bytes from block to block
  const uint32_t* block_table;  // of the sequence
  uint32_t block_size;
};

struct AttendQuery {
  const float* query;  // (head_dim)
  float* out;
  // The query sees positions first_position to end_position - 1: at least one.
  uint32_t first_position;
  uint32_t end_position;
  const float* sink = nullptr;  // a logit beside the scores, without a value; nullptr: none
};

// What becomes of q . k: see AttentionShape.
struct Scoring {
  float scale;
  float softcap = 0.0f;
};

// attend_split writes the sums of a query, head_dim of them, then its maximum and its sum of weights.
inline constexpr uint32_t kPartialExtra = 2;

}  // namespace runnel

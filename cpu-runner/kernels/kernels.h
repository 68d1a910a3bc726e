// The inner loops, compiled once for each instruction set and chosen once, at start. Everything here takes
// plain pointers: the loops know neither handles nor threads. docs/numerics.md is the definition of what they
// compute; all tables compute the same bits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu-runner/kernels/kv.h"
#include "runner/formats/tensor.h"

namespace runnel {

// Weights are held in tiles of 16 rows; a lane of a vector is a row.
inline constexpr uint32_t kTileRows = 16;
// k of a product runs in blocks of 32.
inline constexpr uint32_t kBlockColumns = 32;
// Activations that are ready for a product are continued by zeros to a multiple of this.
inline constexpr uint32_t kLanes = 16;
// Columns that one call of multiply may have: their state is on the stack.
inline constexpr uint32_t kMaxColumns = 48;

// A matrix in tiles, see matrix.h for the layout.
struct TiledWeights {
  TensorType type;
  const std::byte* tiles;
  size_t tile_bytes;
  uint32_t columns;
};

// Rows of an activation.
struct Columns {
  const float* values;  // (num_columns, stride)
  const float* sums;    // (num_columns, sums_stride): of each block of 32 values
  size_t stride;
  size_t sums_stride;
  uint32_t num_columns;  // at most kMaxColumns
};

struct Kernels {
  const char* name;

  // out[column * out_stride + row] for the rows of num_tiles tiles from first_tile.
  void (*multiply)(const TiledWeights& weights, size_t first_tile, size_t num_tiles, const Columns& columns,
                   float* out, size_t out_stride);
  // sums[b] of n values, of which the last block may be short.
  void (*block_sums)(const float* values, uint32_t n, float* sums);
  void (*norm)(const float* in, const float* gain, uint32_t n, float epsilon, float* out);
  // out = silu(gate) x up.
  void (*silu_multiply)(const float* gate, const float* up, uint32_t n, float* out);
  // Turns the pairs of one head; angles holds cos and sin of each pair in turn, (rotary_dim / 2, 2).
  void (*rotate)(float* head, const float* angles, uint32_t rotary_dim, bool interleaved);
  // Rounds a key or value to the cache's type and puts it at a position of a tile.
  void (*store_key)(const KvLayout& layout, const float* key, uint32_t position, std::byte* tile);
  void (*store_value)(const KvLayout& layout, const float* value, uint32_t position, std::byte* tile);
  // Of queries that share one KV head of one sequence, in the order of their positions, at most kMaxQueries:
  // K and V are read once for all of them. Entries of the block table wholly before the first position that
  // one of them sees are not looked at.
  void (*attend)(const KvView& kv, const AttendQuery* queries, uint32_t num_queries, float scale);
  // The same of one split, of which each query sees a position. What is left of a query goes to its out:
  // head_dim + kPartialExtra floats.
  void (*attend_split)(const KvView& kv, const AttendQuery* queries, uint32_t num_queries, float scale,
                       uint32_t split);
  // One query's splits put together, in order; the partials lie stride floats apart.
  void (*merge_splits)(const float* partials, size_t stride, uint32_t num_splits, uint32_t head_dim,
                       float* out);
};

extern const Kernels kPortableKernels;
#if defined(__x86_64__)
extern const Kernels kX8664V3Kernels;
extern const Kernels kX8664V4Kernels;
#endif

// The best table for this machine. The environment variable RUNNEL_CPU=portable asks for the portable one;
// any other value of it means nothing.
const Kernels& select_kernels();

}  // namespace runnel

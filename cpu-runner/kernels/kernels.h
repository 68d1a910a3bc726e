// The inner loops, compiled once for each instruction set and chosen once, at start. Everything here takes
// plain pointers: the loops know neither handles nor threads. docs/numerics.md is the definition of what they
// compute; all tables compute the same bits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu-runner/kernels/product.h"
#include "runner/kv_type.h"

namespace runnel {

// Positions that attention visits together.
inline constexpr uint32_t kTilePositions = 32;
// Heads in attention are continued by zeros to a multiple of this.
inline constexpr uint32_t kLanes = 16;
// Queries that one call of attend may have: their state is on the stack.
inline constexpr uint32_t kMaxQueries = 32;
inline constexpr uint32_t kMaxHeadDim = 256;
// Values of a head that share a scale in a Q8_0 cache, and the bytes they take: a half and as many bytes.
inline constexpr uint32_t kKvBlockValues = 32;
inline constexpr uint32_t kKvBlockBytes = 34;

// K and V of one layer and one KV head.
struct KvView {
  KvType type;
  const std::byte* keys;  // of block 0; position p of a block is the row at p * row_bytes
  const std::byte* values;
  size_t row_bytes;
  size_t block_stride;          // bytes from block to block
  const uint32_t* block_table;  // of the sequence
  uint32_t block_size;
  uint32_t head_dim;  // at most kMaxHeadDim
};

struct AttendQuery {
  const float* query;  // (head_dim)
  float* out;          // (head_dim)
  // It sees positions first_position to end_position - 1: at least one.
  uint32_t first_position;
  uint32_t end_position;
};

struct Kernels {
  const char* name;

  // out[column * out_stride + i] for the 32 rows of one tile; with activations as bytes, or as floats.
  void (*multiply_i8)(const TiledWeights& weights, size_t tile, const Columns& columns, float* out,
                      size_t out_stride);
  void (*multiply_f32)(const TiledWeights& weights, size_t tile, const Columns& columns, float* out,
                       size_t out_stride);
  // What these read of n values beside the values, of which the last block may be short. For multiply_f32 it
  // is the sums alone.
  void (*make_ready_i8)(const float* values, uint32_t n, const ReadyBlocks& out);
  void (*make_ready_f32)(const float* values, uint32_t n, const ReadyBlocks& out);
  void (*norm)(const float* in, const float* gain, uint32_t n, float epsilon, float* out);
  // out = silu(gate) x up.
  void (*silu_multiply)(const float* gate, const float* up, uint32_t n, float* out);
  // Turns the pairs of one head; angles holds cos and sin of each pair in turn, (rotary_dim / 2, 2).
  void (*rotate)(float* head, const float* angles, uint32_t rotary_dim, bool interleaved);
  // Rounds a key or value of n values, for Q8_0 a multiple of kKvBlockValues, to the cache's type.
  void (*store_kv)(KvType type, const float* in, uint32_t n, std::byte* out);
  // The queries share one KV head of one sequence: K and V are read and widened once for all of them. Entries
  // of the block table wholly before the first position that one of them sees are not looked at.
  void (*attend)(const KvView& kv, const AttendQuery* queries, uint32_t num_queries, float scale);
};

extern const Kernels kPortableKernels;
#if defined(__x86_64__)
extern const Kernels kAvx2Kernels;
extern const Kernels kAvxVnniKernels;
extern const Kernels kAvx512VnniKernels;
#endif

}  // namespace runnel

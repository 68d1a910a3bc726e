// The inner loops. They are compiled once for each instruction set, and one table is chosen at start. They
// take plain pointers, and know neither handles nor threads. docs/numerics.md defines what they compute; all
// tables compute the same bits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu-runner/kernels/draw_kernels.h"
#include "cpu-runner/kernels/kv.h"
#include "cpu-runner/kernels/product.h"

namespace runnel {

struct Kernels {
  const char* name;

  // out[column * out_stride + i] for the 32 rows of one tile; with activations as bytes, or as floats.
  void (*multiply_i8)(const TiledWeights& weights, size_t tile, const Columns& columns, float* out,
                      size_t out_stride);
  void (*multiply_f32)(const TiledWeights& weights, size_t tile, const Columns& columns, float* out,
                       size_t out_stride);
  // Compute what the products above read besides the values, for `count` blocks of 32 values that begin
  // stride floats apart. The results are out_stride blocks apart. For multiply_f32 that is the sums alone.
  void (*make_ready_i8)(const float* values, size_t stride, uint32_t count, ReadyBlock* out,
                        size_t out_stride);
  void (*make_ready_f32)(const float* values, size_t stride, uint32_t count, ReadyBlock* out,
                         size_t out_stride);
  // The two kinds of norm. out may be equal to in.
  void (*norm)(const float* in, const float* gain, uint32_t n, float epsilon, float* out);
  void (*layer_norm)(const float* in, const float* gain, const float* bias, uint32_t n, float epsilon,
                     float* out);
  // out = f(gate) x up, where f is SiLU or GELU, or kClampedSwish of both.
  void (*silu_multiply)(const float* gate, const float* up, uint32_t n, float* out);
  void (*gelu_multiply)(const float* gate, const float* up, uint32_t n, float* out);
  void (*gelu_by_error_multiply)(const float* gate, const float* up, uint32_t n, float* out);
  void (*clamped_swish_multiply)(const float* gate, const float* up, uint32_t n, float* out);
  // Replaces the values by soft_capped of them.
  void (*soft_cap)(float* values, uint32_t n, float cap);
  // Rotates the pairs of one head; angles has cos and sin of each pair in turn, (rotary_dim / 2, 2).
  void (*rotate)(float* head, const float* angles, uint32_t rotary_dim, bool interleaved);
  // Rounds a key or value to the type of the cache and writes it to a position of a tile.
  void (*store_key)(const KvLayout& layout, const float* key, uint32_t position, std::byte* tile);
  void (*store_value)(const KvLayout& layout, const float* value, uint32_t position, std::byte* tile);
  // Attention of at most kMaxQueries queries that share one KV head of one sequence, in the order of their
  // positions. K and V are read once for all of them. Entries of the block table that lie wholly before the
  // first position that a query sees are not read.
  void (*attend)(const KvView& kv, const AttendQuery* queries, uint32_t num_queries, Scoring scoring);
  // The same for one split, of which each query sees at least one position. Writes head_dim + kPartialExtra
  // floats to the out of each query.
  void (*attend_split)(const KvView& kv, const AttendQuery* queries, uint32_t num_queries, Scoring scoring,
                       uint32_t split);
  // Merges the splits of one query, in order, beginning with its sink. The partials begin stride floats
  // apart. sink: as in AttendQuery.
  void (*merge_splits)(const float* partials, size_t stride, uint32_t num_splits, uint32_t head_dim,
                       const float* sink, float* out);

  DrawKernels draw;
};

extern const Kernels kPortableKernels;
#if defined(__x86_64__)
extern const Kernels kAvx2Kernels;
extern const Kernels kAvxVnniKernels;
extern const Kernels kAvx512VnniKernels;
#elif defined(__aarch64__)
extern const Kernels kDotprodKernels;
extern const Kernels kI8mmKernels;
#endif

}  // namespace runnel

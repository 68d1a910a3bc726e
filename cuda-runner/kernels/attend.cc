#include "cuda-runner/kernels/attend.h"

#include <algorithm>
#include <bit>

#include "cuda-runner/kernels/attend_variants.h"
#include "cuda-runner/kernels/device_limits.h"
#include "cuda-runner/kernels/divide_up.h"
#include "cuda-runner/kernels/make_ready.h"

namespace runnel {
namespace {

template <KvType kTypeOf>
struct Stored {
  static constexpr KvType kType = kTypeOf;
};

// Calls run with an object whose type has the type of the cache as a constant.
template <typename Run>
cudaError_t with_kv_type(KvType type, const Run& run) {
  switch (type) {
    case KvType::kF16:
      return run(Stored<KvType::kF16>());
    case KvType::kF32:
      return run(Stored<KvType::kF32>());
    case KvType::kQ8_0:
      return run(Stored<KvType::kQ8_0>());
  }
  return cudaErrorInvalidValue;
}

QueryGroups query_groups(const AttentionShape& shape) {
  // More queries of large heads would not find shared memory.
  const uint32_t max_size = shape.head_dim <= 128 ? 8 : 4;
  const uint32_t queries_per_kv_head = shape.num_heads / shape.num_kv_heads;
  const uint32_t per_kv_head = divide_up(queries_per_kv_head, max_size);
  return {shape.num_kv_heads * per_kv_head, per_kv_head, divide_up(queries_per_kv_head, per_kv_head),
          queries_per_kv_head};
}

// The bytes of a split's results.
uint64_t split_bytes(const AttentionShape& shape) {
  return uint64_t{shape.num_heads} * (2 + shape.head_dim) * sizeof(float);
}

}  // namespace

uint32_t attend_groups(const AttentionShape& shape) {
  return query_groups(shape).num_groups;
}

bool attend_rotates(const AttentionShape& shape) {
  return query_groups(shape).per_kv_head == 1;
}

uint32_t attend_blocks(KvType type, const AttentionShape& shape) {
  const uint32_t num_queries = std::bit_ceil(query_groups(shape).size);
  const uint32_t num_warps = attend_chunks(shape.head_dim);
  const uint32_t resident = resident_threads(type, num_queries, num_warps) / (num_warps * kWarpSize);
  return std::min(num_multiprocessors() * resident, kMaxAttendBlocks);
}

uint32_t attend_tile_rows(const AttentionShape& shape) {
  // Keys and queries of larger heads would not find shared memory.
  return shape.head_dim <= 128 ? kTileQueries / (shape.num_heads / shape.num_kv_heads) : 0;
}

uint32_t max_cut_splits(const AttentionShape& shape, const AttendLimits& limits) {
  const uint64_t max_splits = divide_up(limits.max_positions, kAttendSplit);
  if (max_splits == 1) return 0;
  // A row is cut only if it has more splits than a block computes (attend_plan.h), so few rows are.
  const uint64_t max_rows = std::min(limits.max_rows, divide_up(kMaxAttendBlocks, attend_groups(shape)));
  // The first and the last split of a row may have few positions.
  const uint64_t of_cache = limits.cache_positions / kAttendSplit + 2 * max_rows;
  const uint64_t of_bytes = kMaxAttendWorkspaceBytes / split_bytes(shape);
  return static_cast<uint32_t>(std::min(std::min(max_rows * max_splits, of_cache), of_bytes));
}

uint64_t attend_result_floats(const AttentionShape& shape, const AttendLimits& limits) {
  return max_cut_splits(shape, limits) * split_bytes(shape) / sizeof(float);
}
uint64_t attend_arrivals(const AttentionShape& shape, const AttendLimits& limits) {
  // Queries may be apart.
  return uint64_t{limits.max_rows} * shape.num_kv_heads +
         uint64_t{max_cut_splits(shape, limits)} * shape.num_heads;
}

cudaError_t attend(const AttendInputs& inputs, uint32_t max_positions, const AttendWorkspace& workspace,
                   const ReadyRows& out, cudaStream_t stream) {
  AttendInputs in = inputs;
  if (in.shape.softcap != 0.0f) in.cap_factor = 2.0f / in.shape.softcap;
  const SplitResults results{workspace.results, workspace.arrivals, in.shape.num_heads, in.shape.head_dim};
  const QueryGroups groups = query_groups(in.shape);
  // Queries may be apart.
  const uint64_t max_pieces =
      uint64_t{in.num_rows} * divide_up(max_positions, kAttendSplit) * in.shape.num_heads;
  const auto num_blocks =
      static_cast<uint32_t>(std::min<uint64_t>(max_pieces, attend_blocks(in.kv.type, in.shape)));
  const cudaError_t status = with_kv_type(in.kv.type, [&]<typename S>(S) {
    cudaError_t launched = cudaSuccess;
    if (in.work.num_tiles > 0) launched = attend_tiles<S::kType>(in, out, stream);
    if (launched != cudaSuccess || !in.work.has_pieces) return launched;
    return attend_rows<S::kType>(in, groups, num_blocks, results, out, stream);
  });
  if (status != cudaSuccess || makes_ready(in.shape)) return status;
  // A block of 32 columns may have values of two heads.
  return make_ready({out.values, out.stride}, in.num_rows, out, stream);
}

cudaError_t load_attend(KvType type, const AttentionShape& shape) {
  return with_kv_type(type, [&]<typename S>(S) {
    const cudaError_t rows = load_attend_rows<S::kType>(shape, query_groups(shape));
    return rows == cudaSuccess ? load_attend_tiles<S::kType>(shape) : rows;
  });
}

}  // namespace runnel

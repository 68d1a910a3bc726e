#include <cmath>

#include "cuda-runner/kernels/block_sums-inl.h"
#include "cuda-runner/kernels/launch.h"
#include "cuda-runner/kernels/load.h"
#include "cuda-runner/kernels/use_groups.h"

namespace runnel {
namespace {

constexpr uint32_t kThreads = 256;
constexpr uint32_t kWarps = kThreads / kWarpSize;
static_assert(kGroupUses <= kWarpSize);

// Grid x: experts, each of which looks at all uses. A place depends on how many uses there are of the experts
// before, so they are counted first.
__global__ void __launch_bounds__(kThreads)
    count_uses_kernel(ExpertUses uses, uint32_t first_use, uint32_t num_uses, UseGroups groups) {
  let_next_begin();
  wait_for_previous();
  __shared__ BlockSums sums;
  uint64_t count = 0;
  for (uint32_t i = threadIdx.x; i < num_uses; i += kThreads)
    count += uses.experts[first_use + i] == blockIdx.x ? 1 : 0;
  count = sums.add(count);
  if (threadIdx.x == 0) groups.counts[blockIdx.x] = static_cast<uint32_t>(count);
}

// Grid x: experts.
__global__ void __launch_bounds__(kThreads)
    group_uses_kernel(ExpertUses uses, uint32_t first_use, uint32_t num_uses, UseGroups groups) {
  let_next_begin();
  wait_for_previous();
  __shared__ BlockSums sums;
  const uint32_t expert = blockIdx.x;
  uint64_t places_before = 0;
  uint64_t groups_before = 0;
  for (uint32_t other = threadIdx.x; other < expert; other += kThreads) {
    const uint32_t count = groups.counts[other];
    places_before += divide_up(count, kPlaceStep) * kPlaceStep;
    groups_before += divide_up(count, kGroupUses);
  }
  const auto first_place = static_cast<uint32_t>(sums.add(places_before));
  const auto first_group = static_cast<uint32_t>(sums.add(groups_before));

  // Each thread has a run of uses, and the places after those of the threads before it.
  const uint32_t run = divide_up(num_uses, kThreads);
  const uint32_t begin = first_use + std::min(threadIdx.x * run, num_uses);
  const uint32_t end = first_use + std::min((threadIdx.x + 1) * run, num_uses);
  uint64_t num_own = 0;
  for (uint32_t use = begin; use < end; ++use) num_own += uses.experts[use] == expert ? 1 : 0;
  uint32_t place = first_place + static_cast<uint32_t>(sums.before(num_own));
  for (uint32_t use = begin; use < end; ++use)
    if (uses.experts[use] == expert) groups.uses[place++] = use;

  const uint32_t count = groups.counts[expert];
  const uint32_t end_group = first_group + divide_up(count, kGroupUses);
  for (uint32_t group = first_group + threadIdx.x; group < end_group; group += kThreads) {
    const uint32_t first = (group - first_group) * kGroupUses;
    groups.groups.store<uint4>(
        size_t{kGroupWords} * group,
        make_uint4(expert, first_place + first, std::min(count - first, uint32_t{kGroupUses}), 0));
  }
  if (expert + 1 < gridDim.x) return;
  for (uint32_t group = end_group + threadIdx.x; group < groups.num_groups; group += kThreads)
    groups.groups.store<uint4>(size_t{kGroupWords} * group, make_uint4(0, 0, 0, 0));
}

// Grid x: groups; y: pieces of 256 columns.
__global__ void __launch_bounds__(kThreads)
    gather_values_kernel(ReadyRows in, uint32_t uses_of_row, UseGroups groups, ReadyRows out) {
  let_next_begin();
  wait_for_previous();
  constexpr uint32_t kQuads = kThreads / 4;  // pieces of four values, which follow each other in a row
  const auto group = groups.groups.load<uint4>(size_t{kGroupWords} * blockIdx.x);
  const uint32_t column = blockIdx.y * kThreads + threadIdx.x % kQuads * 4;
  if (column >= in.stride) return;
  for (uint32_t i = threadIdx.x / kQuads; i < group.z; i += kThreads / kQuads) {
    const uint32_t place = group.y + i;
    const uint32_t row = groups.uses[place] / uses_of_row;
    out.values.store<float4>(size_t{place} * out.stride + column,
                             in.values.load<float4>(size_t{row} * in.stride + column));
  }
}

// Grid x: groups; y: eight blocks of columns, one for each warp. A lane has a use of the group.
__global__ void __launch_bounds__(kThreads)
    gather_blocks_kernel(ReadyRows in, uint32_t uses_of_row, UseGroups groups, ReadyRows out) {
  let_next_begin();
  wait_for_previous();
  const auto group = groups.groups.load<uint4>(size_t{kGroupWords} * blockIdx.x);
  const uint32_t block = blockIdx.y * kWarps + warp();
  if (lane() >= group.z || block >= in.stride / kBlockColumns) return;
  const uint32_t place = group.y + lane();
  const size_t from = in.block_index(block, groups.uses[place] / uses_of_row);
  const size_t to = out.block_index(block, place);
  for (uint32_t half = 0; half < kBlockColumns; half += sizeof(uint4))
    out.quants.store<uint4>(to * kBlockColumns + half, in.quants.load<uint4>(from * kBlockColumns + half));
  out.scales[to] = float{in.scales[from]};
  out.scaled_sums[to] = float{in.scaled_sums[from]};
  out.half_sums[to] = int32_t{in.half_sums[from]};
}

// Grid x: rows of the part; y: pieces of 256 columns.
__global__ void __launch_bounds__(kThreads)
    add_uses_kernel(FloatRows outputs, ExpertUses uses, uint32_t first_row, uint32_t width, FloatRows out) {
  let_next_begin();
  wait_for_previous();
  const uint32_t column = blockIdx.y * kThreads + threadIdx.x;
  if (column >= width) return;
  const uint32_t row = first_row + blockIdx.x;
  float sum = 0.0f;
  for (uint32_t i = 0; i < uses.num_used; ++i) {
    const size_t output = size_t{blockIdx.x} * uses.num_used + i;
    sum = std::fma(uses.weights[size_t{row} * uses.num_used + i],
                   outputs.values[output * outputs.stride + column], sum);
  }
  const size_t index = size_t{row} * out.stride + column;
  out.values[index] = sum + out.values[index];
}

}  // namespace

cudaError_t group_uses(const ExpertUses& uses, uint32_t num_experts, const UsePart& part,
                       const UseGroups& groups, cudaStream_t stream) {
  const uint32_t first_use = part.first_row * uses.num_used;
  const uint32_t num_uses = part.num_rows * uses.num_used;
  const cudaLaunchConfig_t config = config_of(dim3(num_experts), kThreads, stream);
  const cudaError_t status =
      cudaLaunchKernelEx(&config, count_uses_kernel, uses, first_use, num_uses, groups);
  if (status != cudaSuccess) return status;
  return cudaLaunchKernelEx(&config, group_uses_kernel, uses, first_use, num_uses, groups);
}

cudaError_t gather_rows(const ReadyRows& in, GatheredRows what, uint32_t uses_of_row, const UseGroups& groups,
                        const ReadyRows& out, cudaStream_t stream) {
  const cudaLaunchConfig_t config =
      config_of(dim3(groups.num_groups, divide_up(in.stride, kThreads)), kThreads, stream);
  if (what == GatheredRows::kValues)
    return cudaLaunchKernelEx(&config, gather_values_kernel, in, uses_of_row, groups, out);
  return cudaLaunchKernelEx(&config, gather_blocks_kernel, in, uses_of_row, groups, out);
}

cudaError_t add_uses(const FloatRows& outputs, const ExpertUses& uses, const UsePart& part, uint32_t width,
                     const FloatRows& out, cudaStream_t stream) {
  const cudaLaunchConfig_t config =
      config_of(dim3(part.num_rows, divide_up(width, kThreads)), kThreads, stream);
  return cudaLaunchKernelEx(&config, add_uses_kernel, outputs, uses, part.first_row, width, out);
}

cudaError_t load_use_groups() {
  return load_all(count_uses_kernel, group_uses_kernel, gather_values_kernel, gather_blocks_kernel,
                  add_uses_kernel);
}

}  // namespace runnel

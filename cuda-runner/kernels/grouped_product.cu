#include <algorithm>

#include "cuda-runner/kernels/expert_bias-inl.h"
#include "cuda-runner/kernels/grouped_product.h"
#include "cuda-runner/kernels/load.h"
#include "cuda-runner/kernels/product_choice-inl.h"
#include "cuda-runner/kernels/ready_rows-inl.h"
#include "cuda-runner/kernels/resident_blocks.h"
#include "runner/formats/weight_type.h"

namespace runnel {
namespace {

// Calls of with an object of the product of a type. Blocks take two tiles: one of the gate and one of the up,
// or two of a single matrix. An expert is often used by a few rows only, so of the products by tiles these
// take few: a group of quantised weights, or half of it for types that need more registers. Products of
// floats wait for arithmetic from 20 rows on, so they take half of a group too.
template <TensorType kType, typename Of>
auto with_grouped_product(const Of& of) {
  if constexpr (is_quantised(kType)) {
    return of(TileProduct<kType, kSplitTileShape>());
  } else {
    return of(FloatTileProduct<kType, 2, kGroupUses / 2, 1, 4>());
  }
}

template <typename Product>
constexpr uint32_t kPartsOfGroup = kGroupUses / Product::kColumns;

struct Group {
  uint32_t expert;
  uint32_t first_place;
  uint32_t num_uses;
};

// What a block of this grid y multiplies.
template <typename Product>
__device__ Group group_of_block(const UseGroups& groups, uint32_t y) {
  const auto group = groups.groups.load<uint4>(size_t{kGroupWords} * (y / kPartsOfGroup<Product>));
  const uint32_t first = y % kPartsOfGroup<Product> * Product::kColumns;
  return {group.x, group.y + first,
          group.z > first ? std::min(group.z - first, uint32_t{Product::kColumns}) : 0};
}

// The groups of an expert follow each other in y, so that those after the first may find its weights in the
// device's cache. The kernels read once more which group they have, so that this takes no registers while
// they multiply.

// Grid x: tiles of an expert; y: parts of groups.
template <typename Product>
__global__ void __launch_bounds__(Product::kMaxThreads, kResidentBlocks<Product>)
    grouped_gated_multiply_kernel(DeviceMatrix gate, DeviceMatrix up, ExpertBias bias,
                                  Nonlinearity nonlinearity, ReadyRows in, UseGroups groups, ReadyRows out) {
  let_next_begin();
  wait_for_previous();
  const Group first = group_of_block<Product>(groups, blockIdx.y);
  if (first.num_uses == 0) return;
  auto& memory = dynamic_shared<typename Product::Memory>();
  const uint32_t first_tile = first.expert * gridDim.x + blockIdx.x;
  Product::compute({gate, up, first_tile, first_tile}, in, first.first_place,
                   first.first_place + first.num_uses, memory);
  const Group group = group_of_block<Product>(groups, recomputed(blockIdx.y));
  const uint32_t tile = group.expert * gridDim.x + blockIdx.x;
#pragma unroll 1
  for (uint32_t i = warp(); i < group.num_uses; i += Product::kMaxThreads / kWarpSize) {
    const float gated = with_bias(Product::result(memory, 0, i), bias, 0, tile);
    const float scaled = with_bias(Product::result(memory, 1, i), bias, gate.rows, tile);
    store_ready_block(out, groups.uses[group.first_place + i], blockIdx.x * kWarpTileRows,
                      apply_gate(nonlinearity, gated, scaled));
  }
}

// Grid x: pairs of tiles of an expert; y: parts of groups. The last tile of an expert may be alone: then the
// other one is the next expert's, and its results are left.
template <typename Product>
__global__ void __launch_bounds__(Product::kMaxThreads, kResidentBlocks<Product>)
    grouped_multiply_kernel(DeviceMatrix down, ExpertBias bias, uint32_t num_tiles, ReadyRows in,
                            UseGroups groups, uint32_t first_use, FloatRows out) {
  let_next_begin();
  wait_for_previous();
  const Group first = group_of_block<Product>(groups, blockIdx.y);
  if (first.num_uses == 0) return;
  auto& memory = dynamic_shared<typename Product::Memory>();
  const uint32_t first_tile = first.expert * num_tiles + blockIdx.x * 2;
  Product::compute({down, down, first_tile, first_tile + 1}, in, first.first_place,
                   first.first_place + first.num_uses, memory);
  const Group group = group_of_block<Product>(groups, recomputed(blockIdx.y));
#pragma unroll 1
  for (uint32_t i = warp(); i < 2 * group.num_uses; i += Product::kMaxThreads / kWarpSize) {
    const uint32_t row = i / 2;
    const uint32_t tile = blockIdx.x * 2 + i % 2;
    if (tile >= num_tiles) continue;
    const float y = with_bias(Product::result(memory, i % 2, row), bias, 0, group.expert * num_tiles + tile);
    const uint32_t use = groups.uses[group.first_place + row];
    out.values[size_t{use - first_use} * out.stride + tile * kWarpTileRows + lane()] = y;
  }
}

template <typename Product>
cudaLaunchConfig_t grouped_config(uint32_t num_blocks, const UseGroups& groups, cudaStream_t stream) {
  return config_of(dim3(num_blocks, groups.num_groups * kPartsOfGroup<Product>), Product::kMaxThreads, stream,
                   Product::Memory::kBytes);
}

}  // namespace

bool has_grouped_products(TensorType type) {
  return with_weight_type(type, [](auto constant) {
    return with_grouped_product<constant>([](auto product) { return has_memory_for(product); });
  });
}

cudaError_t grouped_gated_multiply(const DeviceMatrix& gate, const DeviceMatrix& up, const ExpertBias& bias,
                                   Nonlinearity nonlinearity, const ReadyRows& in, const UseGroups& groups,
                                   const ReadyRows& out, cudaStream_t stream) {
  return with_weight_type(gate.type, [&](auto type) {
    return with_grouped_product<type>([&]<typename P>(P) {
      const auto config = grouped_config<P>(out.width / kWarpTileRows, groups, stream);
      return cudaLaunchKernelEx(&config, grouped_gated_multiply_kernel<P>, gate, up, bias, nonlinearity, in,
                                groups, out);
    });
  });
}

cudaError_t grouped_multiply(const DeviceMatrix& down, const ExpertBias& bias, uint32_t width,
                             const ReadyRows& in, const UseGroups& groups, uint32_t first_use,
                             const FloatRows& out, cudaStream_t stream) {
  const uint32_t num_tiles = width / kWarpTileRows;
  return with_weight_type(down.type, [&](auto type) {
    return with_grouped_product<type>([&]<typename P>(P) {
      const auto config = grouped_config<P>(divide_up(num_tiles, P::kTiles), groups, stream);
      return cudaLaunchKernelEx(&config, grouped_multiply_kernel<P>, down, bias, num_tiles, in, groups,
                                first_use, out);
    });
  });
}

cudaError_t load_grouped_products(TensorType type) {
  return with_weight_type(type, [](auto constant) {
    return with_grouped_product<constant>([]<typename P>(P product) {
      if (!has_memory_for(product)) return cudaSuccess;
      const cudaError_t status = load(grouped_gated_multiply_kernel<P>, P::Memory::kBytes);
      return status == cudaSuccess ? load(grouped_multiply_kernel<P>, P::Memory::kBytes) : status;
    });
  });
}

}  // namespace runnel

// Which product a step takes, by its rows, the size of the matrix and the device.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda-runner/kernels/float_tile_product-inl.h"
#include "cuda-runner/kernels/product_launch-inl.h"
#include "cuda-runner/kernels/segment_product-inl.h"
#include "cuda-runner/kernels/tile_product-inl.h"
#include "cuda-runner/kernels/vector_product-inl.h"

namespace runnel {

// --- quantised weights

// For many rows of the batch; the same with another number of blocks in a wave; for grids that would be
// small.
inline constexpr TileShape kTileShape = {.parts = 1, .tiles = 4, .column_warps = 2, .groups = 4, .blocks = 2};
inline constexpr TileShape kNarrowTileShape = {
    .parts = 1, .tiles = 4, .column_warps = 1, .groups = 8, .blocks = 3};
inline constexpr TileShape kSplitTileShape = {
    .parts = 2, .tiles = 2, .column_warps = 1, .groups = 4, .blocks = 4};

// The shapes of blocks of the product of segments. 16 warps on a multiprocessor leave 128 registers to a
// thread, 32 leave 64. Devices that give a block no more than 99 KiB have no room for kWide, and those that
// give it 64 KiB none for kNormal with tensor cores and one matrix.
template <TensorType kType, uint32_t kColumns, uint32_t kMatrices>
struct SegmentShapes {
  static constexpr bool kHasDots = kColumns < kGroupRows;
  static constexpr bool kIsPair = kMatrices > 1;
  static constexpr bool kHasTwoSums = BlockScales<kType>::kHasTwoSums;
  // What needs more registers: sums of 32 rows, with two matrices, and more with the scales of some types.
  static constexpr bool kIsLarge = kColumns == 32;
  static constexpr bool kIsLargePair = kIsPair && (kIsLarge || (kColumns == 16 && kHasTwoSums));
  static constexpr bool kIsLargest =
      kIsLarge && (kIsPair ? kHasTwoSums || QuantTileLayout<kType>::kHasSubScales
                           : kHasTwoSums && BlockScales<kType>::kFormat.has_minimum);

  // For matrices of so few tiles that a multiprocessor has one block at most.
  static constexpr SegmentShape kWide{.warps = kIsLargePair ? 8u : 16u, .blocks = 1, .kib = 226};
  // For up to two of them. What blocks take leaves room for those of the kernels before and after.
  static constexpr SegmentShape kTwoWide{.warps = 16, .blocks = 2, .kib = 70};
  static constexpr SegmentShape kSmall =
      kHasDots ? SegmentShape{.warps = 8, .blocks = 5 - kColumns, .kib = kColumns == 1 ? 55u : 60u}
      : kIsPair && !kIsLargePair ? SegmentShape{.warps = 4, .blocks = 4, .kib = 55}
                                 : SegmentShape{.warps = 4, .blocks = kIsLargest ? 2u : 3u, .kib = 60};
  static constexpr SegmentShape kNormal =
      kHasDots || kIsPair ? kSmall : SegmentShape{.warps = 8, .blocks = kIsLargest ? 1u : 2u, .kib = 99};
};

// With more, a wide block has a segment for each of its warps.
inline constexpr uint32_t kMostNarrowColumns = 8 * kSegmentColumns;

// Calls of with an object of the product of segments for kColumns rows of the batch at a time.
template <TensorType kType, uint32_t kColumns, uint32_t kMatrices, typename Of>
cudaError_t with_segments(const DeviceMatrix& matrix, uint32_t num_rows, const Of& of) {
  using Shapes = SegmentShapes<kType, kColumns, kMatrices>;
  using Wide = SegmentProduct<kType, kColumns, kMatrices, Shapes::kWide>;
  using TwoWide = SegmentProduct<kType, kColumns, kMatrices, Shapes::kTwoWide>;
  using Normal = SegmentProduct<kType, kColumns, kMatrices, Shapes::kNormal>;
  using Small = SegmentProduct<kType, kColumns, kMatrices, Shapes::kSmall>;
  const uint32_t num_blocks = num_tiles(matrix) * divide_up(num_rows, kColumns);
  if (matrix.columns > kMostNarrowColumns) {
    if (num_blocks <= num_multiprocessors() && has_memory_for(Wide())) return of(Wide());
    // With dot products all blocks at once are worth the smaller memory.
    if constexpr (Shapes::kHasDots && !Shapes::kIsPair)
      if (num_blocks <= 2 * num_multiprocessors() && has_memory_for(TwoWide())) return of(TwoWide());
  }
  return has_memory_for(Normal()) ? of(Normal()) : of(Small());
}

template <TensorType kType, uint32_t kMatrices, typename Of>
cudaError_t with_quantised_product(const DeviceMatrix& matrix, uint32_t num_rows, ProductForm form,
                                   const Of& of) {
  // Times as for Q4_0.
  using Segments = SegmentProduct<kType, 32, kMatrices, SegmentShapes<kType, 32, kMatrices>::kNormal>;
  const Timed<Segments, kMatrices == 1 ? 33 : 110> segment{};
  const Timed<TileProduct<kType, kTileShape>, 188> tile{};
  const Timed<TileProduct<kType, kNarrowTileShape>, 265> narrow{};
  const Timed<TileProduct<kType, kSplitTileShape>, 117> split{};
  if (form == ProductForm::kTiles && has_memory_for(tile.product)) return of(tile.product);
  if (form == ProductForm::kNarrowTiles && has_memory_for(narrow.product)) return of(narrow.product);
  if (form >= ProductForm::kTiles && has_memory_for(split.product)) return of(split.product);
  if (num_rows == 1) return with_segments<kType, 1, kMatrices>(matrix, num_rows, of);
  if (num_rows == 2) return with_segments<kType, 2, kMatrices>(matrix, num_rows, of);
  if (num_rows <= 8) return with_segments<kType, 8, kMatrices>(matrix, num_rows, of);
  if (num_rows <= 16) return with_segments<kType, 16, kMatrices>(matrix, num_rows, of);
  const auto segments_or = [&]<typename Product>(Product product) {
    if constexpr (Product::kKind == ProductKind::kTiles)
      return of(product);
    else
      return with_segments<kType, 32, kMatrices>(matrix, num_rows, of);
  };
  // Types whose tiles take half as many rows would read their weights twice.
  const bool reads_twice = num_rows <= 32 && split.product.kColumns < num_rows;
  if (form == ProductForm::kSegments || reads_twice || !has_memory_for(split.product))
    return segments_or(segment.product);
  return with_fastest(num_tiles(matrix) * kMatrices, num_rows, segments_or, segment, tile, narrow, split);
}

// The product that computes the norms of its rows. They are so short that no other form is taken for them.
template <TensorType kType, uint32_t kColumns, uint32_t kMatrices>
using NormedProduct = SegmentProduct<kType, kColumns, kMatrices,
                                     SegmentShapes<kType, kColumns, kMatrices>::kNormal, NormedRows>;
static_assert(kMostNormedColumns <= kMostNarrowColumns);

// Calls of with an object of it, if computes_norms.
template <TensorType kType, uint32_t kMatrices, typename Of>
cudaError_t with_normed_product(const DeviceMatrix& matrix, uint32_t num_rows, const Of& of) {
  if constexpr (is_quantised(kType)) {
    if (computes_norms(kType, matrix.columns, num_rows))
      return num_rows == 1 ? of(NormedProduct<kType, 1, kMatrices>())
                           : of(NormedProduct<kType, 2, kMatrices>());
  }
  return cudaErrorInvalidValue;
}

// --- floats

// For steps of many rows, with blocks of one group of warps. Times as for BF16.
template <TensorType kType>
using LargeFloatTiles = Timed<FloatTileProduct<kType, 4, 128, 8, 1>, 1150>;
template <TensorType kType>
using MediumFloatTiles = Timed<FloatTileProduct<kType, 2, 64, 4, 1>, 1080>;

// Calls of with those for fewer rows, all at once. They have a warp for each of 4 or 8 segments, with which a
// small matrix keeps a device busy: the fewer tiles it has, the fewer rows of the batch a block takes.
template <TensorType kType, uint32_t kMatrices, typename Of>
cudaError_t with_small_float_tiles(const Of& of) {
  [[maybe_unused]] const Timed<FloatTileProduct<kType, 2, 32, 1, 4>, 308> two_32{};
  [[maybe_unused]] const Timed<FloatTileProduct<kType, 2, 32, 1, 8>, 175> two_32_long{};
  const Timed<FloatTileProduct<kType, 2, 16, 1, 4>, 206> two_16{};
  const Timed<FloatTileProduct<kType, 2, 16, 1, 8>, 130> two_16_long{};
  const Timed<FloatTileProduct<kType, 2, 8, 1, 8>, 95> two_8_long{};
  // With weights of F32 no device has the memory for two_32_long, and none would take two_32 for one matrix.
  constexpr bool kIsF32 = kType == TensorType::kF32;
  if constexpr (kMatrices == 1) {
    const Timed<FloatTileProduct<kType, 1, 32, 1, 8>, 105> one_32{};
    const Timed<FloatTileProduct<kType, 1, 8, 1, 8>, 75> one_8{};
    if constexpr (kIsF32) {
      return of(two_16, two_16_long, two_8_long, one_32, one_8);
    } else {
      return of(two_32, two_32_long, two_16, two_16_long, two_8_long, one_32, one_8);
    }
  } else if constexpr (kIsF32) {
    return of(two_32, two_16, two_16_long, two_8_long);
  } else {
    return of(two_32, two_32_long, two_16, two_16_long, two_8_long);
  }
}

// Up to this many rows, products of vectors are as fast as those of tiles.
inline constexpr uint32_t kMostVectorRows = 2;

template <TensorType kType, uint32_t kMatrices, typename Of>
cudaError_t with_float_product(const DeviceMatrix& matrix, uint32_t num_rows, ProductForm form,
                               const Of& of) {
  const LargeFloatTiles<kType> large{};
  const MediumFloatTiles<kType> medium{};
  const bool is_few = form == ProductForm::kBest && num_rows <= kMostVectorRows;
  // Medium is the one that needs the least memory.
  if (!is_few && has_memory_for(medium.product)) {
    if (form == ProductForm::kTiles && has_memory_for(large.product)) return of(large.product);
    if (form >= ProductForm::kTiles) return of(medium.product);
    return with_small_float_tiles<kType, kMatrices>([&](const auto&... small) {
      const uint32_t tiles = num_tiles(matrix) * kMatrices;
      if (form == ProductForm::kSegments) return with_fastest(tiles, num_rows, of, medium, small...);
      return with_fastest(tiles, num_rows, of, large, medium, small...);
    });
  }
  if (num_rows == 1) return of(VectorProduct<kType, 1>());
  if (num_rows == 2) return of(VectorProduct<kType, 2>());
  return of(VectorProduct<kType, 4>());
}

// --- both

// Calls of with an object of the product that a step of num_rows rows takes. kMatrices: 2 with a gate.
template <TensorType kType, uint32_t kMatrices, typename In, typename Of>
cudaError_t with_product(const DeviceMatrix& matrix, uint32_t num_rows, ProductForm form, const Of& of) {
  if constexpr (std::is_same_v<In, NormedRows>) {
    return with_normed_product<kType, kMatrices>(matrix, num_rows, of);
  } else if constexpr (is_quantised(kType)) {
    return with_quantised_product<kType, kMatrices>(matrix, num_rows, form, of);
  } else {
    return with_float_product<kType, kMatrices>(matrix, num_rows, form, of);
  }
}

// Calls of(product) for every product of the type that the device has the memory for, until it fails.
template <TensorType kType, uint32_t kMatrices, typename Of>
cudaError_t for_all_products(const Of& of) {
  cudaError_t status = cudaSuccess;
  const auto add = [&](auto product) {
    if (status == cudaSuccess && has_memory_for(product)) status = of(product);
  };
  if constexpr (is_quantised(kType)) {
    const auto add_segments = [&]<uint32_t kColumns>(std::integral_constant<uint32_t, kColumns>) {
      using Shapes = SegmentShapes<kType, kColumns, kMatrices>;
      add(SegmentProduct<kType, kColumns, kMatrices, Shapes::kWide>());
      add(SegmentProduct<kType, kColumns, kMatrices, Shapes::kNormal>());
      if constexpr (kMatrices == 1) {
        constexpr SegmentShape kOther = Shapes::kHasDots ? Shapes::kTwoWide : Shapes::kSmall;
        add(SegmentProduct<kType, kColumns, kMatrices, kOther>());
      }
    };
    add_segments(std::integral_constant<uint32_t, 1>());
    add_segments(std::integral_constant<uint32_t, 2>());
    add_segments(std::integral_constant<uint32_t, 8>());
    add_segments(std::integral_constant<uint32_t, 16>());
    add_segments(std::integral_constant<uint32_t, 32>());
    add(NormedProduct<kType, 1, kMatrices>());
    add(NormedProduct<kType, 2, kMatrices>());
    add(TileProduct<kType, kTileShape>());
    add(TileProduct<kType, kNarrowTileShape>());
    add(TileProduct<kType, kSplitTileShape>());
  } else {
    add(VectorProduct<kType, 1>());
    add(VectorProduct<kType, 2>());
    add(VectorProduct<kType, 4>());
    add(LargeFloatTiles<kType>().product);
    add(MediumFloatTiles<kType>().product);
    with_small_float_tiles<kType, kMatrices>([&](const auto&... small) {
      (add(small.product), ...);
      return status;
    });
  }
  return status;
}

}  // namespace runnel

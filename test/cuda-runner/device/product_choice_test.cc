// Which form of a product a step takes, on devices of different sizes, and that each form of a product of
// floats which any of them takes has the bits of the reference.
#include <cstdint>
#include <random>
#include <set>
#include <tuple>

#include "cuda-runner/emulator/settings.h"
#include "cuda-runner/kernels/product_choice-inl.h"
#include "test/cuda-runner/float_products.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

using namespace test;

// Of the blocks of a product by tiles: tiles, rows of the batch, warps.
using BlockShape = std::tuple<uint32_t, uint32_t, uint32_t>;
constexpr BlockShape kLarge{4, 128, 8};
constexpr BlockShape kMedium{2, 64, 4};
constexpr BlockShape kTwoTiles32{2, 32, 4};
constexpr BlockShape kOneTile8{1, 8, 8};

template <typename Product>
constexpr BlockShape block_shape() {
  return {Product::kTiles, Product::kColumns, Product::kMaxThreads / kWarpSize};
}

// kMatrices: 2 with a gate.
template <TensorType kType, uint32_t kMatrices>
BlockShape chosen(uint32_t num_tiles, uint32_t num_rows, uint32_t columns = 1024) {
  const DeviceMatrix matrix{kType, num_tiles * kWarpTileRows, columns, {}, {}};
  BlockShape shape{};
  require_success(
      with_product<kType, kMatrices, ReadyRows>(matrix, num_rows, ProductForm::kBest, [&]<typename P>(P) {
        if constexpr (P::kKind != ProductKind::kVectors) shape = block_shape<P>();
        return cudaSuccess;
      }));
  return shape;
}

template <TensorType kType, uint32_t kMatrices>
std::set<BlockShape> all_shapes() {
  std::set<BlockShape> shapes;
  require_success(for_all_products<kType, kMatrices>([&]<typename P>(P) {
    if constexpr (P::kKind == ProductKind::kTiles) shapes.insert(block_shape<P>());
    return cudaSuccess;
  }));
  return shapes;
}

TEST_CASE(
    "float products: the form is chosen by the blocks that shared memory has room for, of 132 "
    "multiprocessors") {
  emulator::start({.num_multiprocessors = 132});
  // The shapes of a 1B model: a gate and an up, the output of attention, the head.
  CHECK(chosen<TensorType::kBF16, 2>(256, 256) == kMedium);
  CHECK(chosen<TensorType::kBF16, 2>(256, 2048) == kMedium);
  CHECK(chosen<TensorType::kBF16, 1>(4008, 256) == kMedium);
  CHECK(chosen<TensorType::kBF16, 2>(256, 32) == kTwoTiles32);
  CHECK(chosen<TensorType::kBF16, 1>(64, 8) == kOneTile8);
  CHECK(chosen<TensorType::kF32, 2>(256, 256) == kMedium);
  // A multiprocessor of 8.0 has room for one block where one of 9.0 has room for two.
  emulator::start({.compute_capability = 80, .num_multiprocessors = 108});
  CHECK(chosen<TensorType::kBF16, 2>(256, 2048) == kLarge);
  emulator::start({});
}

TEST_CASE(
    "quantised products: the form is chosen by the blocks that are there at a time, of 132 multiprocessors") {
  emulator::start({.num_multiprocessors = 132});
  constexpr TensorType kType = TensorType::kQ4_0;
  // The shapes of an 8B model. Queries, keys and values of one row: two blocks of 16 warps a multiprocessor.
  CHECK(chosen<kType, 1>(192, 1, 4096) == BlockShape{1, 1, 16});
  CHECK(chosen<kType, 1>(128, 1, 4096) == BlockShape{1, 1, 16});
  CHECK(chosen<kType, 1>(265, 1, 4096) == BlockShape{1, 1, 8});
  // Few rows: a gate and its up share them.
  CHECK(chosen<kType, 2>(448, 1, 4096) == BlockShape{2, 1, 8});
  CHECK(chosen<kType, 2>(448, 8, 4096) == BlockShape{2, 8, 4});
  CHECK(chosen<kType, 2>(100, 8, 4096) == BlockShape{2, 8, 16});
  // 32 rows: two tiles a block where there are many, and segments for types that would read weights twice.
  CHECK(chosen<kType, 2>(448, 32, 4096) == BlockShape{2, 32, 4});
  CHECK(chosen<kType, 1>(192, 32, 4096) == BlockShape{1, 32, 8});
  CHECK(chosen<TensorType::kQ2_K, 2>(448, 32, 4096) == BlockShape{2, 32, 4});
  // Many rows: by the waves of blocks.
  CHECK(chosen<kType, 2>(448, 256, 4096) == BlockShape{4, 64, 8});
  CHECK(chosen<kType, 1>(192, 512, 4096) == BlockShape{4, 64, 4});
  CHECK(chosen<kType, 1>(128, 256, 14336) == BlockShape{2, 32, 4});
  // Blocks of 99 KiB, and of 64.
  emulator::start({.compute_capability = 89, .num_multiprocessors = 128});
  CHECK(chosen<kType, 1>(128, 8, 4096) == BlockShape{1, 8, 8});
  CHECK(chosen<kType, 2>(128, 8, 4096) == BlockShape{2, 8, 4});
  emulator::start({.compute_capability = 75, .num_multiprocessors = 72});
  CHECK(chosen<kType, 1>(128, 8, 4096) == BlockShape{1, 8, 4});
  emulator::start({});
}

struct Case {
  uint32_t compute_capability;
  uint32_t num_tiles;
  uint32_t num_rows;
};
// On one multiprocessor few tiles are many.
constexpr Case kCases[] = {{90, 1, 3},  {90, 1, 9},  {90, 2, 9}, {90, 1, 19}, {90, 2, 19},
                           {90, 3, 9},  {90, 3, 19}, {80, 2, 3}, {80, 1, 9},  {80, 1, 25},
                           {80, 3, 33}, {80, 6, 33}, {80, 4, 70}};

template <TensorType kType>
void check_chosen_forms(std::mt19937& rng) {
  constexpr ProductForm kBest[] = {ProductForm::kBest};
  std::set<BlockShape> of_one;
  std::set<BlockShape> of_two;
  for (const Case& each : kCases) {
    CAPTURE(each.compute_capability);
    emulator::start({.compute_capability = each.compute_capability, .num_multiprocessors = 1});
    const TestStream stream;
    require_success(load_multiply(kType));
    require_success(load_gated_multiply(kType));
    check_float_products(stream, kType, each.num_tiles * kWarpTileRows - 3, 75, each.num_rows, kBest, rng);
    of_one.insert(chosen<kType, 1>(each.num_tiles, each.num_rows));
    of_two.insert(chosen<kType, 2>(each.num_tiles, each.num_rows));
  }
  emulator::start({});
  CHECK(of_one == all_shapes<kType, 1>());
  CHECK(of_two == all_shapes<kType, 2>());
}

TEST_CASE("float products: each form that a device takes has the bits of the reference") {
  std::mt19937 rng(29);
  check_chosen_forms<TensorType::kF32>(rng);
  check_chosen_forms<TensorType::kF16>(rng);
  check_chosen_forms<TensorType::kBF16>(rng);
}

}  // namespace
}  // namespace runnel

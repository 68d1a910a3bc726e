#include "cpu-runner/matrix.h"

#include <random>
#include <vector>

#include "runner/formats/dequantize.h"
#include "test/cpu-runner/kernel_tables.h"
#include "test/fixtures/gguf_writer.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

using namespace test;

TEST_CASE("a row copied from the tiles is the dequantised row of the file") {
  std::mt19937 rng(16);
  const auto threads = ThreadPool::create(2);
  for (const TensorType type :
       {TensorType::kF32, TensorType::kF16, TensorType::kQ4_0, TensorType::kQ4_1, TensorType::kQ8_0}) {
    WeightArena arena;
    const std::string data = random_weights(type, 37 * 64, 1.0f, rng);
    const TensorView tensor{"t", type, 2, {64, 37, 1, 1}, std::as_bytes(std::span(data))};
    const auto matrix = TiledMatrix::from_tensor(tensor, arena, **threads);
    REQUIRE(matrix.ok());
    for (uint32_t row = 0; row < 37; ++row) {
      std::vector<float> got(64), wanted(64);
      matrix->copy_row(row, got);
      const size_t row_bytes = data.size() / 37;
      dequantize_row(type, tensor.data.subspan(row * row_bytes, row_bytes), wanted);
      REQUIRE(same_bits(got, wanted));
    }
  }
}

TEST_CASE("tiles take the file's bytes, with rows of zeros to the next 32") {
  std::mt19937 rng(17);
  const auto threads = ThreadPool::create(1);
  for (const uint32_t rows : {32u, 33u}) {
    WeightArena arena;
    const std::string data = random_weights(TensorType::kQ4_1, uint64_t{rows} * 96, 1.0f, rng);
    const TensorView tensor{"t", TensorType::kQ4_1, 2, {96, rows, 1, 1}, std::as_bytes(std::span(data))};
    REQUIRE(TiledMatrix::from_tensor(tensor, arena, **threads).ok());
    CHECK(arena.bytes() == (rows == 32 ? data.size() : data.size() / 33 * 64));
  }
}

}  // namespace
}  // namespace runnel

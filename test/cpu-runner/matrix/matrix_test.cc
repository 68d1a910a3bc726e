#include "cpu-runner/matrix/matrix.h"

#include <algorithm>
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
  for (const TensorType type : tensor_types()) {
    WeightArena arena;
    constexpr uint32_t kColumns = 64;
    const uint32_t columns = std::max(kColumns, block_weights(type)) + block_weights(type);
    const std::string data = random_weights(type, uint64_t{37} * columns, 1.0f, rng);
    const TensorView tensor{"t", type, 2, {columns, 37, 1, 1}, std::as_bytes(std::span(data))};
    const auto matrix = TiledMatrix::from_tensor(tensor, arena, **threads);
    REQUIRE(matrix.ok());
    for (uint32_t row = 0; row < 37; ++row) {
      std::vector<float> got(columns), wanted(columns);
      matrix->copy_row(row, got);
      const size_t row_bytes = data.size() / 37;
      dequantize_row(type, tensor.data.subspan(row * row_bytes, row_bytes), wanted);
      REQUIRE(same_bits(got, wanted));
    }
  }
}

TEST_CASE("tiles take about the file's bytes, with rows of zeros to the next 32") {
  std::mt19937 rng(17);
  const auto threads = ThreadPool::create(1);
  for (const TensorType type : tensor_types()) {
    CAPTURE(type_name(type));
    for (const uint32_t rows : {32u, 33u}) {
      WeightArena arena;
      const uint32_t columns = std::max(96u, block_weights(type));
      const std::string data = random_weights(type, uint64_t{rows} * columns, 1.0f, rng);
      const TensorView tensor{"t", type, 2, {columns, rows, 1, 1}, std::as_bytes(std::span(data))};
      REQUIRE(TiledMatrix::from_tensor(tensor, arena, **threads).ok());
      const size_t file_bytes = rows == 32 ? data.size() : data.size() / 33 * 64;
      CHECK(arena.bytes() >= file_bytes);
      CHECK(static_cast<double>(arena.bytes()) < 1.1 * static_cast<double>(file_bytes));
    }
  }
}

}  // namespace
}  // namespace runnel

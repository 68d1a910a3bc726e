// Products of stacked matrices: bias and residual, and the place of each part's results.
#include "cpu-runner/matrix/product.h"

#include <bit>
#include <random>
#include <vector>

#include "cpu-runner/matrix/product_pieces.h"
#include "test/cpu-runner/kernel_tables.h"
#include "test/fixtures/gguf_writer.h"
#include "test/fixtures/random_floats.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

using namespace test;

constexpr uint32_t kWidth = 64;

// Parts that begin in the middle of a chunk's rows. One of them has several chunks; no last chunk is full.
constexpr uint32_t kPartRows[] = {21, 150, 67};

StackedMatrix random_matrix(WeightArena& arena, ThreadPool& threads, std::mt19937& rng) {
  StackedMatrix matrix;
  for (const uint32_t num_rows : kPartRows) {
    const std::string data = random_weights(TensorType::kF32, uint64_t{num_rows} * kWidth, 0.3f, rng);
    const TensorView tensor{
        "t", TensorType::kF32, 2, {kWidth, num_rows, 1, 1}, std::as_bytes(std::span(data))};
    auto part = TiledMatrix::from_tensor(tensor, arena, threads);
    REQUIRE(part.ok());
    matrix.parts.push_back(*std::move(part));
  }
  return matrix;
}

Activation random_activation(const Executor& executor, uint32_t num_rows, std::mt19937& rng) {
  Activation activation(num_rows, kWidth);
  for (uint32_t row = 0; row < num_rows; ++row) {
    const std::vector<float> values = random_floats(kWidth, rng);
    std::ranges::copy(values, activation.row(row));
    make_ready(executor, activation, row);
  }
  return activation;
}

TEST_CASE("each row of a stacked matrix gets its own bias, in every column, before what is there is added") {
  std::mt19937 rng(21);
  const auto threads = ThreadPool::create(2);
  const Executor executor{*usable_kernels().back(), **threads};
  WeightArena arena;
  const StackedMatrix matrix = random_matrix(arena, **threads, rng);
  const std::vector<float> bias = random_floats(matrix.rows(), rng);
  const size_t stride = matrix.rows() + 3;
  for (const uint32_t num_columns : {1u, 7u, 100u}) {
    CAPTURE(num_columns);
    const Activation in = random_activation(executor, num_columns, rng);
    const std::vector<float> residual = random_floats(num_columns * stride, rng);
    const auto multiply = [&](std::span<const float> added_bias, bool add) {
      std::vector<float> out = residual;
      multiply_rows(executor, matrix, in, num_columns, added_bias, add, out.data(), stride);
      return out;
    };
    const std::vector<float> plain = multiply({}, false);
    const std::vector<float> biased = multiply(bias, false);
    const std::vector<float> added = multiply(bias, true);
    for (size_t column = 0; column < num_columns; ++column) {
      for (size_t row = 0; row < stride; ++row) {
        const size_t at = column * stride + row;
        const bool is_output = row < matrix.rows();
        const float wanted = is_output ? plain[at] + bias[row] : residual[at];
        REQUIRE(std::bit_cast<uint32_t>(biased[at]) == std::bit_cast<uint32_t>(wanted));
        REQUIRE(added[at] == (is_output ? wanted + residual[at] : residual[at]));
      }
    }
  }
}

TEST_CASE("pieces have each output once, in whole panels but for the last, and fit the memory of a piece") {
  for (uint32_t count = 1; count < 700; ++count) {
    CAPTURE(count);
    const Pieces pieces({0, 2 * kTileRows - 1}, {5, count});
    uint32_t next = 5;
    for (uint32_t i = 0; i < pieces.count() / 2; ++i) {
      CHECK(pieces[i].tile == 0);
      CHECK(pieces[i].first_column == next);
      CHECK((next - 5) % kPanelRows == 0);
      CHECK(pieces[i].num_columns <= kMaxPieceColumns);
      next += pieces[i].num_columns;
    }
    CHECK(next == 5 + count);
    CHECK(pieces[pieces.count() - 1].tile == 1);
    CHECK(pieces[pieces.count() - 1].num_outputs == kTileRows - 1);
  }
}

}  // namespace
}  // namespace runnel

// Products of stacked matrices: bias and residual, and the place of each part's results.
#include "cpu-runner/matrix/product.h"

#include <bit>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "cpu-runner/matrix/node_parts.h"
#include "cpu-runner/matrix/product_pieces.h"
#include "test/cpu-runner/kernel_tables.h"
#include "test/cpu-runner/threads_on_nodes.h"
#include "test/fixtures/gguf_writer.h"
#include "test/fixtures/random_floats.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

using namespace test;

constexpr uint32_t kWidth = 64;

// Parts that begin in the middle of a chunk's rows. One of them has several chunks; no last chunk is full.
constexpr uint32_t kPartRows[] = {21, 150, 67};

TiledMatrix random_part(TensorType type, uint32_t num_rows, uint32_t width, WeightArena& arena,
                        ThreadPool& threads, std::mt19937& rng) {
  const std::string data = random_weights(type, uint64_t{num_rows} * width, 0.3f, rng);
  const TensorView tensor{"t", type, 2, {width, num_rows, 1, 1}, std::as_bytes(std::span(data))};
  auto part = TiledMatrix::from_tensor(tensor, arena, threads);
  REQUIRE(part.ok());
  return *std::move(part);
}

StackedMatrix random_matrix(WeightArena& arena, ThreadPool& threads, std::mt19937& rng) {
  StackedMatrix matrix;
  for (const uint32_t num_rows : kPartRows)
    matrix.parts.push_back(random_part(TensorType::kF32, num_rows, kWidth, arena, threads, rng));
  return matrix;
}

Activation random_activation(const Executor& executor, uint32_t num_rows, std::mt19937& rng) {
  Activation activation(num_rows, kWidth, executor.threads);
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

TEST_CASE("the pieces of several products have each output once, and each node those of its tiles") {
  const uint32_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 rng(seed);
  for (uint32_t round = 0; round < 200; ++round) {
    const uint32_t num_nodes = 1 + rng() % 8;
    CAPTURE(num_nodes);
    // Sections of a matrix, of which some are left out, or one product of the whole matrix.
    const uint32_t num_tiles = 1 + rng() % 20;
    const uint32_t num_rows = num_tiles * kTileRows - (round % 2 == 0 ? rng() % kTileRows : 0);
    std::vector<PieceList::Product> products;
    for (uint32_t section = 0; section < (round % 2 == 0 ? 1 : 5); ++section)
      if (section == 0 || rng() % 2 == 0)
        products.push_back({{section * num_rows, num_rows},
                            {3 * section, 1 + static_cast<uint32_t>(rng() % 200)},
                            7 * section});
    const PieceList pieces(products, num_nodes);
    REQUIRE(pieces.ends().size() == num_nodes);
    std::vector<std::vector<uint32_t>> times(products.size());  // of each output, summed over the columns
    for (size_t i = 0; i < products.size(); ++i) times[i].resize(num_rows);
    for (uint32_t index = 0, node = 0; index < pieces.ends().back(); ++index) {
      while (index == pieces.ends()[node]) ++node;
      const auto [product, piece] = pieces[index];
      const auto& [rows, columns, first_output] = products[product];
      const uint32_t tile = (piece.first_output - first_output) / kTileRows;
      REQUIRE(piece.tile == rows.first / kTileRows + tile);
      REQUIRE(node == node_of(tile, num_tiles, num_nodes));
      REQUIRE(piece.first_column >= columns.first);
      REQUIRE(piece.first_column + piece.num_columns <= columns.first + columns.count);
      for (uint32_t i = 0; i < piece.num_outputs; ++i)
        times[product].at(piece.first_output - first_output + i) += piece.num_columns;
    }
    for (size_t i = 0; i < products.size(); ++i)
      for (const uint32_t each : times[i]) REQUIRE(each == products[i].columns.count);
  }
}

TEST_CASE(
    "products have the same bits with any number of nodes, each of which reads its own copy of the rows") {
  constexpr uint32_t kColumns = 40;
  const auto products_of = [&](ThreadPool& threads, std::vector<float>& gated) {
    std::mt19937 rng(22);
    const Executor executor{*usable_kernels().back(), threads};
    WeightArena arena;
    const StackedMatrix matrix = random_matrix(arena, threads, rng);
    const Activation in = random_activation(executor, kColumns, rng);
    for (uint32_t node = 1; node < threads.num_nodes(); ++node) {
      const ReadyPanel* const first = in.columns(0, kColumns, 0).panels;
      const ReadyPanel* const copy = in.columns(0, kColumns, node).panels;
      CHECK(copy != first);
      constexpr size_t kPanels = (kColumns + kPanelRows - 1) / kPanelRows * (kWidth / kBlockColumns);
      CHECK(std::memcmp(copy, first, kPanels * sizeof(ReadyPanel)) == 0);
    }
    std::vector<float> out(kColumns * matrix.rows());
    multiply_rows(executor, matrix, in, kColumns, {}, /*add=*/false, out.data(), matrix.rows());
    // Weights of 8 bits are multiplied with the copies, and what is gated goes into another product.
    constexpr uint32_t kMiddle = 320;
    const TiledMatrix up = random_part(TensorType::kQ8_0, kMiddle, kWidth, arena, threads, rng);
    Activation middle(kColumns, kMiddle, threads);
    gated_multiply_rows(executor, {nullptr, up, {}, {}, Nonlinearity::kSilu}, in, kColumns, middle);
    const StackedMatrix last{{random_part(TensorType::kQ8_0, kWidth, kMiddle, arena, threads, rng)}};
    gated.resize(kColumns * kWidth);
    multiply_rows(executor, last, middle, kColumns, {}, /*add=*/false, gated.data(), kWidth);
    return out;
  };
  std::vector<float> wanted_gated;
  const std::vector<float> wanted = products_of(*pool_on_nodes(1, 1), wanted_gated);
  for (const uint32_t num_nodes : {2u, 4u}) {
    for (const uint32_t num_threads : {2u, 5u, 8u}) {
      CAPTURE(num_nodes);
      CAPTURE(num_threads);
      const auto threads = pool_on_nodes(num_threads, num_nodes);
      std::vector<float> gated;
      CHECK(same_bits(products_of(*threads, gated), wanted));
      CHECK(same_bits(gated, wanted_gated));
      CHECK(threads->counts().num_too_early == 0);
    }
  }
}

}  // namespace
}  // namespace runnel

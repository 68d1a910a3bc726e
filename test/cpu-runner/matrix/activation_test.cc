#include "cpu-runner/matrix/activation.h"

#include <bit>
#include <random>
#include <vector>

#include "cpu-runner/matrix/product.h"
#include "test/cpu-runner/kernel_tables.h"
#include "test/fixtures/gguf_writer.h"
#include "test/fixtures/random_floats.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

using namespace test;

// Each weight type reads other parts of a row: values, quants, scales, or sums of quants.
TEST_CASE("a copied row has the same products as the row that it is copied from, with weights of each type") {
  constexpr uint32_t kWidth = 256;
  constexpr uint32_t kNumRows = 3;
  constexpr uint32_t kNumOutputs = 37;
  std::mt19937 rng(31);
  const auto threads = ThreadPool::create(1);
  const Executor executor{*usable_kernels().back(), **threads};
  Activation in(kNumRows, kWidth);
  for (uint32_t row = 0; row < kNumRows; ++row) {
    std::ranges::copy(random_floats(kWidth, rng), in.row(row));
    make_ready(executor, in, row);
  }
  constexpr uint32_t kOrder[] = {2, 0, 1, 2};
  Activation copies(std::size(kOrder), kWidth);
  for (uint32_t to = 0; to < std::size(kOrder); ++to) copies.copy_row(to, in, kOrder[to]);
  for (const TensorType type : tensor_types()) {
    CAPTURE(type_name(type));
    WeightArena arena;
    const std::string data = random_weights(type, uint64_t{kNumOutputs} * kWidth, 0.3f, rng);
    const TensorView tensor{"t", type, 2, {kWidth, kNumOutputs, 1, 1}, std::as_bytes(std::span(data))};
    StackedMatrix matrix;
    auto part = TiledMatrix::from_tensor(tensor, arena, **threads);
    REQUIRE(part.ok());
    matrix.parts.push_back(*std::move(part));
    const auto multiply = [&](const Activation& rows, uint32_t num_rows) {
      std::vector<float> out(size_t{num_rows} * kNumOutputs);
      multiply_rows(executor, matrix, rows, num_rows, {}, false, out.data(), kNumOutputs);
      return out;
    };
    const std::vector<float> wanted = multiply(in, kNumRows);
    const std::vector<float> got = multiply(copies, std::size(kOrder));
    for (size_t to = 0; to < std::size(kOrder); ++to) {
      for (size_t i = 0; i < kNumOutputs; ++i) {
        REQUIRE(std::bit_cast<uint32_t>(got[to * kNumOutputs + i]) ==
                std::bit_cast<uint32_t>(wanted[kOrder[to] * kNumOutputs + i]));
      }
    }
  }
}

}  // namespace
}  // namespace runnel

// Every table of kernels against the scalar reference, bit for bit, on random data of awkward sizes.
#include "cpu-runner/kernels/kernels.h"

#include <bit>
#include <random>
#include <string>
#include <vector>

#include "cpu-runner/matrix.h"
#include "test/cpu-runner/kernel_tables.h"
#include "test/cpu-runner/reference.h"
#include "test/fixtures/gguf_writer.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

using namespace test;

constexpr TensorType kTypes[] = {TensorType::kF32, TensorType::kF16, TensorType::kQ4_0, TensorType::kQ4_1,
                                 TensorType::kQ8_0};

TEST_CASE(
    "the fast table is used where the processor has it, unless the environment asks for the portable one") {
  setenv("RUNNEL_CPU", "portable", 1);
  CHECK(&select_kernels() == &kPortableKernels);
  unsetenv("RUNNEL_CPU");
#if defined(__x86_64__)
  CHECK((std::string(select_kernels().name) == "x86-64-v3") == (__builtin_cpu_supports("x86-64-v3") != 0));
#endif
}

TEST_CASE("products of every type, of any number of columns, have the bits of the reference") {
  std::mt19937 rng(11);
  const auto threads = ThreadPool::create(1);
  for (const TensorType type : kTypes) {
    // Three panels of k, a tile that is not full, and for floats a block that is not.
    for (const uint32_t columns : {32u, 576u, block_weights(type) == 1 ? 75u : 96u}) {
      const uint32_t rows = 16 * 3 + 5;
      const std::string data = random_weights(type, uint64_t{rows} * columns, 0.3f, rng);
      const TensorView tensor{"t", type, 2, {columns, rows, 1, 1}, std::as_bytes(std::span(data))};
      const auto matrix = TiledMatrix::from_tensor(tensor, **threads);
      REQUIRE(matrix.ok());
      for (const uint32_t num_columns : {1u, 2u, 3u, 4u, 5u, 6u, 7u, 13u, 48u}) {
        const std::vector<float> x = random_floats(size_t{num_columns} * columns, rng);
        const uint32_t num_blocks = (columns + 31) / 32;
        for (const Kernels* kernels : kernel_tables()) {
          std::vector<float> sums(num_columns * num_blocks);
          for (uint32_t c = 0; c < num_columns; ++c) {
            kernels->block_sums(x.data() + c * columns, columns, sums.data() + c * num_blocks);
          }
          constexpr uint32_t kOutStride = 64;
          std::vector<float> out(num_columns * kOutStride);
          kernels->multiply(matrix->weights(), 0, matrix->num_tiles(),
                            {x.data(), sums.data(), columns, num_blocks, num_columns}, out.data(),
                            kOutStride);
          CAPTURE(kernels->name);
          CAPTURE(type_name(type));
          CAPTURE(columns);
          CAPTURE(num_columns);
          const size_t row_bytes = data.size() / rows;
          for (uint32_t c = 0; c < num_columns; ++c) {
            for (uint32_t row = 0; row < rows; ++row) {
              const float wanted = reference::product(type, tensor.data.subspan(row * row_bytes, row_bytes),
                                                      std::span(x).subspan(c * columns, columns));
              REQUIRE(std::bit_cast<uint32_t>(out[c * kOutStride + row]) == std::bit_cast<uint32_t>(wanted));
            }
          }
        }
      }
    }
  }
}

TEST_CASE("norm and silu have the bits of the reference at every length") {
  std::mt19937 rng(12);
  for (const Kernels* kernels : kernel_tables()) {
    for (uint32_t n = 1; n <= 100; ++n) {
      const std::vector<float> x = random_floats(n, rng);
      const std::vector<float> y = random_floats(n, rng, 20.0f);
      std::vector<float> out(n);
      kernels->norm(x.data(), y.data(), n, 1e-5f, out.data());
      REQUIRE(same_bits(out, reference::norm(x, y, 1e-5f)));
      kernels->silu_multiply(y.data(), x.data(), n, out.data());
      for (uint32_t i = 0; i < n; ++i) REQUIRE(out[i] == reference::silu(y[i]) * x[i]);
    }
  }
}

// silu(g) is a function of exp(-g) alone, so it shows exp's bits.
TEST_CASE("the vector exp has the operations of exp_f32 over its whole range") {
  for (const Kernels* kernels : kernel_tables()) {
    std::vector<float> gates;
    for (float x = -120.0f; x < 120.0f; x += 0.00093f) gates.push_back(x);
    const std::vector<float> ones(gates.size(), 1.0f);
    std::vector<float> out(gates.size());
    kernels->silu_multiply(gates.data(), ones.data(), static_cast<uint32_t>(gates.size()), out.data());
    for (size_t i = 0; i < gates.size(); ++i) {
      CAPTURE(gates[i]);
      REQUIRE(std::bit_cast<uint32_t>(out[i]) == std::bit_cast<uint32_t>(reference::silu(gates[i])));
    }
  }
}

TEST_CASE("rotation turns the pairs of its kind and leaves the rest") {
  std::mt19937 rng(13);
  for (const Kernels* kernels : kernel_tables()) {
    for (const bool interleaved : {true, false}) {
      const std::vector<float> before = random_floats(20, rng);
      const std::vector<float> angles = random_floats(16, rng);
      std::vector<float> head = before;
      kernels->rotate(head.data(), angles.data(), 16, interleaved);
      for (int pair = 0; pair < 8; ++pair) {
        const int a = interleaved ? 2 * pair : pair;
        const int b = interleaved ? 2 * pair + 1 : pair + 8;
        const float cosine = angles[2 * pair];
        const float sine = angles[2 * pair + 1];
        CHECK(head[a] == std::fma(before[a], cosine, -(before[b] * sine)));
        CHECK(head[b] == std::fma(before[b], cosine, before[a] * sine));
      }
      for (int i = 16; i < 20; ++i) CHECK(head[i] == before[i]);
    }
  }
}

TEST_CASE("a row copied from the tiles is the dequantised row of the file") {
  std::mt19937 rng(16);
  const auto threads = ThreadPool::create(2);
  for (const TensorType type : kTypes) {
    const std::string data = random_weights(type, 37 * 64, 1.0f, rng);
    const TensorView tensor{"t", type, 2, {64, 37, 1, 1}, std::as_bytes(std::span(data))};
    const auto matrix = TiledMatrix::from_tensor(tensor, **threads);
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

}  // namespace
}  // namespace runnel

// Every table of kernels has the bits of the scalar reference, on random data of awkward sizes.
#include "cpu-runner/kernels/kernels.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>
#include <vector>

#include "runner/backend/nonlinearity.h"
#include "test/cpu-runner/kernel_tables.h"
#include "test/fixtures/attention_reference.h"
#include "test/fixtures/product_reference.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

using namespace test;

TEST_CASE("norms and gates have the bits of the reference at every length") {
  std::mt19937 rng(12);
  for (const Kernels* kernels : kernel_tables()) {
    std::vector<uint32_t> lengths = {255, 256, 257, 511, 576, 1000, 2048};
    for (uint32_t n = 1; n <= 100; ++n) lengths.push_back(n);
    for (const uint32_t n : lengths) {
      const std::vector<float> x = random_floats(n, rng);
      const std::vector<float> y = random_floats(n, rng, 20.0f);
      std::vector<float> out(n);
      kernels->norm(x.data(), y.data(), n, 1e-5f, out.data());
      REQUIRE(same_bits(out, reference::norm(x, y, 1e-5f)));
      kernels->silu_multiply(y.data(), x.data(), n, out.data());
      for (uint32_t i = 0; i < n; ++i) REQUIRE(out[i] == reference::silu(y[i]) * x[i]);
      kernels->gelu_multiply(y.data(), x.data(), n, out.data());
      for (uint32_t i = 0; i < n; ++i) REQUIRE(out[i] == reference::gelu(y[i]) * x[i]);
      kernels->gelu_by_error_multiply(y.data(), x.data(), n, out.data());
      for (uint32_t i = 0; i < n; ++i) REQUIRE(out[i] == gelu_by_error(y[i]) * x[i]);
      kernels->clamped_swish_multiply(y.data(), x.data(), n, out.data());
      for (uint32_t i = 0; i < n; ++i) REQUIRE(out[i] == reference::clamped_swish(y[i], x[i]));
      kernels->clamped_swish_multiply(x.data(), y.data(), n, out.data());
      for (uint32_t i = 0; i < n; ++i) REQUIRE(out[i] == reference::clamped_swish(x[i], y[i]));
      const std::vector<float> bias = random_floats(n, rng);
      kernels->layer_norm(x.data(), y.data(), bias.data(), n, 1e-5f, out.data());
      REQUIRE(same_bits(out, reference::layer_norm(x, y, bias, 1e-5f)));
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

TEST_CASE("GELU by the error function is near the exact one, far from 0 too") {
  for (float x = -30.0f; x < 30.0f; x += 0.00093f) {
    CAPTURE(x);
    const double exact = double{x} / 2.0 * std::erfc(-double{x} / std::sqrt(2.0));
    REQUIRE(std::abs(double{gelu_by_error(x)} - exact) < 2e-7 * std::max(1.0, std::abs(double{x})));
  }
  CHECK(gelu_by_error(1e30f) == 1e30f);
  CHECK(gelu_by_error(-1e30f) == 0.0f);
}

TEST_CASE("the cap of logits has the bits of the reference at every length, far beyond the cap too") {
  std::mt19937 rng(19);
  for (const Kernels* kernels : kernel_tables()) {
    CAPTURE(kernels->name);
    for (uint32_t n = 1; n <= 70; ++n) {
      for (const auto& [cap, magnitude] : {std::pair(30.0f, 1.0f), {50.0f, 200.0f}, {0.5f, 1e4f}}) {
        const std::vector<float> x = random_floats(n, rng, magnitude);
        std::vector<float> wanted;
        for (const float value : x) wanted.push_back(reference::soft_capped(value, cap));
        std::vector<float> out = x;
        kernels->soft_cap(out.data(), n, cap);
        REQUIRE(same_bits(out, wanted));
      }
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

}  // namespace
}  // namespace runnel

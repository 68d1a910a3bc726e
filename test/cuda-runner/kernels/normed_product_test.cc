// Products of norms of rows: they have the bits of a norm and a product after it.
#include <cmath>
#include <limits>
#include <optional>
#include <random>
#include <vector>

#include "cuda-runner/kernels/product.h"
#include "test/cuda-runner/device_matrix.h"
#include "test/cuda-runner/device_ready.h"
#include "test/cuda-runner/float_products.h"
#include "test/fixtures/random_floats.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

using namespace test;
using reference::Ready;

// Random rows with their norms by the reference.
struct RandomNorms {
  static constexpr float kEpsilon = 1e-5f;

  RandomNorms(const TestStream& stream, uint32_t num_rows, uint32_t columns_of, std::mt19937& rng,
              const float* first = nullptr)
      : columns(columns_of),
        gain(random_floats(columns, rng)),
        values(random_floats(size_t{num_rows} * columns, rng, 3.0f)) {
    if (first != nullptr) values[0] = *first;
    std::vector<float> normed;
    for (uint32_t row = 0; row < num_rows; ++row) {
      const auto begin = values.begin() + row * columns;
      const std::vector<float> y = reference::norm({begin, begin + columns}, gain, kEpsilon);
      normed.insert(normed.end(), y.begin(), y.end());
    }
    ready = reference::ready(normed, columns);
    on_device.emplace(stream, values);
    gains.emplace(stream, gain);
  }
  NormedRows view() const { return {{on_device->view(), columns}, gains->read_view(), kEpsilon}; }

  uint32_t columns;
  std::vector<float> gain;
  std::vector<float> values;
  Ready ready;
  std::optional<DeviceArray<float>> on_device;
  std::optional<DeviceArray<float>> gains;
};

void check_normed_products(const TestStream& stream, TensorType type, uint32_t num_outputs,
                           const RandomNorms& rows, uint32_t num_rows, std::mt19937& rng) {
  const RandomMatrix matrix(stream, type, num_outputs, rows.columns, rng);
  const RandomMatrix gate(stream, type, num_outputs, rows.columns, rng);
  const std::vector<float> biases = random_floats(num_outputs, rng);
  std::vector<float> products;
  std::vector<float> wanted;
  std::vector<float> gated;
  for (uint32_t row = 0; row < num_rows; ++row) {
    for (uint32_t i = 0; i < num_outputs; ++i) {
      products.push_back(reference::product(type, matrix.row(i), rows.ready, row));
      wanted.push_back(num_rows == 2 ? products.back() + biases[i] : products.back());
      gated.push_back(reference::silu(reference::product(type, gate.row(i), rows.ready, row)) *
                      products.back());
    }
  }
  const DeviceArray<float> bias(stream, biases);
  const DeviceArray<float> out(stream, products.size());
  require_success(multiply(matrix.on_device(), rows.view(), num_rows, bias.read_view(), num_rows == 2,
                           {out.view(), num_outputs}, stream));
  REQUIRE(bits_of(out.values()) == bits_of(wanted));
  const DeviceReady ready(stream, num_outputs, num_rows);
  require_success(gated_multiply(gate.on_device(), matrix.on_device(), Nonlinearity::kSilu, rows.view(),
                                 num_rows, ready.view(), stream));
  REQUIRE(ready.is(reference::ready(gated, num_outputs)));
}

TEST_CASE("products of norms: every quantised type has the bits of a norm and a product after it") {
  const TestStream stream;
  load_products();
  const uint64_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 rng(static_cast<std::mt19937::result_type>(seed));
  for (const TensorType type : tensor_types()) {
    if (!is_quantised(type)) continue;
    // Less than a segment, which leaves warps without values of a row; a short last segment.
    for (const uint32_t size : {96u, 800u}) {
      for (const uint32_t num_rows : {1u, 2u}) {
        CAPTURE(type_name(type));
        CAPTURE(size);
        CAPTURE(num_rows);
        const RandomNorms rows(stream, num_rows, whole_blocks(type, size), rng);
        check_normed_products(stream, type, 2 * 32 + 5, rows, num_rows, rng);
      }
    }
  }
}

TEST_CASE("products of norms: rows of any width, and any number of tiles") {
  const TestStream stream;
  load_products();
  const uint64_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 rng(static_cast<std::mt19937::result_type>(seed));
  for (const uint32_t num_tiles : {1u, 9u}) {
    for (const uint32_t columns : {32u, 576u, 1952u, kMostNormedColumns}) {
      for (const uint32_t num_rows : {1u, 2u}) {
        CAPTURE(num_tiles);
        CAPTURE(columns);
        CAPTURE(num_rows);
        const RandomNorms rows(stream, num_rows, columns, rng);
        check_normed_products(stream, TensorType::kQ4_1, num_tiles * 32 - 5, rows, num_rows, rng);
      }
    }
  }
}

TEST_CASE("products of norms: a NaN and an infinity make every product a NaN") {
  const TestStream stream;
  load_products();
  std::mt19937 rng(41);
  for (const float value :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    const RandomNorms rows(stream, 1, 320, rng, &value);
    const RandomMatrix matrix(stream, TensorType::kQ4_0, 32, 320, rng);
    const DeviceArray<float> out(stream, 32);
    require_success(
        multiply(matrix.on_device(), rows.view(), 1, {nullptr, 0}, false, {out.view(), 32}, stream));
    for (const float product : out.values()) REQUIRE(std::isnan(product));
  }
}

TEST_CASE("products of norms: those that no kernel computes are refused") {
  CHECK(computes_norms(TensorType::kQ4_0, kMostNormedColumns, kMostNormedRows));
  CHECK_FALSE(computes_norms(TensorType::kQ4_0, kMostNormedColumns + 32, 1));
  CHECK_FALSE(computes_norms(TensorType::kQ4_0, 64, kMostNormedRows + 1));
  CHECK_FALSE(computes_norms(TensorType::kBF16, 64, 1));
  const TestStream stream;
  std::mt19937 rng(42);
  const RandomNorms rows(stream, 3, 64, rng);
  const RandomMatrix matrix(stream, TensorType::kQ4_0, 32, 64, rng);
  const RandomMatrix floats(stream, TensorType::kF16, 32, 64, rng);
  const RandomMatrix other(stream, TensorType::kQ8_0, 32, 64, rng);
  const DeviceArray<float> out(stream, size_t{3} * 32);
  const DeviceReady ready(stream, 32, 3);
  const auto multiplied = [&](const RandomMatrix& by, uint32_t num_rows) {
    return multiply(by.on_device(), rows.view(), num_rows, {nullptr, 0}, false, {out.view(), 32}, stream);
  };
  CHECK(multiplied(matrix, 3) == cudaErrorInvalidValue);
  CHECK(multiplied(floats, 1) == cudaErrorInvalidValue);
  CHECK(gated_multiply(matrix.on_device(), other.on_device(), Nonlinearity::kSilu, rows.view(), 1,
                       ready.view(), stream) == cudaErrorInvalidValue);
}

}  // namespace
}  // namespace runnel

// Products of random matrices on the device, and what they must be.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "cuda-runner/kernels/product.h"
#include "test/cuda-runner/device_matrix.h"
#include "test/cuda-runner/device_ready.h"
#include "test/cuda-runner/on_device.h"
#include "test/fixtures/product_reference.h"
#include "test/fixtures/random_floats.h"
#include "test/unit_test.h"

namespace runnel::test {

inline std::vector<float> random_rows(uint32_t num_rows, uint32_t width, std::mt19937& rng) {
  std::vector<float> rows = random_floats(size_t{num_rows} * width, rng);
  // The scale of a block of zeros is 0.
  if (rows.size() > 64) std::fill(rows.begin() + 32, rows.begin() + 64, 0.0f);
  return rows;
}

// Kernels with much shared memory must be loaded before they are launched.
inline void load_products() {
  for (const TensorType type : tensor_types()) {
    require_success(load_multiply(type));
    require_success(load_gated_multiply(type));
  }
}

// A product, with a bias and what it is added to, and a gated one: y and silu(gate in) y.
inline void check_float_products(const TestStream& stream, TensorType type, uint32_t num_outputs,
                                 uint32_t columns, uint32_t num_rows, std::span<const ProductForm> forms,
                                 std::mt19937& rng) {
  CAPTURE(type_name(type));
  CAPTURE(num_outputs);
  CAPTURE(columns);
  CAPTURE(num_rows);
  const RandomMatrix matrix(stream, type, num_outputs, columns, rng);
  const RandomMatrix gate(stream, type, num_outputs, columns, rng);
  const reference::Ready x = reference::ready(random_rows(num_rows, columns, rng), columns);
  const DeviceReady in(stream, x);
  const uint32_t stride = num_outputs + 9;
  constexpr uint32_t kFirst = 7;
  const std::vector<float> before = random_floats(size_t{num_rows} * stride, rng);
  const std::vector<float> biases = random_floats(stride, rng);
  const DeviceArray<float> bias(stream, biases);
  std::vector<float> wanted = before;
  std::vector<float> gated;
  for (uint32_t row = 0; row < num_rows; ++row) {
    for (uint32_t i = 0; i < num_outputs; ++i) {
      const float y = reference::product(type, matrix.row(i), x, row);
      float& at = wanted[row * stride + kFirst + i];
      at = (y + biases[kFirst + i]) + at;
      gated.push_back(reference::silu(reference::product(type, gate.row(i), x, row)) * y);
    }
  }
  const reference::Ready wanted_ready = reference::ready(gated, num_outputs);
  for (const ProductForm form : forms) {
    CAPTURE(static_cast<int>(form));
    const DeviceArray<float> out(stream, before);
    require_success(multiply(matrix.on_device(), in.view(), num_rows, bias.read_view(), true, Epilogue::kAdd,
                             {out.view(), stride}, kFirst, stream, form));
    REQUIRE(bits_of(out.values()) == bits_of(wanted));
    const DeviceReady ready(stream, num_outputs, num_rows);
    require_success(gated_multiply(gate.on_device(), matrix.on_device(), Nonlinearity::kSilu, in.view(),
                                   num_rows, ready.view(), stream, form));
    REQUIRE(ready.is(wanted_ready));
  }
}

}  // namespace runnel::test

// Products, and the rows that they read, have the bits of docs/numerics.md with each table of kernels.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <iterator>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "cpu-runner/matrix/activation.h"
#include "cpu-runner/matrix/matrix.h"
#include "runner/backend/activation_type.h"
#include "test/cpu-runner/kernel_tables.h"
#include "test/fixtures/gguf_writer.h"
#include "test/fixtures/product_reference.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

using namespace test;

// All NaNs count as equal, because their bits depend on the processor.
bool same_number(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) || (std::isnan(a) && std::isnan(b));
}

Activation ready_rows(const Kernels& kernels, ActivationType type, std::span<const float> rows,
                      uint32_t width) {
  const auto num_rows = static_cast<uint32_t>(rows.size() / width);
  const auto make_ready = type == ActivationType::kI8 ? kernels.make_ready_i8 : kernels.make_ready_f32;
  Activation activation(num_rows, width);
  for (uint32_t row = 0; row < num_rows; ++row) {
    std::ranges::copy(rows.subspan(row * width, width), activation.row(row));
    make_ready(activation.row(row), kBlockColumns, (width + kBlockColumns - 1) / kBlockColumns,
               activation.block(row, 0), kPanelRows);
  }
  return activation;
}

// A matrix as in a file, and its tiles.
class Weights {
 public:
  Weights(TensorType type, uint32_t rows, uint32_t columns, std::string data)
      : type_(type), rows_(rows), data_(std::move(data)) {
    const TensorView tensor{"t", type, 2, {columns, rows, 1, 1}, std::as_bytes(std::span(data_))};
    const auto threads = ThreadPool::create(1);
    tiles_ = *TiledMatrix::from_tensor(tensor, arena_, **threads);
  }

  uint32_t rows() const { return rows_; }
  TensorType type() const { return type_; }
  std::span<const std::byte> row(uint32_t index) const {
    const size_t row_bytes = data_.size() / rows_;
    return std::as_bytes(std::span(data_)).subspan(index * row_bytes, row_bytes);
  }
  // The products (num_rows of x, rows) by these kernels, of the rows of x from the first on.
  std::vector<float> times(const Kernels& kernels, ActivationType type, std::span<const float> x,
                           uint32_t first = 0) const {
    const uint32_t width = tiles_.columns();
    const auto num_columns = static_cast<uint32_t>(x.size() / width) - first;
    const auto multiply = type == ActivationType::kI8 ? kernels.multiply_i8 : kernels.multiply_f32;
    const Activation activation = ready_rows(kernels, type, x, width);
    const size_t stride = tiles_.num_tiles() * kTileRows;
    std::vector<float> out(num_columns * stride, std::numeric_limits<float>::quiet_NaN());
    for (uint32_t tile = 0; tile < tiles_.num_tiles(); ++tile)
      multiply(tiles_.weights(), tile, activation.columns(first, num_columns, /*node=*/0),
               out.data() + tile * kTileRows, stride);
    std::vector<float> rows;
    for (uint32_t column = 0; column < num_columns; ++column)
      rows.insert(rows.end(), out.begin() + column * stride, out.begin() + column * stride + rows_);
    return rows;
  }

 private:
  TensorType type_;
  uint32_t rows_;
  std::string data_;
  WeightArena arena_;
  TiledMatrix tiles_;
};

std::vector<float> reference_products(const Weights& weights, ActivationType type, std::span<const float> x,
                                      uint32_t width) {
  const reference::Ready ready = reference::ready(x, width);
  const auto product = type == ActivationType::kI8 ? reference::product : reference::f32_product;
  std::vector<float> out;
  for (size_t column = 0; column < x.size() / width; ++column) {
    for (uint32_t row = 0; row < weights.rows(); ++row)
      out.push_back(product(weights.type(), weights.row(row), ready, column));
  }
  return out;
}

void require_same(const Weights& weights, std::span<const float> x, uint32_t width) {
  for (const ActivationType activations : {ActivationType::kI8, ActivationType::kF32}) {
    const std::vector<float> wanted = reference_products(weights, activations, x, width);
    for (const Kernels* kernels : kernel_tables()) {
      CAPTURE(kernels->name);
      CAPTURE(type_name(weights.type()));
      CAPTURE(activation_type_name(activations));
      CAPTURE(width);
      CAPTURE(x.size() / width);
      const std::vector<float> products = weights.times(*kernels, activations, x);
      REQUIRE(std::ranges::equal(products, wanted, same_number));
    }
  }
}

TEST_CASE("products of every type, by every table, of 1 to 512 columns have the bits of the reference") {
  const uint64_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 rng(static_cast<std::mt19937::result_type>(seed));
  for (const TensorType type : tensor_types()) {
    constexpr uint32_t kRows = 32 + 5;               // one full tile and one that is not full
    const uint32_t width = whole_blocks(type, 320);  // one full segment and one that is not full
    const Weights weights(type, kRows, width, random_weights(type, uint64_t{kRows} * width, 0.3f, rng));
    for (const uint32_t num_columns : {1u, 2u, 3u, 4u, 5u, 6u, 7u, 8u, 9u, 13u, 16u, 31u, 48u, 65u})
      require_same(weights, random_floats(size_t{num_columns} * width, rng), width);
  }
  const Weights few(TensorType::kQ4_1, 3, 64, random_weights(TensorType::kQ4_1, 3 * 64, 0.3f, rng));
  for (const uint32_t num_columns : {100u, 255u, 256u, 511u, 512u})
    require_same(few, random_floats(size_t{num_columns} * 64, rng), 64);
}

TEST_CASE(
    "products of rows of any length, of floats also no multiple of a block, have the bits of the reference") {
  const uint64_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 rng(static_cast<std::mt19937::result_type>(seed));
  for (const TensorType type : tensor_types()) {
    std::vector<uint32_t> widths = {32, 64, 224, 256, 288, 512, 576, 1536};
    if (!is_quantised(type)) widths.insert(widths.end(), {1u, 31u, 33u, 75u, 255u, 257u, 511u, 513u});
    for (const uint32_t size : widths) {
      const uint32_t width = whole_blocks(type, size);
      const uint32_t rows = 1 + rng() % 70;
      CAPTURE(rows);
      const Weights weights(type, rows, width, random_weights(type, uint64_t{rows} * width, 0.3f, rng));
      for (const uint32_t num_columns : {1u, 2u, 6u})
        require_same(weights, random_floats(size_t{num_columns} * width, rng), width);
    }
  }
}

TEST_CASE("products of rows that begin anywhere in a panel have the bits of the reference") {
  const uint64_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 rng(static_cast<std::mt19937::result_type>(seed));
  constexpr uint32_t kWidth = 288;
  constexpr uint32_t kNumRows = 2 * kPanelRows + 3;
  const std::vector<float> x = random_floats(size_t{kNumRows} * kWidth, rng);
  for (const TensorType type : {TensorType::kF32, TensorType::kQ4_1, TensorType::kQ8_0}) {
    CAPTURE(type_name(type));
    const Weights weights(type, 3, kWidth, random_weights(type, 3 * kWidth, 0.3f, rng));
    for (const ActivationType activations : {ActivationType::kI8, ActivationType::kF32}) {
      const std::vector<float> wanted = reference_products(weights, activations, x, kWidth);
      for (const Kernels* kernels : kernel_tables()) {
        CAPTURE(kernels->name);
        for (uint32_t first = 0; first < kNumRows; ++first) {
          CAPTURE(first);
          REQUIRE(std::ranges::equal(weights.times(*kernels, activations, x, first),
                                     std::span(wanted).subspan(size_t{first} * weights.rows()), same_number));
        }
      }
    }
  }
}

std::vector<TensorType> quantised_types() {
  std::vector<TensorType> types;
  std::ranges::copy_if(tensor_types(), std::back_inserter(types), is_quantised);
  return types;
}

// Equal blocks. All bytes of a block are `byte`, except its scale and minimum.
std::string blocks_of(TensorType type, size_t num_weights, uint8_t byte, float scale, float minimum) {
  std::string block(block_bytes(type), static_cast<char>(byte));
  set_halves(type, scale, minimum, std::as_writable_bytes(std::span(block)));
  std::string out;
  for (size_t i = 0; i < num_weights / block_weights(type); ++i) out += block;
  return out;
}

TEST_CASE("the largest sums that whole numbers can have are exact") {
  constexpr uint32_t kRows = 33;
  for (const TensorType type : quantised_types()) {
    const uint32_t width = whole_blocks(type, 288);
    // In each block all quants are 127, or all are -127, or both in several patterns.
    std::vector<float> x;
    for (uint32_t k = 0; k < width; ++k) x.push_back(1.0f);
    for (uint32_t k = 0; k < width; ++k) x.push_back(-1.0f);
    for (uint32_t k = 0; k < width; ++k) x.push_back(k % 2 == 0 ? 1.0f : -1.0f);
    for (uint32_t k = 0; k < width; ++k) x.push_back(k % 4 < 2 ? -3.0f : 3.0f);
    for (uint32_t k = 0; k < width; ++k) x.push_back(k % 32 < 16 ? -1.0f : 1.0f);
    for (const uint8_t byte : {0x00, 0xff, 0x0f, 0xf0, 0x80, 0x7f, 0x81, 0x08, 0x55, 0xaa, 0x3f}) {
      CAPTURE(static_cast<int>(byte));
      const Weights weights(type, kRows, width, blocks_of(type, kRows * width, byte, 0.5f, -2.0f));
      require_same(weights, x, width);
    }
  }
}

TEST_CASE("weights and activations without a scale, or with an infinite one, give the reference's numbers") {
  constexpr uint32_t kRows = 4;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const TensorType type : quantised_types()) {
    const uint32_t width = whole_blocks(type, 64);
    std::vector<float> x(4 * width, 0.25f);
    std::fill_n(x.begin(), 32, 0.0f);                   // d is 0
    x[width + 5] = 3e38f;                               // d is near the largest float
    x[2 * width + 40] = -kInfinity;                     // d is infinite
    std::fill_n(x.begin() + 3 * width, width, 1e-44f);  // d is 0 although the values are not, or is subnormal
    x[3 * width + 40] = 2.7e-43f;
    for (const float scale : {0.0f, -0.0f, 1.0f, 65504.0f, kInfinity, -kInfinity}) {
      for (const float minimum : {0.0f, kInfinity}) {
        CAPTURE(scale);
        CAPTURE(minimum);
        const Weights weights(type, kRows, width, blocks_of(type, kRows * width, 0x93, scale, minimum));
        require_same(weights, x, width);
      }
    }
  }
}

TEST_CASE("a row that is ready has the reference's quants, scales and sums, at every length") {
  const uint64_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 rng(static_cast<std::mt19937::result_type>(seed));
  std::vector<uint32_t> widths = {576, 1536};
  for (uint32_t width = 1; width <= 100; ++width) widths.push_back(width);
  for (const uint32_t width : widths) {
    // Some values are half way between two quants, and some rows are subnormal.
    std::vector<float> x = random_floats(width, rng, width % 7 == 0 ? 1e-42f : 1.0f);
    if (width > 40) {
      x[0] = 127.0f;
      for (uint32_t i = 1; i < 32; ++i) x[i] = static_cast<float>(i * 3 % 127) + (i % 2 == 0 ? 0.5f : -0.5f);
    }
    const reference::Ready wanted = reference::ready(x, width);
    for (const Kernels* kernels : kernel_tables()) {
      CAPTURE(kernels->name);
      CAPTURE(width);
      const Activation activation = ready_rows(*kernels, ActivationType::kI8, x, width);
      REQUIRE(activation.stride() == wanted.stride);
      for (size_t i = 0; i < wanted.scales.size(); ++i) {
        const ReadyBlock& block = *activation.block(0, static_cast<uint32_t>(i * kBlockColumns));
        REQUIRE(std::ranges::equal(block.quants,
                                   std::span(wanted.quants).subspan(i * kBlockColumns, kBlockColumns)));
        REQUIRE(same_number(block.scale, wanted.scales[i]));
        REQUIRE(block.quant_sum == wanted.sums[i]);
        REQUIRE(block.half_sums == wanted.half_sums[i]);
        REQUIRE(same_number(block.sum, wanted.scales[i] * static_cast<float>(wanted.sums[i])));
      }
    }
  }
}

TEST_CASE("a NaN activation has a NaN scale and a NaN product") {
  std::vector<float> x(64, 1.0f);
  x[40] = std::numeric_limits<float>::quiet_NaN();
  const Weights weights(TensorType::kQ8_0, 1, 64, blocks_of(TensorType::kQ8_0, 64, 0x11, 1.0f, 0.0f));
  for (const Kernels* kernels : kernel_tables()) {
    CAPTURE(kernels->name);
    const Activation activation = ready_rows(*kernels, ActivationType::kI8, x, 64);
    CHECK(activation.block(0, 0)->scale == 1.0f / 127.0f);
    CHECK(std::isnan(activation.block(0, 32)->scale));
    for (const int8_t quant : activation.block(0, 32)->quants) CHECK(quant == 0);
    CHECK(std::isnan(weights.times(*kernels, ActivationType::kI8, x)[0]));
  }
}

}  // namespace
}  // namespace runnel

// Products: they have the bits of the formulas in scalar code for every type and any number of rows.
#include "cuda-runner/kernels/product.h"

#include <random>
#include <vector>

#include "test/cuda-runner/float_products.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

using namespace test;
using reference::Ready;

TEST_CASE("products of every type, for any number of rows, have the bits of the reference") {
  const TestStream stream;
  load_products();
  std::mt19937 rng(21);
  for (const TensorType type : tensor_types()) {
    // Less than a segment; more segments than warps, of which the last is short; for floats a short last
    // piece.
    for (const uint32_t size : {32u, 2400u, block_weights(type) == 1 ? 75u : 96u}) {
      const uint32_t columns = whole_blocks(type, size);
      constexpr uint32_t kRows = 32 + 5;
      const RandomMatrix matrix(stream, type, kRows, columns, rng);
      for (const uint32_t num_rows : {1u, 2u, 3u, 8u, 9u, 31u, 70u}) {
        if (columns > 1000 && num_rows > 9) continue;
        CAPTURE(type_name(type));
        CAPTURE(columns);
        CAPTURE(num_rows);
        const Ready x = reference::ready(random_rows(num_rows, columns, rng), columns);
        const DeviceReady in(stream, x);
        constexpr uint32_t kStride = 64;
        constexpr uint32_t kFirst = 7;
        std::vector<float> before = random_floats(size_t{num_rows} * kStride, rng);
        const std::vector<float> biases = random_floats(kStride, rng);
        const DeviceArray<float> bias(stream, biases);
        const bool has_bias = num_rows % 2 == 0;
        const Epilogue epilogue = num_rows > 2 ? Epilogue::kAdd : Epilogue::kReplace;
        const DeviceArray<float> out(stream, before);
        require_success(multiply(matrix.on_device(), in.view(), num_rows, bias.read_view(), has_bias,
                                 epilogue, {out.view(), kStride}, kFirst, stream));
        for (uint32_t row = 0; row < num_rows; ++row) {
          for (uint32_t i = 0; i < kRows; ++i) {
            float y = reference::product(type, matrix.row(i), x, row);
            if (has_bias) y = y + biases[kFirst + i];
            float& at = before[row * kStride + kFirst + i];
            at = epilogue == Epilogue::kAdd ? y + at : y;
          }
        }
        REQUIRE(bits_of(out.values()) == bits_of(before));
      }
    }
  }
}

TEST_CASE("the forms of a product have the same bits, whatever is short: tiles, rows, segments") {
  const TestStream stream;
  load_products();
  std::mt19937 rng(25);
  for (const TensorType type : tensor_types()) {
    if (!is_quantised(type)) continue;
    // One segment; an odd number of blocks or segments, the last short; more segments than a round has,
    // which are the same for all types.
    for (const uint32_t size : {96u, 800u, 4704u}) {
      const bool is_seen = type == TensorType::kQ4_1 || type == TensorType::kQ2_K;
      if (size > 4000 && !is_seen) continue;
      const uint32_t columns = whole_blocks(type, size);
      // Less than the four tiles of a block, of which one is short.
      constexpr uint32_t kRows = 2 * 32 + 5;
      const RandomMatrix matrix(stream, type, kRows, columns, rng);
      const RandomMatrix gate(stream, type, kRows, columns, rng);
      const uint32_t num_rows = size < 4000 ? 67 : 5;
      CAPTURE(type_name(type));
      CAPTURE(columns);
      const Ready x = reference::ready(random_rows(num_rows, columns, rng), columns);
      const DeviceReady in(stream, x);
      std::vector<float> wanted;
      std::vector<float> gated;
      for (uint32_t row = 0; row < num_rows; ++row) {
        for (uint32_t i = 0; i < kRows; ++i) {
          wanted.push_back(reference::product(type, matrix.row(i), x, row));
          gated.push_back(reference::silu(reference::product(type, gate.row(i), x, row)) * wanted.back());
        }
      }
      const Ready wanted_ready = reference::ready(gated, kRows);
      for (const ProductForm form : {ProductForm::kSegments, ProductForm::kTiles, ProductForm::kNarrowTiles,
                                     ProductForm::kSplitTiles}) {
        CAPTURE(static_cast<int>(form));
        const DeviceArray<float> out(stream, size_t{num_rows} * kRows);
        require_success(multiply(matrix.on_device(), in.view(), num_rows, {}, false, Epilogue::kReplace,
                                 {out.view(), kRows}, 0, stream, form));
        REQUIRE(bits_of(out.values()) == bits_of(wanted));
        const DeviceReady ready(stream, kRows, num_rows);
        require_success(gated_multiply(gate.on_device(), matrix.on_device(), Nonlinearity::kSilu, in.view(),
                                       num_rows, ready.view(), stream, form));
        REQUIRE(ready.is(wanted_ready));
      }
    }
  }
}

TEST_CASE("products of one and two rows have the same bits in blocks of as many warps as the segments need") {
  const TestStream stream;
  load_products();
  std::mt19937 rng(30);
  for (const TensorType type : {TensorType::kQ4_0, TensorType::kQ8_0, TensorType::kQ2_K}) {
    // 19 segments are two rounds of 10 warps, the last short; a single one leaves a warp without. A device of
    // 4 multiprocessors has a block of 16 warps on each, two, and many small ones.
    for (const auto& [size, num_tiles] : {std::pair{4704u, 3u}, {4704u, 7u}, {4704u, 9u}, {96u, 3u}}) {
      const uint32_t columns = whole_blocks(type, size);
      const uint32_t num_outputs = num_tiles * 32 - 5;
      const RandomMatrix matrix(stream, type, num_outputs, columns, rng);
      for (const uint32_t num_rows : {1u, 2u}) {
        CAPTURE(type_name(type));
        CAPTURE(num_tiles);
        CAPTURE(num_rows);
        const Ready x = reference::ready(random_rows(num_rows, columns, rng), columns);
        const DeviceReady in(stream, x);
        std::vector<float> wanted;
        for (uint32_t row = 0; row < num_rows; ++row)
          for (uint32_t i = 0; i < num_outputs; ++i)
            wanted.push_back(reference::product(type, matrix.row(i), x, row));
        const DeviceArray<float> out(stream, size_t{num_rows} * num_outputs);
        require_success(multiply(matrix.on_device(), in.view(), num_rows, {}, false, Epilogue::kReplace,
                                 {out.view(), num_outputs}, 0, stream));
        REQUIRE(bits_of(out.values()) == bits_of(wanted));
      }
    }
  }
}

constexpr ProductForm kForms[] = {ProductForm::kSegments, ProductForm::kTiles, ProductForm::kNarrowTiles,
                                  ProductForm::kSplitTiles};

TEST_CASE("products of floats by tiles have the same bits for any number of rows") {
  const TestStream stream;
  load_products();
  std::mt19937 rng(26);
  for (const TensorType type : {TensorType::kF32, TensorType::kF16, TensorType::kBF16}) {
    // A short last piece, stage and tile.
    for (const uint32_t num_rows : {1u, 9u, 16u, 17u, 32u, 33u, 64u, 65u, 128u, 129u, 200u})
      check_float_products(stream, type, 32 + 5, 75, num_rows, kForms, rng);
  }
}

TEST_CASE("products of floats by tiles add the sums of segments in order") {
  const TestStream stream;
  load_products();
  std::mt19937 rng(27);
  for (const TensorType type : {TensorType::kF32, TensorType::kF16, TensorType::kBF16}) {
    // Fewer segments than a block has groups; more than four and than eight groups have at a time, the last
    // one short. Less than the four tiles of a block, of which one is short.
    for (const uint32_t columns : {600u, 1049u, 2310u})
      for (const uint32_t num_rows : {12u, 19u})
        check_float_products(stream, type, 2 * 32 + 5, columns, num_rows, kForms, rng);
  }
}

TEST_CASE("products of floats have the same bits with a block for each tile, and for each two") {
  const TestStream stream;
  load_products();
  std::mt19937 rng(28);
  constexpr ProductForm kBest[] = {ProductForm::kBest};
  // 100 tiles keep a device of 132 multiprocessors busy with a block each, 200 with a block for each two, and
  // the others with two such blocks a multiprocessor.
  for (const uint32_t num_tiles : {100u, 200u})
    for (const uint32_t num_rows : {12u, 19u})
      check_float_products(stream, TensorType::kBF16, num_tiles * 32 - 3, 40, num_rows, kBest, rng);
  for (const uint32_t num_tiles : {150u, 300u})
    check_float_products(stream, TensorType::kBF16, num_tiles * 32 - 3, 40, 24, kBest, rng);
  // Few tiles, and enough rows for blocks of 8 and of 16 rows.
  for (const uint32_t num_rows : {40u, 40u * 16})
    check_float_products(stream, TensorType::kF16, 3 * 32, 40, num_rows, kBest, rng);
}

TEST_CASE("gated products of all pairs of types are ready for a product, bit for bit") {
  const TestStream stream;
  load_products();
  std::mt19937 rng(22);
  constexpr uint32_t kWidth = 32 + 13;
  for (const TensorType gate_type : tensor_types()) {
    const uint32_t columns = whole_blocks(gate_type, 320);
    for (const TensorType up_type : {gate_type, TensorType::kQ8_0}) {
      const RandomMatrix gate(stream, gate_type, kWidth, columns, rng);
      const RandomMatrix up(stream, up_type, kWidth, columns, rng);
      for (const uint32_t num_rows : {1u, 4u, 11u}) {
        CAPTURE(type_name(gate_type));
        CAPTURE(type_name(up_type));
        CAPTURE(num_rows);
        const Ready x = reference::ready(random_rows(num_rows, columns, rng), columns);
        const DeviceReady in(stream, x);
        const DeviceReady out(stream, kWidth, num_rows);
        const bool is_silu = num_rows != 4;
        const Nonlinearity nonlinearity = is_silu ? Nonlinearity::kSilu : Nonlinearity::kGelu;
        require_success(gated_multiply(gate.on_device(), up.on_device(), nonlinearity, in.view(), num_rows,
                                       out.view(), stream));
        std::vector<float> rows;
        for (uint32_t row = 0; row < num_rows; ++row) {
          for (uint32_t i = 0; i < kWidth; ++i)
            rows.push_back((is_silu ? reference::silu
                                    : reference::gelu)(reference::product(gate_type, gate.row(i), x, row)) *
                           reference::product(up_type, up.row(i), x, row));
        }
        const Ready wanted = reference::ready(rows, kWidth);
        REQUIRE(out.is(wanted));
      }
    }
  }
}

TEST_CASE("without a gate the product with its bias is what goes through the nonlinearity") {
  const TestStream stream;
  load_products();
  std::mt19937 rng(24);
  constexpr uint32_t kWidth = 32 + 13;
  for (const TensorType type : tensor_types()) {
    const uint32_t columns = whole_blocks(type, 96);
    const RandomMatrix up(stream, type, kWidth, columns, rng);
    const std::vector<float> bias = random_rows(1, kWidth, rng);
    const DeviceArray<float> biases(stream, bias);
    for (const uint32_t num_rows : {1u, 11u}) {
      CAPTURE(type_name(type));
      const Ready x = reference::ready(random_rows(num_rows, columns, rng), columns);
      const DeviceReady in(stream, x);
      const DeviceReady out(stream, kWidth, num_rows);
      require_success(activated_multiply(up.on_device(), biases.read_view(), true, Nonlinearity::kGelu,
                                         in.view(), num_rows, out.view(), stream));
      std::vector<float> rows;
      for (uint32_t row = 0; row < num_rows; ++row) {
        for (uint32_t i = 0; i < kWidth; ++i)
          rows.push_back(reference::gelu(reference::product(type, up.row(i), x, row) + bias[i]));
      }
      REQUIRE(out.is(reference::ready(rows, kWidth)));
    }
  }
}

TEST_CASE("a NaN or infinite value makes its block's scale and every product NaN") {
  const TestStream stream;
  load_products();
  std::mt19937 rng(23);
  constexpr uint32_t kColumns = 64;
  const RandomMatrix gate(stream, TensorType::kF32, 32, kColumns, rng);
  const RandomMatrix matrix(stream, TensorType::kQ4_0, 32, 32, rng);
  for (const float bad : {std::nanf(""), INFINITY}) {
    std::vector<float> row(kColumns, 1.0f);
    row[5] = bad;
    Ready x = reference::ready(row, kColumns);
    const DeviceReady in(stream, x);
    const DeviceReady gated(stream, 32, 1);
    require_success(gated_multiply(gate.on_device(), gate.on_device(), Nonlinearity::kSilu, in.view(), 1,
                                   gated.view(), stream));
    const DeviceArray<float> out(stream, 32);
    require_success(multiply(matrix.on_device(), gated.view(), 1, out.read_view(), false, Epilogue::kReplace,
                             {out.view(), 32}, 0, stream));
    for (const float y : out.values()) CHECK(!std::isfinite(y));
  }
}

}  // namespace
}  // namespace runnel

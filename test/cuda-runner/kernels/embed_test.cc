#include "cuda-runner/kernels/embed.h"

#include <random>
#include <vector>

#include "runner/formats/dequantize.h"
#include "test/cuda-runner/device_matrix.h"
#include "test/cuda-runner/device_ready.h"
#include "test/cuda-runner/on_device.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

using namespace test;

TEST_CASE("embed: rows of every type are those of the file, as floats") {
  const TestStream stream;
  std::mt19937 rng(32);
  for (const TensorType type : tensor_types()) {
    // 288 is more than a block of threads; 75, for floats, ends with a short piece.
    for (const uint32_t size : {32u, 288u, block_weights(type) == 1 ? 75u : 96u}) {
      const uint32_t columns = whole_blocks(type, size);
      constexpr uint32_t kRows = 70;
      CAPTURE(type_name(type));
      CAPTURE(columns);
      const RandomMatrix table(stream, type, kRows, columns, rng);
      const std::vector<uint32_t> ids = {0, 69, 31, 32, 5, 5};
      const DeviceArray<uint32_t> token_ids(stream, ids);
      const uint32_t stride = columns + 3;
      std::vector<float> wanted(ids.size() * stride, 7.0f);
      const DeviceArray<float> out(stream, wanted);
      const auto num_rows = static_cast<uint32_t>(ids.size());
      require_success(embed({.tokens = table.on_device()}, token_ids.read_view(), {}, num_rows,
                            {out.view(), stride}, stream));
      for (size_t i = 0; i < ids.size(); ++i)
        dequantize_row(type, table.row(ids[i]), std::span(wanted).subspan(i * stride, columns));
      REQUIRE(bits_of(out.values()) == bits_of(wanted));

      const std::vector<uint32_t> places = {1, 0, 69, 7, 7, 33};
      const DeviceArray<uint32_t> positions(stream, places);
      constexpr float kScale = 5.7f;
      require_success(embed({table.on_device(), kScale, true, table.on_device()}, token_ids.read_view(),
                            positions.read_view(), num_rows, {out.view(), stride}, stream));
      std::vector<float> of_position(columns);
      for (size_t i = 0; i < ids.size(); ++i) {
        dequantize_row(type, table.row(places[i]), of_position);
        for (uint32_t column = 0; column < columns; ++column) {
          float& value = wanted[i * stride + column];
          value = value * kScale + of_position[column];
        }
      }
      REQUIRE(bits_of(out.values()) == bits_of(wanted));
    }
  }
}

TEST_CASE("embed: a part of the table gives the rows of its tokens, and others are taken from elsewhere") {
  const TestStream stream;
  std::mt19937 rng(33);
  constexpr uint32_t kFirst = 40;
  constexpr uint32_t kRows = 30;
  constexpr uint32_t kColumns = 288;
  const RandomMatrix table(stream, TensorType::kQ8_0, kRows, kColumns, rng);
  const std::vector<uint32_t> ids = {0, 39, 40, 55, 69, 70, 4'000'000'000};
  const std::vector<bool> is_there = {false, false, true, true, true, false, false};
  const auto num_rows = static_cast<uint32_t>(ids.size());
  const DeviceArray<uint32_t> token_ids(stream, ids);
  std::vector<float> wanted(ids.size() * kColumns, 7.0f);
  const DeviceArray<float> out(stream, wanted);
  require_success(embed({.tokens = table.on_device(), .first_token = kFirst}, token_ids.read_view(), {},
                        num_rows, {out.view(), kColumns}, stream));
  for (size_t i = 0; i < ids.size(); ++i) {
    if (is_there[i])
      dequantize_row(TensorType::kQ8_0, table.row(ids[i] - kFirst),
                     std::span(wanted).subspan(i * kColumns, kColumns));
  }
  REQUIRE(bits_of(out.values()) == bits_of(wanted));

  constexpr uint32_t kWidth = 260;
  const DeviceArray<float> taken(stream, std::vector<float>(ids.size() * kColumns, 9.0f));
  require_success(take_rows_of(kFirst, kRows, token_ids.read_view(), {out.view(), kColumns}, num_rows, kWidth,
                               {taken.view(), kColumns}, stream));
  for (size_t i = 0; i < wanted.size(); ++i)
    if (!is_there[i / kColumns] || i % kColumns >= kWidth) wanted[i] = 9.0f;
  REQUIRE(bits_of(taken.values()) == bits_of(wanted));
}

}  // namespace
}  // namespace runnel

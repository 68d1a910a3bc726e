#include "cuda-runner/kernels/norm.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <span>
#include <tuple>
#include <vector>

#include "test/cuda-runner/cpu_twin.h"
#include "test/cuda-runner/device_ready.h"
#include "test/cuda-runner/on_device.h"
#include "test/fixtures/product_reference.h"
#include "test/fixtures/random_floats.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

using namespace test;
using reference::Ready;

constexpr float kEpsilon = 1e-5f;

std::vector<float> row_of(const std::vector<float>& rows, uint32_t row, uint32_t width) {
  return {rows.begin() + row * width, rows.begin() + (row + 1) * width};
}

TEST_CASE("norm: rows of any width have the bits of the reference, ready for a product") {
  const TestStream stream;
  const uint64_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 rng(static_cast<std::mt19937::result_type>(seed));
  // A thread keeps 32 values of a row: those of rows of up to 8,192 columns.
  std::vector<uint32_t> widths = {1,    31,   32,   33,   255,  256,  257, 576,
                                  2048, 2049, 4100, 6200, 8192, 8193, 8740};
  for (int i = 0; i < 10; ++i) widths.push_back(1 + rng() % 700);
  for (const uint32_t width : widths) {
    constexpr uint32_t kRows = 3;
    CAPTURE(width);
    const std::vector<float> x = random_floats(size_t{kRows} * width, rng, 3.0f);
    const std::vector<float> gain = random_floats(width, rng);
    std::vector<float> wanted;
    for (uint32_t row = 0; row < kRows; ++row) {
      const std::vector<float> y = reference::norm(row_of(x, row, width), gain, kEpsilon);
      REQUIRE(y == cpu_norm(row_of(x, row, width), gain, kEpsilon));
      wanted.insert(wanted.end(), y.begin(), y.end());
    }
    const DeviceArray<float> in(stream, x);
    const DeviceArray<float> gains(stream, gain);
    const DeviceReady out(stream, width, kRows);
    require_success(
        norm({in.view(), width}, {}, false, kRows, {gains.read_view(), kEpsilon}, out.view(), stream));
    REQUIRE(out.is(reference::ready(wanted, width)));

    const std::vector<float> before = random_floats(x.size(), rng);
    std::vector<float> sums = before;
    for (size_t i = 0; i < sums.size(); ++i) sums[i] = wanted[i] + sums[i];
    const DeviceArray<float> added(stream, before);
    require_success(add_normed({in.view(), width}, kRows, width, {gains.read_view(), kEpsilon},
                               {added.view(), width}, stream));
    REQUIRE(bits_of(added.values()) == bits_of(sums));

    const std::vector<float> bias = random_floats(width, rng);
    const DeviceArray<float> biases(stream, bias);
    std::vector<float> centred;
    for (uint32_t row = 0; row < kRows; ++row) {
      const std::vector<float> y = reference::layer_norm(row_of(x, row, width), gain, bias, kEpsilon);
      centred.insert(centred.end(), y.begin(), y.end());
    }
    require_success(norm({in.view(), width}, {}, false, kRows,
                         {gains.read_view(), kEpsilon, true, biases.read_view()}, out.view(), stream));
    REQUIRE(out.is(reference::ready(centred, width)));
  }
}

TEST_CASE("norm: queries and keys are replaced by their norms, and other columns stay") {
  const TestStream stream;
  std::mt19937 rng(33);
  for (const auto& [queries, keys] : {std::pair(64u, 32u), {33u, 1u}, {5120u, 1024u}, {8740u, 8193u}}) {
    constexpr uint32_t kRows = 3;
    const uint32_t stride = queries + keys + 40;
    CAPTURE(queries);
    std::vector<float> wanted = random_floats(size_t{kRows} * stride, rng, 3.0f);
    const std::vector<float> gain = random_floats(queries, rng);
    const std::vector<float> other_gain = random_floats(keys, rng);
    const DeviceArray<float> rows(stream, wanted);
    const DeviceArray<float> gains(stream, gain);
    const DeviceArray<float> other_gains(stream, other_gain);
    for (uint32_t row = 0; row < kRows; ++row) {
      const std::span<float> columns = std::span(wanted).subspan(size_t{row} * stride, queries + keys);
      std::ranges::copy(reference::norm(columns.first(queries), gain, kEpsilon), columns.begin());
      const std::span<float> of_keys = columns.subspan(queries);
      std::ranges::copy(reference::norm(of_keys, other_gain, kEpsilon), of_keys.begin());
    }
    require_success(norm_columns({rows.view(), stride}, kRows, {0, queries, {gains.read_view(), kEpsilon}},
                                 {queries, keys, {other_gains.read_view(), kEpsilon}}, stream));
    REQUIRE(bits_of(rows.values()) == bits_of(wanted));
  }
}

TEST_CASE("norm: many rows, whose blocks write several parts, are as they are alone") {
  const TestStream stream;
  std::mt19937 rng(32);
  constexpr uint32_t kWidth = 1100;
  constexpr uint32_t kRows = 60;
  const DeviceArray<float> in(stream, random_floats(size_t{kRows} * kWidth, rng));
  const DeviceArray<float> gains(stream, random_floats(kWidth, rng));
  const DeviceNorm gain{gains.read_view(), kEpsilon};
  const DeviceReady all(stream, kWidth, kRows);
  const DeviceReady few(stream, kWidth, 2);
  const std::vector<float> before(size_t{kRows} * kWidth, 1.0f);
  const DeviceArray<float> all_added(stream, before);
  const DeviceArray<float> few_added(stream, before);
  for (const auto& [num_rows, out, added] : {std::tuple(kRows, &all, &all_added), {2, &few, &few_added}}) {
    require_success(norm({in.view(), kWidth}, {}, false, num_rows, gain, out->view(), stream));
    require_success(add_normed({in.view(), kWidth}, num_rows, kWidth, gain, {added->view(), kWidth}, stream));
  }
  const auto same = [&](const std::vector<float>& a, const std::vector<float>& b, size_t count) {
    return bits_of({a.begin(), a.begin() + count}) == bits_of({b.begin(), b.begin() + count});
  };
  CHECK(same(all.values.values(), few.values.values(), 2 * all.stride));
  CHECK(same(all_added.values(), few_added.values(), 2 * kWidth));
}

TEST_CASE("norm: chosen rows, in the order they are chosen, are as they are among all") {
  const TestStream stream;
  std::mt19937 rng(31);
  constexpr uint32_t kWidth = 300;
  constexpr uint32_t kStride = 320;
  const std::vector<float> x = random_floats(5 * kStride, rng);
  const std::vector<float> gain = random_floats(kWidth, rng);
  const std::vector<uint32_t> chosen = {4, 0, 4, 2};
  const DeviceArray<float> in(stream, x);
  const DeviceArray<float> gains(stream, gain);
  const DeviceArray<uint32_t> rows(stream, chosen);
  const DeviceReady out(stream, kWidth, 4);
  require_success(norm({in.view(), kStride}, rows.read_view(), true, 4, {gains.read_view(), kEpsilon},
                       out.view(), stream));
  std::vector<float> wanted;
  for (const uint32_t row : chosen) {
    const auto first = x.begin() + row * kStride;
    const std::vector<float> y = reference::norm(std::vector<float>(first, first + kWidth), gain, kEpsilon);
    wanted.insert(wanted.end(), y.begin(), y.end());
  }
  CHECK(out.is(reference::ready(wanted, kWidth)));
}

}  // namespace
}  // namespace runnel

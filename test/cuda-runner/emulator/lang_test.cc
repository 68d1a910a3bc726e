// The arithmetic of the words of kernels.
#include "cuda-runner/emulator/lang.h"

#include <bit>
#include <cmath>
#include <random>

#include "test/cuda-runner/emulator/emulated.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

using namespace test;

// Below 8.0 these words are made of others.
constexpr uint32_t kWithAndWithoutTensorCores[] = {90, 75};

TEST_CASE("lang: dot4 adds the products of four signed bytes") {
  CHECK(dot4(0x01020304, 0x01010101, 5) == 15);
  CHECK(dot4(0x80808080, 0x80808080, 0) == 4 * 128 * 128);
  CHECK(dot4(0xff00ff00, 0x7f007f00, 1) == 1 - 2 * 127);
  CHECK(dot4(0x01000000, 0x01000000, INT32_MAX) == INT32_MIN);
}

TEST_CASE("lang: halves are widened exactly and rounded to even") {
  CHECK(from_half(0x3c00) == 1.0f);
  CHECK(from_half(0x0001) == 0x1p-24f);
  CHECK(to_half(65520.0f) == 0x7c00);
  CHECK(to_half(1.0f + 0x1p-11f) == 0x3c00);
  CHECK(to_half(1.0f + 3 * 0x1p-11f) == 0x3c02);
}

__global__ void reduce_kernel(Global<const uint32_t> in, Global<uint32_t> out) {
  const uint32_t value = in[threadIdx.x];
  const int32_t sum = reduce_add(std::bit_cast<int32_t>(value));
  out[2 * threadIdx.x] = std::bit_cast<uint32_t>(sum);
  out[2 * threadIdx.x + 1] = reduce_max(value);
}

TEST_CASE("lang: reduce_add and reduce_max give all lanes of a warp its sum, which wraps, and its maximum") {
  for (const uint32_t capability : kWithAndWithoutTensorCores) {
    CAPTURE(capability);
    Emulated device({.compute_capability = capability});
    std::vector<uint32_t> values(64, 0xffffffff);  // -1
    for (uint32_t i = 32; i < 64; ++i) values[i] = i << 26;
    const Array<uint32_t> in = device.upload(values);
    const Array<uint32_t> out = device.allocate<uint32_t>(128);
    CHECK(device.launch(1, 64, LAUNCH(reduce_kernel, in.read_only(), out.view())) == cudaSuccess);
    const std::vector<uint32_t> found = device.download(out);
    for (uint32_t i = 0; i < 32; ++i) {
      CHECK(found[2 * i] == static_cast<uint32_t>(-32));
      CHECK(found[2 * i + 1] == 0xffffffff);
      CHECK(found[64 + 2 * i] == 1520u << 26);
      CHECK(found[64 + 2 * i + 1] == 63u << 26);
    }
  }
}

__global__ void divergent_reduce_kernel(Global<int32_t> out) {
  out[lane()] = lane() == 31 ? 0 : reduce_add(1);
}

TEST_CASE("lang: reductions need the whole warp") {
  Emulated device;
  const Array<int32_t> out = device.allocate<int32_t>(32);
  CHECK(device.launch(1, 32, LAUNCH(divergent_reduce_kernel, out.view())) == cudaErrorLaunchFailure);
  CHECK(says(emulator::last_fault(), "31 threads wait in reduce_add()"));
}

// kernels/lang.h says which elements a lane holds.
__global__ void mma_kernel(Global<const int8_t> a, Global<const int8_t> b, Global<int32_t> acc) {
  const uint32_t g = lane() / 4;
  const uint32_t t = lane() % 4;
  const uint32_t first = warp() * 16 * 8;
  const uint32_t rows[4] = {g, g + 8, g, g + 8};
  const uint32_t columns[4] = {4 * t, 4 * t, 16 + 4 * t, 16 + 4 * t};
  uint32_t held_a[4];
  for (uint32_t i = 0; i < 4; ++i) held_a[i] = a.load<uint32_t>(rows[i] * 32 + columns[i]);
  // b is stored by columns.
  const uint32_t held_b[2] = {b.load<uint32_t>(g * 32 + 4 * t), b.load<uint32_t>(g * 32 + 16 + 4 * t)};
  int32_t sums[4];
  for (uint32_t i = 0; i < 4; ++i) sums[i] = acc[first + (g + i / 2 * 8) * 8 + 2 * t + i % 2];
  mma_s8(sums, held_a, held_b, sums);
  mma_s8(sums, held_a, held_b, sums);
  for (uint32_t i = 0; i < 4; ++i) acc[first + (g + i / 2 * 8) * 8 + 2 * t + i % 2] = sums[i];
}

TEST_CASE("lang: mma_s8 adds the matrix product to what it starts from") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  std::vector<int8_t> a(16 * 32);
  std::vector<int8_t> b(8 * 32);
  for (auto* bytes : {&a, &b})
    for (int8_t& byte : *bytes) byte = static_cast<int8_t>(random());
  std::vector<int32_t> expected(2 * 16 * 8);
  for (size_t i = 0; i < expected.size(); ++i) expected[i] = static_cast<int32_t>(i) - 40;

  const std::vector<int32_t> first = expected;
  for (size_t i = 0; i < expected.size(); ++i)
    for (size_t k = 0; k < 32; ++k) expected[i] += 2 * a[i / 8 % 16 * 32 + k] * b[i % 8 * 32 + k];
  for (const uint32_t capability : kWithAndWithoutTensorCores) {
    CAPTURE(capability);
    Emulated device({.compute_capability = capability});
    const Array<int8_t> device_a = device.upload(a);
    const Array<int8_t> device_b = device.upload(b);
    const Array<int32_t> acc = device.upload(first);
    CHECK(device.launch(1, 64, LAUNCH(mma_kernel, device_a.read_only(), device_b.read_only(), acc.view())) ==
          cudaSuccess);
    CHECK(device.download(acc) == expected);
  }
}

__global__ void divergent_mma_kernel(Global<int32_t> out) {
  int32_t sums[4] = {};
  const uint32_t a[4] = {};
  const uint32_t b[2] = {};
  if (lane() != 31) mma_s8(sums, a, b, sums);
  out[lane()] = sums[0];
}

TEST_CASE("lang: mma_s8 needs the whole warp") {
  Emulated device;
  const Array<int32_t> out = device.allocate<int32_t>(32);
  CHECK(device.launch(1, 32, LAUNCH(divergent_mma_kernel, out.view())) == cudaErrorLaunchFailure);
  CHECK(says(emulator::last_fault(), "31 threads wait in mma_s8()"));
}

}  // namespace
}  // namespace runnel

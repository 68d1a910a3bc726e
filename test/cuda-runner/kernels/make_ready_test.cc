#include "cuda-runner/kernels/make_ready.h"

#include <random>
#include <vector>

#include "test/cuda-runner/device_ready.h"
#include "test/cuda-runner/on_device.h"
#include "test/fixtures/product_reference.h"
#include "test/fixtures/random_floats.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

using namespace test;

TEST_CASE("make ready: rows of any width are as they are, ready for a product") {
  const TestStream stream;
  std::mt19937 rng(52);
  for (const uint32_t width : {1u, 31u, 32u, 33u, 257u, 576u, 2049u}) {
    constexpr uint32_t kRows = 3;
    CAPTURE(width);
    const std::vector<float> x = random_floats(size_t{kRows} * width, rng, 3.0f);
    const DeviceArray<float> in(stream, x);
    const DeviceReady out(stream, width, kRows);
    require_success(make_ready({in.view(), width}, kRows, out.view(), stream));
    REQUIRE(out.is(reference::ready(x, width)));
  }
}

}  // namespace
}  // namespace runnel

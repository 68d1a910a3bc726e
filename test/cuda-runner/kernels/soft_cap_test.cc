#include "cuda-runner/kernels/soft_cap.h"

#include <random>
#include <vector>

#include "test/cuda-runner/device_ready.h"
#include "test/cuda-runner/on_device.h"
#include "test/fixtures/attention_reference.h"
#include "test/fixtures/random_floats.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

using namespace test;

TEST_CASE("soft cap: rows of any width have the bits of the reference, far beyond the cap too") {
  const TestStream stream;
  std::mt19937 rng(51);
  for (const uint32_t width : {1u, 255u, 256u, 300u, 1000u}) {
    for (const auto& [cap, magnitude] : {std::pair(30.0f, 1.0f), {0.5f, 1e4f}}) {
      constexpr uint32_t kRows = 3;
      const uint32_t stride = width + 5;
      std::vector<float> wanted = random_floats(size_t{kRows} * stride, rng, magnitude);
      const DeviceArray<float> rows(stream, wanted);
      for (size_t i = 0; i < wanted.size(); ++i)
        if (i % stride < width) wanted[i] = reference::soft_capped(wanted[i], cap);
      require_success(soft_cap({rows.view(), stride}, kRows, width, cap, stream));
      REQUIRE(bits_of(rows.values()) == bits_of(wanted));
    }
  }
}

}  // namespace
}  // namespace runnel

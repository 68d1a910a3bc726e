#include "cuda-runner/kernels/rope_angles.h"

#include <cmath>
#include <vector>

#include "runner/backend/numerics.h"
#include "test/cuda-runner/device_ready.h"
#include "test/cuda-runner/on_device.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

using namespace test;

TEST_CASE("rope_angles: cosine and sine of every pair have the bits of numerics.h, and are right") {
  const TestStream stream;
  const std::vector<uint32_t> positions = {0, 1, 2, 77, 4095, 131071, 7};
  for (const uint32_t num_pairs : {1u, 8u, 24u, 64u}) {
    std::vector<double> frequencies;
    for (uint32_t pair = 0; pair < num_pairs; ++pair)
      frequencies.push_back(exp_f64(-2.0 * pair / (2 * num_pairs) * log_f64(10000.0)));
    constexpr double kMagnitude = 1.19;
    const DeviceArray<uint32_t> rows(stream, positions);
    const DeviceArray<double> on_device(stream, frequencies);
    const DeviceArray<float> angles(stream, positions.size() * num_pairs * 2);
    require_success(rope_angles(rows.read_view(), static_cast<uint32_t>(positions.size()),
                                on_device.read_view(), num_pairs, kMagnitude, angles.view(), stream));
    std::vector<float> wanted;
    for (const uint32_t position : positions) {
      for (const double frequency : frequencies) {
        const SinCos turn = sin_cos_f64(position * frequency);
        wanted.push_back(static_cast<float>(turn.cos * kMagnitude));
        wanted.push_back(static_cast<float>(turn.sin * kMagnitude));
        CHECK(std::fabs(turn.cos - std::cos(position * frequency)) < 1e-9);
      }
    }
    REQUIRE(bits_of(angles.values()) == bits_of(wanted));
  }
}

}  // namespace
}  // namespace runnel

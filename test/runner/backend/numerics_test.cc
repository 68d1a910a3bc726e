#include "runner/backend/numerics.h"

#include <cmath>
#include <cstdint>
#include <random>

#include "test/unit_test.h"

namespace runnel {
namespace {

// The distance in units of the last place of `wanted`.
double ulps(double got, double wanted) {
  const double unit = std::nextafter(std::abs(wanted), HUGE_VAL) - std::abs(wanted);
  return std::abs(got - wanted) / unit;
}
double ulps(float got, double wanted) {
  const float near = std::abs(static_cast<float>(wanted));
  return std::abs(got - wanted) / (std::nextafter(near, HUGE_VALF) - near);
}

TEST_CASE("exp_f64 is within 4 ulp of the C library") {
  std::mt19937_64 rng(1);
  std::uniform_real_distribution<double> range(-700.0, 700.0);
  for (int i = 0; i < 100'000; ++i) {
    const double x = range(rng);
    CAPTURE(x);
    REQUIRE(ulps(exp_f64(x), std::exp(x)) <= 4.0);
  }
  CHECK(exp_f64(0.0) == 1.0);
  CHECK(exp_f64(-1000.0) == 0.0);
  CHECK(std::isinf(exp_f64(1000.0)));
  CHECK(std::isnan(exp_f64(std::nan(""))));
}

TEST_CASE("log_f64 is within 4 ulp of the C library") {
  std::mt19937_64 rng(2);
  std::uniform_real_distribution<double> exponent(-300.0, 300.0);
  std::uniform_real_distribution<double> near_one(0.5, 2.0);
  for (int i = 0; i < 100'000; ++i) {
    const double x = i % 2 == 0 ? std::pow(10.0, exponent(rng)) : near_one(rng);
    CAPTURE(x);
    REQUIRE(ulps(log_f64(x), std::log(x)) <= 4.0);
  }
  CHECK(log_f64(1.0) == 0.0);
}

TEST_CASE("sin_cos_f64 is within 4 ulp of the C library, or within its rounding near a zero") {
  std::mt19937_64 rng(3);
  std::uniform_real_distribution<double> range(-1048576.0, 1048576.0);
  std::uniform_real_distribution<double> small(-4.0, 4.0);
  for (int i = 0; i < 100'000; ++i) {
    const double x = i % 2 == 0 ? range(rng) : small(rng);
    const SinCos got = sin_cos_f64(x);
    CAPTURE(x);
    REQUIRE((ulps(got.sin, std::sin(x)) <= 4.0 || std::abs(got.sin - std::sin(x)) < 1e-16));
    REQUIRE((ulps(got.cos, std::cos(x)) <= 4.0 || std::abs(got.cos - std::cos(x)) < 1e-16));
  }
  CHECK(sin_cos_f64(0.0).sin == 0.0);
  CHECK(sin_cos_f64(0.0).cos == 1.0);
}

TEST_CASE("exp_f32 is within 2 ulp and always a positive normal number") {
  std::mt19937_64 rng(4);
  std::uniform_real_distribution<float> range(-87.0f, 88.0f);
  for (int i = 0; i < 200'000; ++i) {
    const float x = range(rng);
    CAPTURE(x);
    REQUIRE(ulps(exp_f32(x), std::exp(static_cast<double>(x))) <= 2.0);
  }
  for (const float x : {-HUGE_VALF, -1000.0f, -87.0f, 88.0f, 1000.0f, HUGE_VALF}) {
    CHECK(std::isnormal(exp_f32(x)));
    CHECK(exp_f32(x) > 0.0f);
  }
  CHECK(exp_f32(0.0f) == 1.0f);
}

}  // namespace
}  // namespace runnel

#include "cuda-runner/kernels/experts.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <tuple>
#include <vector>

#include "test/cuda-runner/device_matrix.h"
#include "test/cuda-runner/device_ready.h"
#include "test/cuda-runner/on_device.h"
#include "test/fixtures/product_reference.h"
#include "test/fixtures/random_floats.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

using namespace test;
using reference::Ready;

struct Use {
  uint32_t expert;
  float weight;
};

// The largest logits first, and of equal logits the lower index (docs/numerics.md).
std::vector<Use> uses_of(std::span<const float> logits, uint32_t num_used) {
  std::vector<uint32_t> order(logits.size());
  for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, std::greater(), [&](uint32_t i) { return logits[i]; });
  std::vector<Use> uses;
  float sum = 0.0f;
  for (uint32_t i = 0; i < num_used; ++i) {
    uses.push_back({order[i], exp_f32(logits[order[i]] - logits[order[0]])});
    sum = sum + uses.back().weight;
  }
  for (Use& use : uses) use.weight = use.weight / sum;
  return uses;
}

TEST_CASE("experts: a row's experts, what they compute and its sum have the bits of the reference") {
  const TestStream stream;
  std::mt19937 rng(61);
  constexpr uint32_t kHidden = 64;
  constexpr uint32_t kWidth = 96;
  for (const TensorType type : {TensorType::kF32, TensorType::kQ8_0, TensorType::kQ4_1}) {
    for (const auto& [num_experts, num_used, has_bias] :
         {std::tuple(1u, 1u, true), std::tuple(5u, 2u, false), std::tuple(5u, 2u, true),
          std::tuple(40u, 8u, false)}) {
      constexpr uint32_t kRows = 3;
      CAPTURE(type_name(type));
      CAPTURE(num_experts);
      CAPTURE(has_bias);
      // There are few different values, so that some logits are equal; zeros of both signs are among them.
      std::vector<float> logits(kRows * num_experts);
      for (float& logit : logits) logit = static_cast<float>(static_cast<int>(rng() % 7) - 3) * 0.5f;
      for (float& logit : logits) logit = logit == 0.0f && rng() % 2 == 0 ? -0.0f : logit;
      const RandomMatrix gate(stream, type, num_experts * kWidth, kHidden, rng);
      const RandomMatrix up(stream, type, num_experts * kWidth, kHidden, rng);
      const RandomMatrix down(stream, type, num_experts * kHidden, kWidth, rng);
      const Ready x = reference::ready(random_floats(kRows * kHidden, rng), kHidden);
      const std::vector<float> before = random_floats(kRows * kHidden, rng);
      // Biases that lie beyond the limits of the clamped gate are among these.
      const std::vector<float> gate_up_bias = random_floats(2 * num_experts * kWidth, rng, 5.0f);
      const std::vector<float> down_bias = random_floats(num_experts * kHidden, rng);
      const DeviceArray<float> device_gate_up_bias(stream, gate_up_bias);
      const DeviceArray<float> device_down_bias(stream, down_bias);
      const auto biased = [&](float product, const std::vector<float>& bias, uint32_t row) {
        return has_bias ? product + bias[row] : product;
      };

      const DeviceArray<float> router(stream, logits);
      const DeviceArray<uint32_t> ids(stream, std::vector<uint32_t>(kRows * num_used));
      const DeviceArray<float> weights(stream, kRows * num_used);
      const ExpertUses uses{ids.view(), weights.view(), num_used};
      const DeviceReady in(stream, x);
      const DeviceReady gated(stream, kWidth, kRows * num_used);
      const DeviceArray<float> out(stream, before);
      require_success(choose_experts({router.view(), num_experts}, num_experts, kRows, uses, stream));
      require_success(expert_gated_multiply(gate.on_device(), up.on_device(),
                                            {has_bias, device_gate_up_bias.read_view()},
                                            has_bias ? Nonlinearity::kClampedSwish : Nonlinearity::kSilu,
                                            in.view(), kRows, uses, gated.view(), stream));
      require_success(add_expert_output(down.on_device(), {has_bias, device_down_bias.read_view()}, kHidden,
                                        gated.view(), kRows, uses, {out.view(), kHidden}, stream));

      std::vector<uint32_t> wanted_ids;
      std::vector<float> wanted_weights;
      std::vector<float> wanted_gated;
      for (uint32_t row = 0; row < kRows; ++row) {
        for (const Use& use : uses_of(std::span(logits).subspan(row * num_experts, num_experts), num_used)) {
          wanted_ids.push_back(use.expert);
          wanted_weights.push_back(use.weight);
          for (uint32_t i = 0; i < kWidth; ++i) {
            const uint32_t output = use.expert * kWidth + i;
            const float gate_y =
                biased(reference::product(type, gate.row(output), x, row), gate_up_bias, output);
            const float up_y = biased(reference::product(type, up.row(output), x, row), gate_up_bias,
                                      num_experts * kWidth + output);
            wanted_gated.push_back((has_bias ? reference::clamped_swish : reference::gated)(gate_y, up_y));
          }
        }
      }
      REQUIRE(ids.values() == wanted_ids);
      REQUIRE(bits_of(weights.values()) == bits_of(wanted_weights));
      const Ready ready = reference::ready(wanted_gated, kWidth);
      REQUIRE(gated.is(ready));

      std::vector<float> wanted = before;
      for (uint32_t row = 0; row < kRows; ++row) {
        for (uint32_t i = 0; i < kHidden; ++i) {
          float sum = 0.0f;
          for (uint32_t use = row * num_used; use < (row + 1) * num_used; ++use) {
            const uint32_t output = wanted_ids[use] * kHidden + i;
            const float y = biased(reference::product(type, down.row(output), ready, use), down_bias, output);
            sum = std::fma(wanted_weights[use], y, sum);
          }
          wanted[row * kHidden + i] = sum + wanted[row * kHidden + i];
        }
      }
      REQUIRE(bits_of(out.values()) == bits_of(wanted));
    }
  }
}

TEST_CASE("experts: logits that are no numbers are chosen last, in the order of the experts") {
  const TestStream stream;
  // The first logit is a NaN as GPUs compute it.
  const std::vector<float> logits = {std::bit_cast<float>(0x7fffffffu), -HUGE_VALF, NAN, HUGE_VALF, -NAN};
  const DeviceArray<float> router(stream, logits);
  const DeviceArray<uint32_t> ids(stream, std::vector<uint32_t>(5));
  const DeviceArray<float> weights(stream, 5);
  require_success(choose_experts({router.view(), 5}, 5, 1, {ids.view(), weights.view(), 5}, stream));
  CHECK(ids.values() == std::vector<uint32_t>{3, 1, 0, 2, 4});
}

}  // namespace
}  // namespace runnel

#include "cuda-runner/kernels/experts.h"

#include <bit>
#include <cmath>
#include <random>
#include <tuple>
#include <vector>

#include "test/cuda-runner/expert_case.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

using namespace test;

TEST_CASE("experts: a row's experts, what they compute and its sum have the bits of the reference") {
  const TestStream stream;
  std::mt19937 rng(61);
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
      const ExpertCase of(stream, {num_experts, num_used, 64, 96, has_bias}, type, type, logits, rng);

      const DeviceArray<uint32_t> ids(stream, std::vector<uint32_t>(kRows * num_used));
      const DeviceArray<float> weights(stream, kRows * num_used);
      const ExpertUses uses{ids.view(), weights.view(), num_used};
      require_success(choose_experts(of.logits(), num_experts, kRows, uses, stream));
      require_success(expert_gated_multiply(of.gate(), of.up(), of.gate_up_bias(), of.nonlinearity(), of.in(),
                                            kRows, uses, of.gated(), stream));
      require_success(add_expert_output(of.down(), of.down_bias(), of.out().stride, of.gated(), kRows, uses,
                                        of.out(), stream));
      std::vector<uint32_t> wanted_ids;
      std::vector<float> wanted_weights;
      for (const ExpertUse& use : of.uses()) {
        wanted_ids.push_back(use.expert);
        wanted_weights.push_back(use.weight);
      }
      REQUIRE(ids.values() == wanted_ids);
      REQUIRE(bits_of(weights.values()) == bits_of(wanted_weights));
      REQUIRE(of.is_right());
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

// The kernels that are loaded for a model before its first step. The device is emulated.
#include "cuda-runner/load_kernels.h"

#include "cuda-runner/cuda_backend.h"
#include "cuda-runner/emulator/machine.h"
#include "test/cuda-runner/emulator/emulated.h"
#include "test/fixtures/golden_models.h"

namespace runnel {
namespace {

using namespace test;

std::set<const void*> loaded_kernels() {
  return emulator::machine().devices.front().loaded_kernels;
}

std::unique_ptr<ModelHarness> harness_of(const GoldenModel& model, KvType kv_type) {
  return std::make_unique<ModelHarness>(q8_0_path(model), make_cuda_backend({.kv_type = kv_type}), 32, 0,
                                        model.max_positions);
}

TEST_CASE("load kernels: whatever the model, no step needs a kernel that was not loaded before") {
  for (const GoldenModel& model : kGoldenModels) {
    CAPTURE(model.golden);
    const Emulated emulated;
    const auto harness = harness_of(model, KvType::kF16);
    const std::set<const void*> before = loaded_kernels();
    HarnessStream prompt{Golden(model).ids(), 0, {}, {}};
    prompt.token_ids.resize(30);
    for (const uint32_t num_rows : {20u, 1u, 2u, 4u}) harness->step({{&prompt, num_rows}});
    CHECK(loaded_kernels() == before);
  }
}

TEST_CASE("load kernels: a model that computes other operations, or with another cache, has its own") {
  const auto loaded_for = [](size_t model, KvType kv_type) {
    const Emulated emulated;
    harness_of(kGoldenModels[model], kv_type);
    return loaded_kernels();
  };
  std::set<std::set<const void*>> sets;
  for (size_t i = 0; i < std::size(kGoldenModels); ++i) sets.insert(loaded_for(i, KvType::kF16));
  // With a gate, without, with experts, and with a cap of logits.
  CHECK(sets.size() == 4);
  sets.insert(loaded_for(0, KvType::kF32));
  CHECK(sets.size() == 5);
}

}  // namespace
}  // namespace runnel

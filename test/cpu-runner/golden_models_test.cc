// Each architecture, compared with its implementation in transformers, for each kind of weights.
#include "test/fixtures/golden_models.h"

#include "cpu-runner/isa.h"
#include "test/cpu-runner/cpu_harness.h"

namespace runnel {
namespace {

using namespace test;

// The largest difference of logits with an F16 cache: keys and values have errors of 2^-12 of themselves,
// which the reference does not have.
constexpr double kMaxOfF16Cache = 1e-2;
// Activations of 8 bits have errors of up to 1 / 254 of the largest of 32 values.
constexpr Golden::Difference kOfBytes{.max = 0.3, .mean = 0.03};

constexpr uint32_t kChunk = 64;

CpuOptions with_cache(const GoldenModel& model, KvType kv_type) {
  return {.num_threads = 2, .kv_type = kv_type, .max_positions = model.max_positions};
}

TEST_CASE("each architecture has the logits and the greedy ids of transformers, of F32, F16 and BF16") {
  for (const GoldenModel& model : kGoldenModels) {
    CAPTURE(model.golden);
    const Golden golden(model);
    CpuHarness exact(f32_path(model), with_cache(model, KvType::kF32));
    const Logits logits = exact.run(golden.ids(), kChunk);
    CHECK(golden.difference(logits, "f32").max < kMaxOfFloats);
    CHECK(golden.greedy_of(logits) == golden.greedy());

    CpuHarness usual(f32_path(model), with_cache(model, KvType::kF16));
    const Logits usual_logits = usual.run(golden.ids(), kChunk);
    CHECK(golden.difference(usual_logits, "f32").max < kMaxOfF16Cache);
    CHECK(golden.greedy_of(usual_logits) == golden.greedy());

    for (const TensorType type : {TensorType::kF16, TensorType::kBF16}) {
      CAPTURE(type_name(type));
      const TemporaryFile narrow(bytes_in(type, model));
      CpuHarness of_narrow(narrow.path(), with_cache(model, KvType::kF32));
      CHECK(same_bits(of_narrow.run(golden.ids(), kChunk), logits));
    }
  }
}

TEST_CASE("each architecture is near the logits of transformers with weights of Q8_0") {
  for (const GoldenModel& model : kGoldenModels) {
    CAPTURE(model.golden);
    const Golden golden(model);
    CpuHarness floats(
        q8_0_path(model),
        {.kv_type = KvType::kF32, .activations = ActivationType::kF32, .max_positions = model.max_positions});
    CHECK(golden.difference(floats.run(golden.ids(), kChunk), "q8_0").max < kMaxOfFloats);
    CpuHarness bytes(q8_0_path(model), with_cache(model, KvType::kF16));
    const Golden::Difference difference = golden.difference(bytes.run(golden.ids(), kChunk), "q8_0");
    CAPTURE(difference.max);
    CAPTURE(difference.mean);
    CHECK(difference.max < kOfBytes.max);
    CHECK(difference.mean < kOfBytes.mean);
  }
}

// The 32 weights of a block of Q4_0 share a scale, and the largest of them is 8 times the scale.
TEST_CASE("each architecture is near the logits of transformers with weights quantised to Q4_0") {
  for (const GoldenModel& model : kGoldenModels) {
    CAPTURE(model.golden);
    const Golden golden(model);
    for (const ActivationType activations : {ActivationType::kF32, ActivationType::kI8}) {
      CpuHarness harness(
          quantised(f32_path(model), TensorType::kQ4_0),
          {.kv_type = KvType::kF32, .activations = activations, .max_positions = model.max_positions});
      const Golden::Difference difference = golden.difference(harness.run(golden.ids(), kChunk), "q4_0");
      CAPTURE(difference.max);
      CAPTURE(difference.mean);
      const bool is_exact = activations == ActivationType::kF32;
      CHECK(difference.max < (is_exact ? kMaxOfFloats : kOfBytes.max));
      CHECK(difference.mean < (is_exact ? kMaxOfFloats : kOfBytes.mean));
    }
  }
}

TEST_CASE("each architecture has the vectors of transformers, of F32, and near them with Q8_0") {
  constexpr double kMaxOfVectors = 1e-4;
  constexpr double kMinCosine = 0.9999;
  // For weights rounded to 8 bits, which make a slightly different model.
  constexpr double kMinCosineOfBytes = 0.99;
  for (const GoldenModel& model : kGoldenModels) {
    CAPTURE(model.golden);
    const Golden golden(model);
    CpuHarness exact(f32_path(model), with_cache(model, KvType::kF32));
    CpuHarness usual(f32_path(model), with_cache(model, KvType::kF16));
    CpuHarness bytes(q8_0_path(model), with_cache(model, KvType::kF16));
    for (const auto& [name, pooling] : kPoolings) {
      CAPTURE(name);
      const std::vector<float> wanted = golden.vector(name);
      const VectorDifference difference = difference_of(exact.embed(golden.ids(), pooling, kChunk), wanted);
      CHECK(difference.max < kMaxOfVectors);
      CHECK(difference.cosine >= kMinCosine);
      CHECK(difference_of(usual.embed(golden.ids(), pooling, kChunk), wanted).cosine >= kMinCosine);
      CHECK(difference_of(bytes.embed(golden.ids(), pooling, kChunk), wanted).cosine >= kMinCosineOfBytes);
    }
  }
}

TEST_CASE("each architecture has vectors of the same bits however they are computed") {
  for (const GoldenModel& model : kGoldenModels) {
    CAPTURE(model.golden);
    const std::vector<uint32_t> ids = Golden(model).ids();
    CpuHarness plain(q8_0_path(model), {.max_positions = model.max_positions});
    for (const auto& [name, pooling] : kPoolings) {
      CAPTURE(name);
      const std::vector<float> wanted = plain.embed(ids, pooling, kChunk);
      REQUIRE(same_bits(Logits{plain.embed(ids, pooling, 1)}, Logits{wanted}));
      for (const Kernels* kernels : usable_kernels()) {
        CAPTURE(kernels->name);
        CpuHarness other(q8_0_path(model), {.num_threads = 3,
                                            .block_size = 8,
                                            .isa = kernels->name,
                                            .shuffle_seed = 7,
                                            .max_positions = model.max_positions});
        REQUIRE(same_bits(Logits{other.embed(ids, pooling, 17)}, Logits{wanted}));
      }
    }
  }
}

TEST_CASE("each architecture has the same bits however it is computed") {
  constexpr uint32_t kSeed = 51;
  std::mt19937 rng(kSeed);
  CAPTURE(kSeed);
  for (const GoldenModel& model : kGoldenModels) {
    CAPTURE(model.golden);
    const std::vector<uint32_t> ids = Golden(model).ids();
    CpuHarness plain(q8_0_path(model), {.max_positions = model.max_positions});
    const Logits wanted = plain.run(ids, kChunk);
    CHECK(same_bits(plain.run(ids, 1), wanted));
    for (const Kernels* kernels : usable_kernels()) {
      CAPTURE(kernels->name);
      CpuHarness other(q8_0_path(model), {.num_threads = 3,
                                          .block_size = 8,
                                          .isa = kernels->name,
                                          .shuffle_seed = 7,
                                          .max_positions = model.max_positions});
      std::vector<HarnessStream> streams(3);
      for (HarnessStream& stream : streams) stream.token_ids = ids;
      const auto left = [](const HarnessStream& s) {
        return static_cast<uint32_t>(s.token_ids.size()) - s.num_done;
      };
      while (std::ranges::any_of(streams, [&](const HarnessStream& s) { return left(s) > 0; })) {
        std::vector<ModelHarness::Share> shares;
        for (HarnessStream& stream : streams) {
          if (left(stream) > 0)
            shares.push_back({&stream, 1 + static_cast<uint32_t>(rng() % std::min(left(stream), 60u))});
        }
        other.step(shares);
      }
      for (const HarnessStream& stream : streams) REQUIRE(same_bits(stream.logits, wanted));
    }
  }
}

}  // namespace
}  // namespace runnel

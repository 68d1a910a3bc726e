// What a decode step costs on the device, as far as the emulator can count it: launches, and the bytes,
// sectors and turns of memory that its products take.
#include <algorithm>
#include <random>
#include <tuple>

#include "cuda-runner/cuda_backend.h"
#include "cuda-runner/device_experts.h"
#include "cuda-runner/emulator/counters.h"
#include "cuda-runner/emulator/settings.h"
#include "cuda-runner/kernels/divide_up.h"
#include "cuda-runner/kernels/grouped_product.h"
#include "cuda-runner/packed_tensor.h"
#include "test/cuda-runner/device_matrix.h"
#include "test/cuda-runner/device_ready.h"
#include "test/cuda-runner/expert_case.h"
#include "test/cuda-runner/on_device.h"
#include "test/fixtures/model_harness.h"
#include "test/fixtures/tiny_llama.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

using namespace test;

constexpr const char* kProducts = "multiply";

// Computes steps of one token for each of num_rows sequences, and counts what kernels with this in their name
// do in the last one.
class Steps {
 public:
  explicit Steps(const TinyLlama& model) : file_(write_tiny_llama(model).bytes()) {
    emulator::start(emulator::settings_from_environment());
  }

  emulator::Counts counts(uint32_t num_rows, std::string_view kernels) const {
    constexpr uint32_t kSteps = 3;  // eager, captured as a graph, and a launch of the graph
    ModelHarness harness(file_.path(), make_cuda_backend({}), 16, 0);
    std::vector<HarnessStream> streams(num_rows);
    std::vector<ModelHarness::Share> shares;
    for (HarnessStream& stream : streams) {
      stream.token_ids.assign(kSteps, 1);
      shares.push_back({&stream, 1});
    }
    for (uint32_t step = 1; step < kSteps; ++step) harness.step(shares);
    const emulator::Counters counters;
    harness.step(shares);
    return counters.of(kernels);
  }
  // The bytes that all matrices have on the device. The head multiplies by the table of embeddings.
  uint64_t matrix_bytes() const {
    uint64_t bytes = 0;
    const Result<ModelFile> file = ModelFile::open(file_.path());
    for (const TensorView& tensor : file->tensors()) {
      if (tensor.num_dims != 2) continue;
      const PackedTensor packed({&tensor, 1});
      bytes += packed.num_tiles() *
               (sizeof(uint32_t) * packed.num_quant_words() + sizeof(uint16_t) * packed.num_scales());
    }
    return bytes;
  }

 private:
  TemporaryFile file_;
};

TEST_CASE(
    "step costs: a layer of a decode step takes no more than 7 launches, 5 with one or two rows, and what is "
    "around them 4") {
  for (const auto& [num_rows, most] : {std::pair{1u, 5u}, {2u, 5u}, {9u, 7u}, {70u, 7u}}) {
    CAPTURE(num_rows);
    // Heads of 32 values, as attention makes ready itself.
    const uint64_t two_layers = Steps({.num_layers = 2, .hidden = 128}).counts(num_rows, "").launches;
    const uint64_t three_layers = Steps({.num_layers = 3, .hidden = 128}).counts(num_rows, "").launches;
    const uint64_t layer = three_layers - two_layers;
    CHECK(layer <= most);
    CHECK(two_layers - 2 * layer <= 4);  // embeddings, angles, and the norm and the product of the head
  }
}

TEST_CASE("step costs: products load each weight once, and lanes do not wait for each other's banks") {
  using enum TensorType;
  // More than 32 rows are two groups, or four for types with two sums. These matrices are small, so a block
  // takes fewer rows of floats, eight of those without a gate.
  const std::pair<uint32_t, uint64_t> most_loads[] = {{1, 1}, {8, 1}, {32, 1}, {64, 2}};
  for (const TensorType type : {kQ4_1, kQ8_0, kQ4_K, kQ2_K, kF16, kF32}) {
    CAPTURE(type_name(type));
    const Steps steps({.matrix_type = type, .num_layers = 1, .hidden = 256, .ffn = 512});
    const uint64_t stored = steps.matrix_bytes();
    for (const auto& [num_rows, most] : most_loads) {
      const uint64_t groups = type == kQ2_K && num_rows > 32 ? 2 * most : most;
      const uint64_t loads = is_quantised(type) ? groups : std::max(1u, num_rows / 8);
      CAPTURE(num_rows);
      const emulator::Counts counts = steps.counts(num_rows, kProducts);
      // A block that computes the norm of its rows reads the gain too: one for each 32 columns of queries,
      // keys and values, and of the gated rows.
      const uint64_t gains = computes_norms(type, 256, num_rows) ? (512 + 512) / 32 * 256 * sizeof(float) : 0;
      CHECK(counts.constant_bytes >= stored);
      CHECK(counts.constant_bytes <= loads * stored + gains);
      CHECK(32 * counts.constant_sectors <= loads * stored + gains);
      CHECK(counts.shared_turns == counts.least_shared_turns);
    }
  }
}

TEST_CASE(
    "step costs: products of floats load each weight once for as many rows as a block takes, up to 128") {
  const TestStream stream;
  std::mt19937 rng(1);
  constexpr uint32_t kTiles = 200;
  constexpr uint32_t kColumns = 64;
  for (const TensorType type : {TensorType::kF32, TensorType::kF16}) {
    require_success(load_multiply(type));
    const RandomMatrix matrix(stream, type, kTiles * kWarpTileRows, kColumns, rng);
    for (const auto& [num_rows, form, tiles_of_block] :
         {std::tuple{8u, ProductForm::kSegments, 1u}, std::tuple{64u, ProductForm::kSplitTiles, 2u},
          std::tuple{128u, ProductForm::kTiles, 4u}}) {
      CAPTURE(type_name(type));
      CAPTURE(num_rows);
      const DeviceReady in(stream, kColumns, num_rows);
      const DeviceArray<float> out(stream, size_t{num_rows} * matrix.tensor.rows());
      const FloatRows rows{out.view(), static_cast<uint32_t>(matrix.tensor.rows())};
      const emulator::Counters counters;
      require_success(multiply(matrix.on_device(), in.view(), num_rows, {}, false, Epilogue::kReplace, rows,
                               0, stream, form));
      static_cast<void>(out.values());  // waits
      const emulator::Counts counts = counters.of(kProducts);
      // The rows are as constant here as the weights are. A block loads them once.
      const uint64_t row_bytes = uint64_t{kTiles} / tiles_of_block * num_rows * kColumns * sizeof(float);
      CHECK(counts.constant_bytes == matrix.data.size() + row_bytes);
      CHECK(32 * counts.constant_sectors == counts.constant_bytes);
      CHECK(counts.shared_turns == counts.least_shared_turns);
    }
  }
}

// What the kernels of a step with so many rows of random experts count.
struct ExpertSteps {
  ExpertSteps(TensorType type, uint32_t num_rows)
      : of(arrays, kSizes, type, type, random_floats(size_t{num_rows} * kSizes.num_experts, rng), rng) {
    Stream stream;
    DeviceExperts experts(
        {num_rows, kSizes.num_experts, kSizes.num_used, kSizes.hidden, kSizes.width, kSizes.hidden});
    require_success(load_use_groups());
    require_success(load_grouped_products(type));
    REQUIRE(experts.allocate(stream).ok());
    const emulator::Counters counters;
    experts.choose(of.logits(), num_rows, stream);
    experts.gated_multiply(of.gate(), of.up(), {}, Nonlinearity::kSilu, of.in(), num_rows, of.gated(),
                           stream);
    experts.add_output(of.down(), {}, of.gated(), num_rows, of.out(), stream);
    stream.synchronize();
    all = counters.of("");
    gated = counters.of("gated_multiply");
    down = counters.of("grouped_multiply");
  }

  static constexpr ExpertSizes kSizes{8, 2, 256, 256, false};
  std::mt19937 rng{81};
  TestStream arrays;
  ExpertCase of;
  emulator::Counts all;
  emulator::Counts gated;
  emulator::Counts down;
};

TEST_CASE("step costs: an expert's matrices are loaded once for each 32 rows that use it, or each 16") {
  using enum TensorType;
  constexpr uint32_t kRows = 64;
  for (const auto& [type, rows_at_once] : {std::pair{kQ4_1, 32u}, {kQ8_0, 32u}, {kQ2_K, 16u}, {kF16, 16u}}) {
    CAPTURE(type_name(type));
    const ExpertSteps step(type, kRows);
    std::vector<uint32_t> uses_of_expert(step.kSizes.num_experts);
    for (const ExpertUse& use : step.of.uses()) ++uses_of_expert[use.expert];
    uint64_t loads = 0;
    for (const uint32_t num_uses : uses_of_expert) loads += divide_up(num_uses, rows_at_once);
    CHECK(loads < kRows * step.kSizes.num_used / 6);  // without groups it is a load for each use
    CHECK(step.gated.constant_bytes == loads * step.of.gate_up_bytes() / step.kSizes.num_experts);
    CHECK(step.down.constant_bytes == loads * step.of.down_bytes() / step.kSizes.num_experts);
    for (const emulator::Counts& counts : {step.gated, step.down}) {
      CHECK(32 * counts.constant_sectors == counts.constant_bytes);
      CHECK(counts.shared_turns == counts.least_shared_turns);
    }
  }
}

TEST_CASE("step costs: experts of few rows take 3 launches, those of many rows 8") {
  CHECK(ExpertSteps(TensorType::kQ4_0, 1).all.launches == 3);
  CHECK(ExpertSteps(TensorType::kQ4_0, 7).all.launches == 3);
  CHECK(ExpertSteps(TensorType::kQ4_0, 8).all.launches == 8);
}

}  // namespace
}  // namespace runnel

// What a decode step costs on the device, as far as the emulator can count it: launches, and the bytes,
// sectors and turns of memory that its products take.
#include <algorithm>

#include "cuda-runner/cuda_backend.h"
#include "cuda-runner/emulator/counters.h"
#include "cuda-runner/emulator/settings.h"
#include "cuda-runner/packed_tensor.h"
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

TEST_CASE("step costs: a layer of a decode step takes no more than 7 launches, and what is around them 4") {
  for (const uint32_t num_rows : {1u, 9u, 70u}) {
    CAPTURE(num_rows);
    // Heads of 32 values, as attention makes ready itself.
    const uint64_t two_layers = Steps({.num_layers = 2, .hidden = 128}).counts(num_rows, "").launches;
    const uint64_t three_layers = Steps({.num_layers = 3, .hidden = 128}).counts(num_rows, "").launches;
    const uint64_t layer = three_layers - two_layers;
    CHECK(layer <= 7);
    CHECK(two_layers - 2 * layer <= 4);  // embeddings, angles, and the norm and the product of the head
  }
}

TEST_CASE("step costs: products load each weight once, and lanes do not wait for each other's banks") {
  using enum TensorType;
  // More than 32 rows are two groups, and with floats more than 8.
  const std::pair<uint32_t, uint64_t> most_loads[] = {{1, 1}, {8, 1}, {32, 1}, {64, 2}};
  for (const TensorType type : {kQ4_1, kQ8_0, kQ4_K, kQ2_K, kF16}) {
    CAPTURE(type_name(type));
    const Steps steps({.matrix_type = type, .num_layers = 1, .hidden = 256, .ffn = 512});
    const uint64_t stored = steps.matrix_bytes();
    for (const auto& [num_rows, loads] : most_loads) {
      if (num_rows > 8 && !is_quantised(type)) break;
      CAPTURE(num_rows);
      const emulator::Counts counts = steps.counts(num_rows, kProducts);
      CHECK(counts.constant_bytes >= stored);
      CHECK(counts.constant_bytes <= loads * stored);
      CHECK(32 * counts.constant_sectors <= loads * stored);
      CHECK(counts.shared_turns == counts.least_shared_turns);
    }
  }
}

}  // namespace
}  // namespace runnel

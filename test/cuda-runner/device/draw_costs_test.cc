// What a draw costs on the device, as far as the emulator can count it: launches, and how often they read the
// logits.
#include "cuda-runner/device_sampler.h"
#include "cuda-runner/emulator/counters.h"
#include "test/fixtures/model_like_logits.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

using namespace test;

constexpr uint32_t kVocabSize = 40'000;

// Draws from a row of logits with these parameters, and counts what the kernels do.
class CountedDraw {
 public:
  explicit CountedDraw(const SamplingParams& params) {
    Stream stream;
    auto host_logits = *PinnedBuffer<float>::allocate(kVocabSize, "logits");
    auto logits = *DeviceBuffer<float>::allocate(kVocabSize, "logits");
    auto positions = *DeviceBuffer<uint32_t>::allocate(1, "positions");
    std::ranges::copy(model_like_logits(kVocabSize, 2.0f, 5), host_logits.span().begin());
    stream.upload(logits, 0, host_logits.part(0, kVocabSize));
    stream.fill_with_zeros(positions);
    auto sampler = *DeviceSampler::allocate(1, kVocabSize);
    const uint32_t token_id = 0;
    const std::vector<HeadRow> rows = {{0, Draw{{&token_id, 1}, 1, params}}};
    auto ids = *DrawnIds::allocate(1);
    sampler.launch(rows, std::as_const(logits).view(), std::as_const(positions).view(), ids, stream);
    CHECK(ids.at(0));
  }

  uint64_t launches() const { return counters_.of("").launches; }
  // How often the kernels with this in their names load the logits, if they load nothing else.
  double readings(std::string_view kernels) const {
    return static_cast<double>(counters_.of(kernels).load_bytes) / (kVocabSize * sizeof(float));
  }
  bool has_bank_conflicts() const {
    const emulator::Counts counts = counters_.of("weigh_kernel");
    return counts.shared_turns != counts.least_shared_turns;
  }

 private:
  const emulator::Counters counters_;
};

TEST_CASE("draw costs: a greedy draw takes two launches and reads each logit once") {
  const CountedDraw draw({.temperature = 0.0f});
  CHECK(draw.launches() == 2);
  CHECK(draw.readings("") < 1.2);
}

TEST_CASE("draw costs: noise alone takes no more launches, and reads the logits once more") {
  const CountedDraw draw({.temperature = 0.8f});
  CHECK(draw.launches() == 2);
  CHECK(draw.readings("") < 2.2);
}

TEST_CASE("draw costs: top_k, top_p and min_p take four launches, of which the last reads few candidates") {
  const SamplingParams bounded[] = {
      {.top_k = 40}, {.top_p = 0.9f}, {.top_k = 40, .top_p = 0.9f}, {.min_p = 0.1f}};
  // Each block of gather_kernel also reads the bins of all chunks.
  const double num_chunks = num_draw_chunks(1, kVocabSize);
  const double bins = num_chunks * num_chunks * kDrawBins * sizeof(DrawBin) / (kVocabSize * sizeof(float));
  for (const SamplingParams& params : bounded) {
    CAPTURE(params.top_k);
    CAPTURE(params.top_p);
    const CountedDraw draw(params);
    CHECK(draw.launches() == 4);
    CHECK(draw.readings("scan_kernel") < 1.1);
    CHECK(draw.readings("weigh_kernel") < 1.3);
    CHECK(draw.readings("gather_kernel") < 2.3 + bins);
    CHECK(draw.readings("choose_kernel") < 0.1);
    CHECK_FALSE(draw.has_bank_conflicts());
  }
}

}  // namespace
}  // namespace runnel

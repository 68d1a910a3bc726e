// The search for the last candidate that is kept, in a kernel of its own.
#include "cuda-runner/kernels/last_kept-inl.h"
#include "test/cuda-runner/emulator/emulated.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

using namespace test;

constexpr uint32_t kThreads = 64;

struct Candidates {
  Global<const double> logits;
  uint32_t count;

  template <typename Fn>
  void for_each(const Fn& fn) const {
    for (uint32_t id = threadIdx.x; id < count; id += blockDim.x) fn(logits[id], id);
  }
};

// ids[0] = the id of the candidate at which the count of candidates reaches `needed`, or vocab_size.
__global__ void __launch_bounds__(kThreads) last_kept_kernel(Global<const double> logits, uint32_t vocab_size,
                                                             uint64_t needed, Global<uint32_t> ids) {
  __shared__ LastKeptMemory memory;
  const Rank kept = last_kept(
      Candidates{logits, vocab_size}, kKeepAll, needed, [](double) { return 1; }, memory);
  if (threadIdx.x == 0) ids[0] = kept.key == kKeepAll.key ? vocab_size : kept.id();
}

TEST_CASE(
    "last kept: it is found among candidates that are all alike, and the search ends where there is none") {
  Emulated device({.max_block_ms = 20'000});
  constexpr uint32_t kVocabSize = 100;
  const Array<double> logits = device.upload(std::vector<double>(kVocabSize, 1.5));
  const Array<uint32_t> ids = device.allocate<uint32_t>(1);
  const auto kept = [&](uint64_t needed) {
    CHECK(device.launch(1, kThreads,
                        LAUNCH(last_kept_kernel, logits.read_only(), kVocabSize, needed, ids.view())) ==
          cudaSuccess);
    return device.download(ids)[0];
  };
  CHECK(kept(1) == 0);
  CHECK(kept(40) == 39);
  CHECK(kept(kVocabSize) == kVocabSize - 1);
  CHECK(kept(kVocabSize + 1) == kVocabSize);
}

}  // namespace
}  // namespace runnel

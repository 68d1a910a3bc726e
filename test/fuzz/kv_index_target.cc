// Indexes of KV caches, as a runner finds them that starts in the place of a dead one.
#include "test/fixtures/kv_mutations.h"
#include "test/fuzz/target.h"

namespace runnel::fuzz {
namespace {

// Of two groups of layers.
const std::vector<uint32_t> kWindows = {0, 6};

const test::KeptBlocks& cache() {
  static const test::KeptBlocks of_tenants = test::cache_of_tenants(kWindows);
  return of_tenants;
}

}  // namespace

std::vector<std::string> seed_corpus() {
  const auto index = cache().index();
  return {std::string(reinterpret_cast<const char*>(index.data()), index.size())};
}

std::string_view unit_name() {
  return "indexes";
}

}  // namespace runnel::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace runnel;
  std::string index(reinterpret_cast<const char*>(data), size);
  index.resize(fuzz::cache().index().size());
  const test::MutatedOutcome outcome = test::outcome_of(index, fuzz::cache(), fuzz::kWindows);
  fuzz::tell_outcome(outcome.num_adopted == 0 ? "nothing" : outcome.num_dropped > 0 ? "a part" : "all");
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t, unsigned int seed) {
  using namespace runnel;
  std::string index(reinterpret_cast<const char*>(data), size);
  index.resize(fuzz::cache().index().size());
  fuzz::Random random(seed);
  test::mutate_index(index, fuzz::cache().shape.num_blocks, random);
  std::memcpy(data, index.data(), index.size());
  return index.size();
}

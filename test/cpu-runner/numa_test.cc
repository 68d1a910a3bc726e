// Threads of several NUMA nodes compute the bits that threads of one compute. The nodes are made up.
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "test/cpu-runner/cpu_harness.h"
#include "test/fixtures/golden_models.h"
#include "test/fixtures/tensor_parallel.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

using namespace test;

// What fn returns for the model on threads of so many nodes.
template <typename Fn>
auto on_nodes(EngineFlags flags, uint32_t num_nodes, const Fn& fn) {
  flags.num_nodes = num_nodes;
  const Result<LoadedModel> loaded = load(flags, *make_cpu_backend(flags.backend_options()), {});
  if (!loaded.ok()) FAIL(loaded.error().message);
  return fn(*loaded);
}

// Also checks that no thread has taken a chunk of another node while its own had one.
void check_logits(const std::string& path, const std::vector<uint32_t>& ids, uint32_t max_positions) {
  CAPTURE(path);
  const Logits wanted = CpuHarness(path, {.max_positions = max_positions}).run(ids, 64);
  for (const uint32_t num_nodes : {2u, 4u}) {
    for (const uint32_t num_threads : {1u, 2u, 3u, 5u, 8u}) {
      CAPTURE(num_nodes);
      CAPTURE(num_threads);
      const std::shared_ptr<ThreadPool> threads = pool_on_nodes(num_threads, num_nodes);
      ModelHarness harness(path, make_cpu_backend_on(threads, {}), 32, 0, max_positions);
      CHECK(same_bits(harness.run(ids, 17), wanted));
      CHECK(threads->counts().num_too_early == 0);
      if (num_threads > 1) CHECK(threads->counts().num_chunks > 0);
    }
  }
}

}  // namespace

TEST_CASE("numa: each architecture has the same logits on any number of nodes and threads") {
  for (const GoldenModel& model : kGoldenModels) {
    check_logits(q8_0_path(model), Golden(model).ids(), model.max_positions);
  }
}

TEST_CASE("numa: float weights, and experts of many tiles, have the same logits on any number of nodes") {
  const TemporaryFile experts(wide_qwen3moe().bytes());
  for (const std::string& path : {golden_model_path("llama3-f32.gguf"), experts.path()})
    check_logits(path, count_from(1, 40), 0);
}

TEST_CASE("numa: requests in company have the same tokens on any number of nodes") {
  const TemporaryFile experts(wide_qwen3moe().bytes());
  for (const std::string& path :
       {golden_model_path("llama3-q8_0.gguf"), experts.path(), golden_model_path("gemma3-q8_0.gguf"),
        golden_model_path("gpt2-q8_0.gguf")}) {
    CAPTURE(path);
    const auto answers = [](const LoadedModel& loaded) { return test::answers_of(loaded); };
    EngineFlags flags = small_flags_for(path);
    flags.num_threads = 1;
    const auto expected = on_nodes(flags, 1, answers);
    flags.num_threads = 5;
    for (const uint32_t num_nodes : {1u, 2u, 4u}) {
      CAPTURE(num_nodes);
      CHECK(on_nodes(flags, num_nodes, answers) == expected);
    }
  }
}

TEST_CASE("numa: an encoder has the same vectors on any number of nodes") {
  EngineFlags flags = small_flags_for(golden_model_path("bert-q8_0.gguf"));
  const Logits expected = on_nodes(flags, 1, vectors_of);
  CHECK(expected.size() == 4);
  for (const uint32_t num_threads : {1u, 3u, 8u}) {
    flags.num_threads = num_threads;
    for (const uint32_t num_nodes : {2u, 4u})
      CHECK(same_bits(on_nodes(flags, num_nodes, vectors_of), expected));
  }
}

TEST_CASE("numa: a device says of how many nodes its threads are, if there are several") {
  EngineFlags flags = small_flags_for(golden_model_path("llama3-q8_0.gguf"));
  flags.num_threads = 3;
  const auto device = [](const LoadedModel& loaded) { return loaded.backend->device().name(); };
  CHECK(on_nodes(flags, 1, device).ends_with(", 3 threads"));
  CHECK(on_nodes(flags, 2, device).ends_with(", 3 threads on 2 nodes"));
  CHECK(on_nodes(flags, 8, device).ends_with(", 3 threads on 3 nodes"));
}

}  // namespace runnel

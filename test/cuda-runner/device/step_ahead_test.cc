// Engines whose steps the device computes ahead: the tokens are those of an engine that launches each kernel
// of each step when it is wanted.
#include <map>
#include <random>

#include "cuda-runner/cuda_backend.h"
#include "cuda-runner/emulator/counters.h"
#include "cuda-runner/emulator/settings.h"
#include "runner/commands/loaded_model.h"
#include "test/cuda-runner/on_device.h"
#include "test/fixtures/engine_fixture.h"
#include "test/fixtures/sequences.h"
#include "test/fixtures/tensor_parallel.h"
#include "test/fixtures/tiny_llama.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

using namespace test;

struct Options {
  bool enforce_eager = false;
  uint32_t num_blocks = 512;
  uint32_t num_gpus = 1;
};

// On a machine with two emulated GPUs.
class Served {
 public:
  Served() {
    emulator::Settings settings = emulator::settings_from_environment();
    settings.num_devices = 2;
    emulator::start(settings);
  }
  // The next test has the machine as it was.
  ~Served() { emulator::start(emulator::settings_from_environment()); }

  LoadedModel load_it(const Options& options = {}) const {
    EngineFlags flags;
    flags.set_gpu_defaults();
    flags = small_flags_for(file_.path(), flags);
    flags.num_kvcache_blocks = options.num_blocks;
    flags.enforce_eager = options.enforce_eager;
    flags.num_ranks = options.num_gpus;
    Result<LoadedModel> loaded =
        load(flags, make_cuda_backend(flags.backend_options()).value(), [](uint64_t, uint64_t) {});
    if (!loaded.ok()) FAIL(loaded.error().message);
    return *std::move(loaded);
  }
  uint32_t vocab_size() const { return TinyLlama().vocab; }

 private:
  TemporaryFile file_{write_tiny_llama({.window = 37}).bytes()};
};

// Of steps without errors.
void collect_good(const StepOutput& output, Answers& answers) {
  CHECK(output.errors.empty());
  collect(output, answers);
}

Answers run_good(Engine& engine) {
  Answers answers;
  while (engine.has_work()) collect_good(engine.step(), answers);
  return answers;
}

Sequence plain(uint32_t id, uint32_t max_tokens) {
  Sequence sequence = sequence_of(id, count_from(id, 3 + id), max_tokens);
  sequence.sampling = {.temperature = id % 2 == 0 ? 0.0f : 0.9f, .top_k = id % 3 * 20, .seed = id};
  return sequence;
}

TEST_CASE_FIXTURE(Served, "step ahead: all next tokens are computed ahead but for those of the first steps") {
  constexpr uint32_t kRequests = 3;
  constexpr uint32_t kTokens = 40;
  const auto add_all = [&](Engine& engine) {
    for (uint32_t id = 1; id <= kRequests; ++id) CHECK_FALSE(engine.add(plain(id, kTokens + id)));
  };
  LoadedModel eager = load_it({.enforce_eager = true});
  add_all(*eager.engine);
  const Answers wanted = run_good(*eager.engine);
  CHECK(eager.backend->num_rows_ahead() == 0);

  for (const uint32_t num_gpus : {1u, 2u}) {
    CAPTURE(num_gpus);
    LoadedModel loaded = load_it({.num_gpus = num_gpus});
    add_all(*loaded.engine);
    CHECK(run_good(*loaded.engine) == wanted);
    // A prompt's step gives the first token. Graphs for three, two and one sequence are captured first.
    const uint64_t num_next_tokens = 3 * (kTokens - 1) + 1 + 2 + 3;
    CHECK(loaded.backend->num_rows_ahead() >= num_next_tokens - 3 - 2 - 1);
  }
}

TEST_CASE_FIXTURE(Served, "step ahead: when the tokens of a step are known, the device has the next one") {
  LoadedModel loaded = load_it();
  Engine& engine = *loaded.engine;
  for (uint32_t id = 1; id <= 2; ++id) CHECK_FALSE(engine.add(plain(id, 60)));
  for (uint32_t step = 0; step < 10; ++step) engine.step();
  // Work runs when something waits for it.
  require_success(cudaDeviceSynchronize());
  const emulator::Counters counters;
  const auto launches = [&](const char* kernels) { return counters.of(kernels).launches; };
  CHECK(engine.step().tokens.size() == 2);
  CHECK(launches("") == 0);
  require_success(cudaDeviceSynchronize());
  CHECK(launches("feed_kernel") == 1);
  CHECK(launches("embed_kernel") == 1);
  CHECK(launches("choose_kernel") == 1);
}

TEST_CASE_FIXTURE(Served,
                  "step ahead: a request that is cancelled during the step before leaves the others alone") {
  LoadedModel eager = load_it({.enforce_eager = true});
  LoadedModel loaded = load_it();
  constexpr uint32_t kRequests = 4;
  for (uint32_t id = 1; id <= kRequests; ++id) {
    CHECK_FALSE(eager.engine->add(plain(id, 9)));
    CHECK_FALSE(loaded.engine->add(plain(id, 9)));
  }
  Answers wanted = run_good(*eager.engine);
  Answers answers;
  // The prompts, and then the first step of next tokens. Its rows of three requests follow each other in the
  // step ahead.
  collect_good(loaded.engine->step(), answers);
  const Plan plan = loaded.engine->schedule();
  REQUIRE(plan.num_decoding == kRequests);
  collect_good(loaded.engine->compute(plan, [&] { loaded.engine->cancel(2); }), answers);
  while (loaded.engine->has_work()) collect_good(loaded.engine->step(), answers);
  wanted[2].resize(1);
  CHECK(answers == wanted);
  CHECK(loaded.backend->num_rows_ahead() == 3 * 7);
}

// Requests of all kinds that come, are paused and cancelled at random.
struct Turmoil {
  explicit Turmoil(uint64_t seed) : random(seed) {}

  uint32_t below(uint32_t limit) { return static_cast<uint32_t>(random() % limit); }

  Sequence next(uint32_t id, uint32_t vocab_size) {
    std::vector<uint32_t> prompt(1 + below(20));
    for (uint32_t& token : prompt) token = below(vocab_size);
    Sequence sequence = sequence_of(id, std::move(prompt), 1 + below(40));
    sequence.sampling = {.temperature = below(2) == 0 ? 0.0f : 1.0f, .seed = id};
    if (below(4) == 0) sequence.sampling.top_p = 0.9f;
    if (below(12) == 0) sequence.sampling.repetition_penalty = 1.2f;
    if (below(12) == 0) sequence.sampling.banned_ids = {below(vocab_size)};
    if (below(12) == 0) sequence.top_logprobs = 2;
    if (below(12) == 0) sequence.mask = std::make_shared<ThirdOfIds>();
    for (uint32_t i = 0; i < 6; ++i) sequence.stop_ids.push_back(below(vocab_size));
    sequence.min_tokens = std::min(sequence.max_tokens, below(4));
    return sequence;
  }

  std::mt19937_64 random;
};

TEST_CASE_FIXTURE(Served, "step ahead: tokens are the same, whatever comes and goes between two steps") {
  const uint64_t seed = std::random_device{}();
  CAPTURE(seed);
  Turmoil turmoil(seed);
  LoadedModel eager = load_it({.enforce_eager = true});
  uint64_t num_rows_ahead = 0;
  uint64_t num_preemptions = 0;
  for (uint32_t round = 0; round < 3; ++round) {
    CAPTURE(round);
    // First many come at once, and there is room for one or two of the longest.
    LoadedModel loaded = load_it({.num_blocks = round == 0 ? 10u : 60u, .num_gpus = round == 2 ? 2u : 1u});
    const uint32_t steps_between = round == 0 ? 2 : 8;
    Engine& engine = *loaded.engine;
    std::vector<Sequence> added;
    Answers answers;
    std::map<uint32_t, bool> cancelled;
    uint32_t num_steps = 0;
    while (added.size() < 14 || engine.has_work() || engine.num_requests() > 0) {
      REQUIRE(++num_steps < 3000);
      if (added.size() < 14 && (turmoil.below(steps_between) == 0 || !engine.has_work())) {
        Sequence sequence = turmoil.next(static_cast<uint32_t>(added.size() + 1), vocab_size());
        added.push_back(sequence);
        CHECK_FALSE(engine.add(std::move(sequence)));
      }
      const uint32_t chosen = 1 + turmoil.below(static_cast<uint32_t>(added.size()));
      const uint32_t action = turmoil.below(20);
      if (action == 0) engine.pause(chosen);
      if (action == 1 && turmoil.below(4) == 0) cancelled[chosen] |= engine.cancel(chosen);
      if (action > 15 || !engine.has_work()) engine.resume_all();
      if (!engine.has_work()) continue;
      const uint32_t late = turmoil.below(30);
      const auto during_step = [&] {
        if (late == 0) cancelled[chosen] |= engine.cancel(chosen);
      };
      const Plan plan = engine.schedule();
      collect_good(engine.compute(plan, during_step), answers);
    }
    num_rows_ahead += loaded.backend->num_rows_ahead();
    num_preemptions += engine.scheduler().counts().num_preemptions;
    for (Sequence& sequence : added) {
      const uint32_t id = sequence.request_id;
      if (sequence.mask) sequence.mask = std::make_shared<ThirdOfIds>();
      CHECK_FALSE(eager.engine->add(std::move(sequence)));
      std::vector<uint32_t> wanted = run_good(*eager.engine)[id];
      CAPTURE(id);
      if (cancelled[id]) {
        REQUIRE(answers[id].size() <= wanted.size());
        wanted.resize(answers[id].size());
      }
      REQUIRE(answers[id] == wanted);
    }
  }
  CHECK(num_rows_ahead > 50);
  CHECK(num_preemptions > 0);
}

}  // namespace
}  // namespace runnel

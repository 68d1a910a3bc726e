// The number of sequences that get next tokens while prompts of others are computed.
#include <deque>
#include <memory>
#include <random>

#include "test/fixtures/scheduling.h"
#include "test/fixtures/sequences.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

constexpr uint32_t kNumSteps = 4000;
// Steps that are not counted, since all clients begin at once.
constexpr uint32_t kNumWarmupSteps = 1000;

struct Load {
  uint32_t num_clients;
  uint32_t num_prompt_tokens;
  uint32_t max_tokens;
  bool varies = false;  // answers of half to one and a half times max_tokens
};

// Clients that send the next request as soon as they have their answer. No two prompts begin with the same
// token.
class ClosedLoop {
 public:
  ClosedLoop(Scheduler& scheduler, const Load& load) : scheduler_(scheduler), load_(load) {
    for (uint32_t i = 0; i < load.num_clients; ++i) ask();
  }

  // The mean number of sequences that get a next token in a step.
  double mean_decoding() {
    uint64_t num_decoding = 0;
    for (uint32_t i = 0; i < kNumSteps; ++i) {
      const Plan plan = scheduler_.schedule();
      if (i >= kNumWarmupSteps) num_decoding += plan.num_decoding;
      compute(scheduler_, plan);
      std::erase_if(sequences_,
                    [](const auto& sequence) { return sequence->status == SequenceStatus::kFinished; });
      while (sequences_.size() < load_.num_clients) ask();
    }
    return static_cast<double>(num_decoding) / (kNumSteps - kNumWarmupSteps);
  }

 private:
  void ask() {
    const uint32_t id = next_id_++;
    std::vector<uint32_t> prompt(load_.num_prompt_tokens, 1);
    prompt.front() = 1000 + id;
    const auto half = load_.max_tokens / 2;
    const uint32_t num_tokens =
        load_.varies ? half + static_cast<uint32_t>(random_() % load_.max_tokens) : load_.max_tokens;
    sequences_.push_back(std::make_unique<Sequence>(sequence_of(id, std::move(prompt), num_tokens)));
    scheduler_.add(*sequences_.back());
  }

  Scheduler& scheduler_;
  Load load_;
  std::mt19937_64 random_{1};
  uint32_t next_id_ = 1;
  std::deque<std::unique_ptr<Sequence>> sequences_;
};

// A scheduler with the default limits of the commands, and blocks for all sequences.
Scheduler scheduler_of(uint32_t mixed_prefill_tokens = 24) {
  return Scheduler({.max_num_batched_tokens = 256,
                    .max_num_seqs = 64,
                    .block_size = 32,
                    .num_blocks = 4096,
                    .mixed_prefill_tokens = mixed_prefill_tokens});
}

double mean_decoding(const Load& load) {
  Scheduler scheduler = scheduler_of();
  return ClosedLoop(scheduler, load).mean_decoding();
}

}  // namespace

TEST_CASE("scheduler: of 32 clients that ask again at once, nearly all get next tokens on average") {
  for (const bool varies : {false, true}) {
    CAPTURE(varies);
    CHECK(mean_decoding({32, 32, 128, varies}) >= 31);
    CHECK(mean_decoding({32, 128, 128, varies}) >= 30);
    CHECK(mean_decoding({32, 512, 128, varies}) >= 27);
  }
  // With four times as many clients as places, nearly all places are taken.
  CHECK(mean_decoding({256, 128, 128, true}) >= 62);
}

}  // namespace runnel

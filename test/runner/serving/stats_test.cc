#include "runner/serving/stats.h"

#include "test/fixtures/fake_model.h"
#include "test/fixtures/kept_blocks.h"
#include "test/fixtures/sequences.h"
#include "test/unit_test.h"

namespace runnel {

TEST_CASE("stats: every figure is what happened") {
  const SchedulerConfig scheduler{.max_num_batched_tokens = 64,
                                  .max_num_seqs = 8,
                                  .block_size = 8,
                                  .num_blocks = 40,
                                  .mixed_prefill_tokens = 16};
  FakeModel model(8, 40, 64);
  std::chrono::steady_clock::time_point now{};
  model.in_layer = [&] { now += std::chrono::microseconds(5); };
  Engine engine(model, {.max_model_len = 200, .scheduler = scheduler}, [&] { return now; });
  CHECK_FALSE(engine.add(sequence_of(1, count_from(1, 20), 3)));
  engine.step();                                                  // prefill
  CHECK_FALSE(engine.add(sequence_of(2, count_from(1, 20), 9)));  // finds 2 blocks
  engine.step();                                                  // mixed
  engine.step();                                                  // decode; the first ends
  CHECK_FALSE(engine.add(sequence_of(3, count_from(50, 10), 9)));
  engine.pause(3);
  CHECK_FALSE(engine.add(sequence_of(4, count_from(70, 10), 9)));
  CHECK_FALSE(engine.add(sequence_of(5, count_from(80, 10), 9)));
  CHECK(engine.cancel(5));
  CHECK_FALSE(engine.add(sequence_of(6, count_from(90, 10), 9)));
  CHECK(engine.cancel(6, /*is_complete=*/true));

  const wire::Stats stats = stats_of(engine);
  CHECK(stats.num_waiting() == 1);
  CHECK(stats.num_running() == 1);
  CHECK(stats.num_paused() == 1);
  CHECK(stats.num_finished() == 2);  // one of them by a cancel
  CHECK(stats.num_failed() == 1);
  CHECK(stats.num_preemptions() == 0);
  CHECK(stats.num_prefill_steps() == 1);
  CHECK(stats.num_mixed_steps() == 1);
  CHECK(stats.num_decode_steps() == 1);
  CHECK(stats.num_prefill_sequences() == 2);
  CHECK(stats.num_decode_sequences() == 3);
  CHECK(stats.num_prefill_tokens() == 24);
  CHECK(stats.num_cached_tokens() == 16);
  CHECK(stats.num_generated_tokens() == 5);
  CHECK(stats.num_free_blocks() == 37);
  CHECK(stats.num_reusable_blocks() == 0);  // the second sequence uses both full blocks of the first
  CHECK(stats.busy_us() == 3 * 3 * 5);

  CHECK(engine.cancel(2));
  CHECK(stats_of(engine).num_reusable_blocks() == 2);
}

TEST_CASE("stats: drafts are counted when computed and when accepted") {
  FakeModel model(8, 40, 64);
  const SchedulerConfig scheduler{.max_num_batched_tokens = 64,
                                  .max_num_seqs = 8,
                                  .block_size = 8,
                                  .num_blocks = 40,
                                  .speculation = true};
  Engine engine(model, {.max_model_len = 200, .scheduler = scheduler});
  Sequence request = sequence_of(1, {5, 5, 5, 5, 5}, 30);
  request.sampling.allowed_ids = {5};
  CHECK_FALSE(engine.add(request));
  engine.step();
  CHECK(stats_of(engine).num_draft_tokens() == 0);
  engine.step();
  CHECK(stats_of(engine).num_draft_tokens() == 2);
  CHECK(stats_of(engine).num_accepted_draft_tokens() == 2);
  CHECK(stats_of(engine).num_generated_tokens() == 4);
}

TEST_CASE(
    "stats: blocks of a dead runner are counted when taken over, and those that are damaged when needed") {
  const test::KeptBlocks kept(40);
  {
    test::KeptLife life(kept);
    Sequence text = test::text_of(1, 13);
    life.fill(text);
  }
  // The blocks of a fresh manager are taken in order.
  kept.blocks()[2 * kept.shape.block_bytes] ^= std::byte{1};
  KvIndex index = kept.open();
  FakeModel model(test::kKeptBlockSize, 40, 64);
  const SchedulerConfig scheduler{.max_num_batched_tokens = 64,
                                  .max_num_seqs = 8,
                                  .block_size = test::kKeptBlockSize,
                                  .num_blocks = 40,
                                  .kv_index = &index};
  Engine engine(model, {.max_model_len = 160, .scheduler = scheduler});
  CHECK(stats_of(engine).num_adopted_blocks() == 3);
  CHECK(stats_of(engine).num_dropped_blocks() == 0);
  CHECK_FALSE(engine.add(test::text_of(1, 13)));
  engine.step();
  CHECK(stats_of(engine).num_adopted_blocks() == 3);
  CHECK(stats_of(engine).num_dropped_blocks() == 1);
  CHECK(stats_of(engine).num_cached_tokens() == 8);
}

}  // namespace runnel

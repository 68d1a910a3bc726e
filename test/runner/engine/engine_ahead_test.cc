// What an engine tells its model of the next step, so that a device can compute it ahead.
#include <random>

#include "test/fixtures/engine_fixture.h"

namespace runnel {
namespace {

// The model of the other tests, which keeps what it was told of the last step.
class ToldModel final : public Model {
 public:
  explicit ToldModel(const SchedulerConfig& config)
      : model_(config.block_size, config.num_blocks, config.max_num_batched_tokens),
        block_size_(config.block_size) {}

  struct Row {
    uint64_t serial;
    uint32_t position;
    bool has_next_place;  // the block tables have a place for the row after it

    friend bool operator==(const Row& a, const Row& b) {
      return a.serial == b.serial && a.position == b.position;
    }
  };

  const ModelConfig& config() const override { return model_.config(); }
  void forward(Batch& batch, const BetweenLayers& between_layers) override {
    repeats = batch.repeats;
    rows.clear();
    are_last.clear();
    for (const BatchSequence& sequence : batch.sequences) {
      const uint32_t position = sequence.first_position + sequence.num_rows - 1;
      const size_t num_places = sequence.block_tables[0].size() * block_size_;
      rows.push_back({sequence.serial, position, position + 1 < num_places});
    }
    model_.forward(batch, between_layers);
  }
  LogitRows& logits(std::span<const HeadRow> wanted) override {
    for (const HeadRow& row : wanted) are_last.push_back(row.is_last);
    return model_.logits(wanted);
  }

  std::vector<float> states(std::span<const uint32_t> wanted) override { return model_.states(wanted); }
  float classify(std::span<const float> state) const override { return model_.classify(state); }

  bool repeats = false;
  std::vector<Row> rows;
  std::vector<bool> are_last;

 private:
  FakeModel model_;
  uint32_t block_size_;
};

SchedulerConfig config_of(bool speculation) {
  SchedulerConfig config = roomy();
  config.speculation = speculation;
  config.reserves_next = true;
  return config;
}

}  // namespace

TEST_CASE("engine: a batch that repeats is followed by the next row of each sequence that goes on") {
  const uint64_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const auto below = [&](uint64_t limit) { return static_cast<uint32_t>(random() % limit); };
  const SchedulerConfig config = config_of(false);
  ToldModel model(config);
  Engine engine(model, {.max_model_len = 100, .scheduler = config});
  uint32_t num_repeating = 0;
  uint32_t num_stopped = 0;
  std::vector<ToldModel::Row> expected;
  bool is_expected = false;
  for (uint32_t step = 0; step < 2000; ++step) {
    if (below(5) == 0 && engine.num_requests() < 12) {
      Sequence sequence = sampled(step + 1, count_from(below(50), 1 + below(30)), 1 + below(60));
      for (uint32_t i = 0; i < 3; ++i) sequence.stop_ids.push_back(below(kFakeVocabSize));
      CHECK_FALSE(engine.add(std::move(sequence)));
      is_expected = false;
    }
    if (!engine.has_work()) continue;
    const Plan plan = engine.schedule();
    const StepOutput output = engine.compute(plan);
    if (is_expected) REQUIRE(model.rows == expected);
    is_expected = model.repeats;
    if (!model.repeats) continue;
    ++num_repeating;
    REQUIRE(output.tokens.size() == model.rows.size());
    expected.clear();
    for (size_t i = 0; i < model.rows.size(); ++i) {
      const auto& [serial, position, has_next_place] = model.rows[i];
      const FinishReason reason = output.tokens[i].finish_reason;
      if (model.are_last[i]) {
        CHECK(reason != FinishReason::kNone);
        continue;
      }
      CHECK(reason != FinishReason::kMaxTokens);
      CHECK(has_next_place);
      if (reason == FinishReason::kNone) expected.push_back({serial, position + 1, true});
      num_stopped += reason == FinishReason::kStopId;
    }
    is_expected = !expected.empty();
  }
  CHECK(num_repeating > 100);
  CHECK(num_stopped > 0);
}

TEST_CASE("engine: with drafts no batch repeats") {
  const SchedulerConfig config = config_of(true);
  ToldModel model(config);
  Engine engine(model, {.max_model_len = 100, .scheduler = config});
  CHECK_FALSE(engine.add(sampled(1, count_from(1, 4), 20)));
  while (engine.has_work()) {
    engine.step();
    CHECK_FALSE(model.repeats);
  }
}

}  // namespace runnel

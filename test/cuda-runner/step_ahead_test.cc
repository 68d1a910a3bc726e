// What is computed ahead, and which rows of the next batch are found in it.
#include "cuda-runner/step_ahead.h"

#include <deque>
#include <functional>

#include "test/unit_test.h"

namespace runnel {
namespace {

constexpr uint32_t kBlockSize = 4;
constexpr uint32_t kMaxRows = 8;

using Numbers = std::vector<std::optional<uint32_t>>;

// A step of sequences with a row each. Their serials are 1, 2 and so on.
class Steps {
 public:
  struct Sequence {
    uint32_t position;
    std::vector<std::vector<uint32_t>> tables;  // of each group
    SamplingParams params = {};
  };

  Steps() { ahead.start(kBlockSize, kMaxRows); }

  Sequence& add(uint32_t position, std::vector<std::vector<uint32_t>> tables) {
    return sequences.emplace_back(position, std::move(tables));
  }

  // The batch of the next row of these sequences, which it refers to.
  Batch batch_of(const std::vector<uint32_t>& numbers) const {
    Batch batch;
    for (const uint32_t number : numbers) {
      const Sequence& sequence = sequences[number - 1];
      batch.sequences.push_back({batch.num_rows(), 1, sequence.position, sequence.tables, number});
      batch.token_ids.push_back(0);
      batch.positions.push_back(sequence.position);
    }
    batch.repeats = true;
    return batch;
  }
  // What is needed of its rows.
  std::vector<HeadRow> rows_of(const std::vector<uint32_t>& numbers) const {
    static constexpr uint32_t kToken = 0;
    std::vector<HeadRow> rows;
    for (const uint32_t number : numbers)
      rows.push_back({.row = static_cast<uint32_t>(rows.size()),
                      .draw = Draw{{&kToken, 1}, 1, sequences[number - 1].params}});
    return rows;
  }
  // Computes a step, and the next one ahead if it can be. Returns whether it can.
  bool step(const std::vector<uint32_t>& numbers) {
    last = batch_of(numbers);
    ahead.begin(last);
    const std::vector<HeadRow> rows = rows_of(numbers);
    const std::optional<StepAhead::Next> next = ahead.next(rows);
    if (next) ahead.launched(next->batch);
    for (const uint32_t number : numbers) ++sequences[number - 1].position;
    return next.has_value();
  }
  // The number of each row of the batch in the step ahead.
  Numbers found_in(const Batch& batch) {
    last = batch;
    ahead.begin(last);
    Numbers numbers;
    for (uint32_t row = 0; row < last.num_rows(); ++row) numbers.push_back(ahead.computed(row));
    return numbers;
  }

  StepAhead ahead;
  std::deque<Sequence> sequences;
  Batch last;
};

TEST_CASE("step ahead: it has the next row of each sequence, which gets the token of its draw") {
  Steps steps;
  steps.add(2, {{5, 6}});
  steps.add(7, {{0, 1, 2}});
  steps.last = steps.batch_of({1, 2});
  steps.ahead.begin(steps.last);
  CHECK(&steps.ahead.rest() == &steps.last);
  const auto next = steps.ahead.next(steps.rows_of({1, 2}));
  REQUIRE(next);
  CHECK(next->batch.positions == std::vector<uint32_t>{3, 8});
  CHECK(next->batch.token_ids == std::vector<uint32_t>{0, 1});
  REQUIRE(next->rows.size() == 2);
  CHECK(next->rows[1].row == 1);
  CHECK(&next->rows[1].draw->params == &steps.sequences[1].params);

  steps.ahead.launched(next->batch);
  steps.sequences[0].position = 3;
  steps.sequences[1].position = 8;
  CHECK(steps.found_in(steps.batch_of({1, 2})) == Numbers{0, 1});
  CHECK(steps.ahead.rest().num_rows() == 0);
  CHECK(steps.ahead.num_rows() == 2);
}

TEST_CASE("step ahead: sequences that have ended leave the others where they are") {
  Steps steps;
  for (uint32_t i = 0; i < 4; ++i) steps.add(0, {{i}});
  REQUIRE(steps.step({1, 2, 3, 4}));
  CHECK(steps.found_in(steps.batch_of({2, 4})) == Numbers{1, 3});
  CHECK(steps.ahead.rest().num_rows() == 0);
  // The draws of the last launch are those of the step ahead.
  const auto next = steps.ahead.next(steps.rows_of({2, 4}));
  REQUIRE(next);
  CHECK(next->batch.token_ids == std::vector<uint32_t>{1, 3});
}

TEST_CASE("step ahead: rows that it has not are the rest, and the step after these is not computed ahead") {
  Steps steps;
  for (uint32_t i = 0; i < 3; ++i) steps.add(0, {{i}});
  REQUIRE(steps.step({1, 2}));
  // The third sequence begins, with a prompt of two tokens.
  Batch batch = steps.batch_of({1, 3, 2});
  batch.sequences[1].num_rows = 2;
  batch.sequences[2].first_row = 3;
  batch.token_ids = {10, 11, 12, 13};
  batch.positions = {1, 0, 1, 1};
  batch.types = {0, 1, 1, 0};
  CHECK(steps.found_in(batch) == Numbers{0, std::nullopt, std::nullopt, 1});
  const Batch& rest = steps.ahead.rest();
  CHECK(rest.token_ids == std::vector<uint32_t>{11, 12});
  CHECK(rest.positions == std::vector<uint32_t>{0, 1});
  CHECK(rest.types == std::vector<uint32_t>{1, 1});
  REQUIRE(rest.sequences.size() == 1);
  CHECK(rest.sequences[0].first_row == 0);
  CHECK(rest.sequences[0].num_rows == 2);
  CHECK(steps.ahead.rest_row(2) == 1);
  CHECK_FALSE(steps.ahead.next(steps.rows_of({1})));
}

TEST_CASE("step ahead: a row counts only once, for its sequence, position and blocks") {
  Steps steps;
  steps.add(4, {{1, 2}, {3, 4}});
  const Batch wanted = [&] {
    REQUIRE(steps.step({1}));
    return steps.batch_of({1});
  }();
  Batch of_another = wanted;
  of_another.sequences[0].serial = 2;
  Batch later = wanted;
  later.sequences[0].first_position = 6;
  Batch of_two_rows = wanted;
  of_two_rows.sequences[0].num_rows = 2;
  of_two_rows.token_ids.push_back(0);
  of_two_rows.positions.push_back(6);
  const std::vector<std::vector<uint32_t>> moved = {{1, 2}, {3, 9}};
  Batch with_another_block = wanted;
  with_another_block.sequences[0].block_tables = moved;
  // Blocks of positions before do not matter, since their contents stay the same.
  const std::vector<std::vector<uint32_t>> shared = {{7, 2}, {3, 4}};
  Batch with_another_before = wanted;
  with_another_before.sequences[0].block_tables = shared;

  const auto is_found = [&](const Batch& batch) {
    steps.sequences[0].position = 4;
    REQUIRE(steps.step({1}));
    return steps.found_in(batch).front().has_value();
  };
  CHECK(is_found(wanted));
  CHECK_FALSE(is_found(of_another));
  CHECK_FALSE(is_found(later));
  CHECK_FALSE(is_found(of_two_rows));
  CHECK_FALSE(is_found(with_another_block));
  CHECK(is_found(with_another_before));
  CHECK(steps.found_in(wanted) == Numbers{std::nullopt});  // the second time
}

TEST_CASE("step ahead: there is none where the device does not know what the host will ask for") {
  const auto can = [](const std::function<void(Steps&, Batch&, std::vector<HeadRow>&)>& change) {
    Steps steps;
    steps.add(2, {{5, 6}});
    steps.add(3, {{0, 1}});
    steps.last = steps.batch_of({1, 2});
    std::vector<HeadRow> rows = steps.rows_of({1, 2});
    change(steps, steps.last, rows);
    steps.ahead.begin(steps.last);
    return steps.ahead.next(rows).has_value();
  };
  CHECK(can([](Steps&, Batch&, std::vector<HeadRow>&) {}));
  CHECK_FALSE(can([](Steps&, Batch& batch, std::vector<HeadRow>&) { batch.repeats = false; }));
  CHECK_FALSE(can([](Steps&, Batch&, std::vector<HeadRow>& rows) { rows[1].wants_logits = true; }));
  CHECK_FALSE(can([](Steps&, Batch&, std::vector<HeadRow>& rows) { rows[0].draw.reset(); }));
  CHECK_FALSE(can([](Steps& steps, Batch&, std::vector<HeadRow>&) {
    steps.sequences[0].params.presence_penalty = 0.1f;
  }));
  CHECK_FALSE(
      can([](Steps& steps, Batch&, std::vector<HeadRow>&) { steps.sequences[0].params.banned_ids = {3}; }));
  // The second one has no place for position 4.
  CHECK_FALSE(can([](Steps& steps, Batch& batch, std::vector<HeadRow>&) {
    steps.sequences[1].tables = {{0}};
    batch.sequences[1].block_tables = steps.sequences[1].tables;
  }));
  // One that ends needs none.
  CHECK(can([](Steps& steps, Batch& batch, std::vector<HeadRow>& rows) {
    steps.sequences[1].tables = {{0}};
    batch.sequences[1].block_tables = steps.sequences[1].tables;
    rows[1].is_last = true;
  }));
  CHECK_FALSE(can([](Steps&, Batch&, std::vector<HeadRow>& rows) {
    for (HeadRow& row : rows) row.is_last = true;
  }));
  CHECK_FALSE(can([](Steps& steps, Batch& batch, std::vector<HeadRow>&) {
    while (steps.sequences.size() <= kMaxRows) steps.add(0, {{0}});
    std::vector<uint32_t> all;
    for (uint32_t number = 1; number <= steps.sequences.size(); ++number) all.push_back(number);
    batch = steps.batch_of(all);
  }));
}

}  // namespace
}  // namespace runnel

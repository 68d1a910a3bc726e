// The wait of a resumed sequence after others have taken its place.
#include <deque>

#include "test/fixtures/scheduling.h"
#include "test/fixtures/sequences.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

constexpr uint32_t kNumPlaces = 2;
constexpr uint32_t kLongAnswer = 90;

SchedulerConfig config_of_turns(bool mixed_batches, uint32_t num_blocks = 200) {
  return {.max_num_batched_tokens = 64,
          .max_num_seqs = kNumPlaces,
          .block_size = 4,
          .num_blocks = num_blocks,
          .mixed_batches = mixed_batches};
}

// Steps until the sequence has computed, this one included.
uint32_t steps_until_turn(Scheduler& scheduler, const Sequence& sequence) {
  const uint32_t num_cached_before = sequence.num_cached_tokens;
  for (uint32_t num_steps = 1;; ++num_steps) {
    REQUIRE(num_steps < 1000);
    step(scheduler);
    scheduler.check_integrity();
    if (sequence.num_cached_tokens > num_cached_before) return num_steps;
  }
}

}  // namespace

TEST_CASE("scheduler: a resumed sequence whose place was taken gets turns at once, and so do the others") {
  for (const bool mixed : {true, false}) {
    CAPTURE(mixed);
    Scheduler scheduler(config_of_turns(mixed));
    std::deque<Sequence> sequences;
    for (uint32_t id = 1; id <= 3; ++id) {
      sequences.push_back(sequence_of(id, count_from(id * 50, 6), kLongAnswer));
      scheduler.add(sequences.back());
    }
    step(scheduler);
    scheduler.pause(sequences[0]);
    while (sequences[2].num_generated() == 0) step(scheduler);
    scheduler.resume(sequences[0]);
    CHECK(scheduler.num_running() == 3);
    // Each of the three running sequences is computed in one of any two steps.
    for (uint32_t i = 0; i < 40; ++i) {
      CAPTURE(i);
      CHECK(steps_until_turn(scheduler, sequences[i % 3]) <= 2);
    }
    while (scheduler.has_work()) step(scheduler);
    for (const Sequence& sequence : sequences) CHECK(sequence.num_generated() == kLongAnswer);
  }
}

TEST_CASE("scheduler: a sequence preempted while paused resumes when blocks are free") {
  for (const bool mixed : {true, false}) {
    CAPTURE(mixed);
    Scheduler scheduler(config_of_turns(mixed, 36));
    Sequence first = sequence_of(1, count_from(50, 40), kLongAnswer);
    Sequence second = sequence_of(2, count_from(100, 8), 60);
    Sequence third = sequence_of(3, count_from(150, 8), 60);
    Sequence large = sequence_of(4, count_from(200, 100), 2);
    scheduler.add(first);
    scheduler.add(second);
    step(scheduler);
    scheduler.pause(first);
    scheduler.add(large);  // takes the blocks of the paused sequence
    while (large.status != SequenceStatus::kFinished) step(scheduler);
    CHECK_FALSE(first.holds_blocks());
    scheduler.add(third);
    while (third.num_generated() == 0) step(scheduler);
    CHECK(scheduler.num_running() == kNumPlaces);
    scheduler.resume(first);
    CHECK(steps_until_turn(scheduler, first) == 1);
    while (scheduler.num_waiting() > 0) step(scheduler);
    CHECK(second.status == SequenceStatus::kRunning);
    CHECK(third.status == SequenceStatus::kRunning);
    while (scheduler.has_work()) step(scheduler);
    CHECK(first.num_generated() == kLongAnswer);
  }
}

TEST_CASE("scheduler: a prompt that was paused after its first rows finds a place though others have all") {
  Scheduler scheduler(config_of_turns(true));
  std::deque<Sequence> sequences;
  for (const uint32_t id : {1, 2}) {
    sequences.push_back(sequence_of(id, count_from(id * 50, 6), kLongAnswer));
    scheduler.add(sequences.back());
    if (id == 1) step(scheduler);
  }
  Sequence& prompt = sequences.emplace_back(sequence_of(3, std::vector<uint32_t>(400, 7), 3));
  scheduler.pause(sequences[1]);
  scheduler.add(prompt);
  step(scheduler);
  CHECK(prompt.num_cached_tokens > 0);
  scheduler.pause(prompt);
  scheduler.resume(sequences[1]);
  while (scheduler.num_running() < kNumPlaces) step(scheduler);
  scheduler.resume(prompt);
  // One place of each step belongs to the prompt. The running sequences share the other one.
  while (prompt.num_generated() == 0) {
    CHECK(steps_until_turn(scheduler, prompt) == 1);
    CHECK(steps_until_turn(scheduler, sequences[0]) <= 2);
    CHECK(steps_until_turn(scheduler, sequences[1]) <= 2);
  }
  while (scheduler.has_work()) step(scheduler);
  for (const Sequence& sequence : sequences) CHECK(sequence.num_generated() == sequence.max_tokens);
}

TEST_CASE("scheduler: of resumed sequences in all places one gives its place to one that lost its blocks") {
  Scheduler scheduler(config_of_turns(true, 36));
  Sequence lost = sequence_of(1, count_from(50, 40), kLongAnswer);
  Sequence second = sequence_of(2, count_from(100, 8), kLongAnswer);
  Sequence third = sequence_of(3, count_from(150, 8), kLongAnswer);
  scheduler.add(lost);
  scheduler.add(second);
  step(scheduler);
  scheduler.pause(lost);
  scheduler.pause(second);
  Sequence large = sequence_of(4, count_from(200, 130), 2);
  scheduler.add(large);
  while (large.status != SequenceStatus::kFinished) step(scheduler);
  CHECK_FALSE(lost.holds_blocks());
  scheduler.add(third);
  while (third.num_generated() == 0) step(scheduler);
  scheduler.resume(second);
  while (second.status != SequenceStatus::kRunning) step(scheduler);
  scheduler.resume(lost);
  // It has no blocks, and two running sequences take all places but the one that is kept for it.
  CHECK(scheduler.num_running() == kNumPlaces);
  CHECK(steps_until_turn(scheduler, lost) == 1);
  CHECK(second.status == SequenceStatus::kRunning);
  CHECK(third.status == SequenceStatus::kRunning);
}

TEST_CASE("scheduler: with one place a resumed sequence and the one in its place take turns") {
  for (const bool mixed : {true, false}) {
    CAPTURE(mixed);
    SchedulerConfig config = config_of_turns(mixed);
    config.max_num_seqs = 1;
    Scheduler scheduler(config);
    Sequence first = sequence_of(1, count_from(50, 6), kLongAnswer);
    Sequence second = sequence_of(2, count_from(100, 6), kLongAnswer);
    scheduler.add(first);
    scheduler.add(second);
    step(scheduler);
    scheduler.pause(first);
    while (second.num_generated() == 0) step(scheduler);
    scheduler.resume(first);
    for (uint32_t i = 0; i < 20; ++i) {
      CHECK(steps_until_turn(scheduler, first) <= 2);
      CHECK(steps_until_turn(scheduler, second) <= 2);
    }
  }
}

TEST_CASE("scheduler: without a pause nobody takes turns, as in the original") {
  Scheduler scheduler(config_of_turns(false));
  std::deque<Sequence> sequences;
  for (uint32_t id = 1; id <= 3; ++id) {
    sequences.push_back(sequence_of(id, count_from(id * 50, 6), 20));
    scheduler.add(sequences.back());
    step(scheduler);
  }
  CHECK(scheduler.num_running() == 3);
  CHECK(steps_until_turn(scheduler, sequences[2]) == 20);
}

TEST_CASE("scheduler: the sequence that has been paused longest loses its blocks first") {
  Scheduler scheduler({.max_num_batched_tokens = 64, .max_num_seqs = 8, .block_size = 4, .num_blocks = 8});
  std::deque<Sequence> sequences;
  for (uint32_t id = 1; id <= 4; ++id) {
    sequences.push_back(sequence_of(id, count_from(id * 50, 6), 30));
    scheduler.add(sequences.back());
  }
  step(scheduler);
  CHECK(scheduler.blocks().pool().num_free() == 0);
  // Pauses are not in the order of arrival.
  for (const size_t i : {2, 0, 1}) scheduler.pause(sequences[i]);
  const auto holds_blocks = [&](size_t i) { return sequences[i].holds_blocks(); };
  while (holds_blocks(2)) step(scheduler);
  CHECK(holds_blocks(0));
  CHECK(holds_blocks(1));
  while (holds_blocks(0)) step(scheduler);
  CHECK(holds_blocks(1));
}

}  // namespace runnel

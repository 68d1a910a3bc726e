// The processes that compute one model together, each with a part of every matrix (shard_plan.h). Rank 0
// leads: it has the gateway's pipes, schedules and draws. The others are started by it, do what it tells, and
// end with it. If one of them dies, the leader dies in the same way, so the group is one process to everybody
// else: it is restarted as a whole.
//
// They meet on a board of floats that all of them see. Each writes its outputs there, and after meet() reads
// those of the others. There are two boards in turn: who writes to one knows that all have read what was on
// it before, since they have met on the other one since.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runner/ranks/shard_plan.h"
#include "runner/result.h"
#include "runner/system/memory.h"

namespace runnel {

class RankGroup {
 public:
  // Limit of the floats of a board: 1 GiB.
  static constexpr uint64_t kMaxBoardFloats = uint64_t{1} << 28;
  // Limit of the words that the leader tells at once.
  static constexpr uint64_t kMaxToldWords = uint64_t{1} << 26;

  // Starts num_ranks - 1 processes that go on from here as this one does. Must be called while there is one
  // thread, and before the sandbox is entered. The new processes read and write no pipe of this one but
  // stderr; leaders_pipe is another one that leads nowhere there, or -1. Fails with kSystem.
  static Result<std::unique_ptr<RankGroup>> start(uint32_t num_ranks, int leaders_pipe = -1);
  // The leader ends the others, whatever they are doing, and waits until they have ended.
  ~RankGroup();

  uint32_t rank() const { return rank_; }
  uint32_t num_ranks() const { return num_ranks_; }
  bool leads() const { return rank_ == 0; }
  // The part of so many things that belongs to a rank: of 5 threads the first 3, or the last 2.
  static RowRange share_of(uint32_t count, uint32_t num_ranks, uint32_t rank);

  // The leader tells all others something, which each of them hears once, in order.
  void tell(std::span<const uint32_t> words);
  // Waits for it. Nothing: the leader has ended.
  std::optional<std::vector<uint32_t>> hear();

  // Every rank calls this with its outcome of the same step, and waits for the others. The leader gets the
  // first error of any rank; of the others, those with an error get it again.
  Result<void> agree(const Result<void>& outcome);

  // The board of this exchange, for at most kMaxBoardFloats.
  float* board();
  // Every rank calls this after it has written so many floats to the board. What others have written can be
  // read until the meeting after the next.
  void meet(uint64_t num_given);
  // Floats that this rank has written to boards.
  uint64_t num_given() const { return num_given_; }

 private:
  struct Shared;

  RankGroup() = default;
  uint32_t* told_words();

  uint32_t rank_ = 0;
  uint32_t num_ranks_ = 1;
  Memory memory_;  // Shared, what the leader tells, the boards
  Shared* shared_ = nullptr;
  std::vector<int> followers_;  // of the leader: their process ids
  std::vector<int> lifelines_;  // of the leader: pipes that close when it dies, each seen by one follower
  uint32_t num_told_ = 0;       // or heard
  uint32_t num_meetings_ = 0;
  uint64_t num_given_ = 0;
};

}  // namespace runnel

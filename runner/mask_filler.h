// Fills the token masks of a step's draws on a thread of its own, while the model computes what they are
// drawn from.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <vector>

#include "runner/deep_thread.h"
#include "runner/sequence.h"

namespace runnel {

class MaskFiller {
 public:
  explicit MaskFiller(uint32_t vocab_size) : vocab_size_(vocab_size) {}
  ~MaskFiller();

  // Begins to fill allowed_bits of these sequences, which all have a mask, or mask_failure, if it fails or
  // nothing is left to draw. Until wait() has returned nobody may read these, or change token_ids and what
  // else the mask depends on. The thread starts with the first sequence that comes; where the system refuses
  // it, this is done here.
  void start(std::vector<Sequence*> sequences);
  void wait();

 private:
  void work();
  void fill(Sequence& sequence) const;

  const uint32_t vocab_size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Sequence*> sequences_;  // to be filled; the thread's while is_busy_
  bool is_busy_ = false;
  bool is_stopping_ = false;
  DeepThread thread_;
};

}  // namespace runnel

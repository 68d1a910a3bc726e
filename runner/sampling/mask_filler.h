// Fills masks beside the steps. MaskThreads does so on threads; tests have one with a clock of their own.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "runner/sampling/mask_job.h"

namespace runnel {

class MaskFiller {
 public:
  virtual ~MaskFiller() = default;

  // Begins fill_masks() for the job, which must not be under way.
  virtual void start(const std::shared_ptr<MaskJob>& job) = 0;
  // Nobody needs the job any more. It is not begun if it has not been.
  virtual void drop(const std::shared_ptr<MaskJob>& job) = 0;
  virtual bool is_done(const MaskJob& job) = 0;
  // Waits until all of these jobs are done, or for this time; unset: however long it takes.
  virtual void wait(std::span<const std::shared_ptr<MaskJob>> jobs,
                    std::optional<std::chrono::nanoseconds> at_most) = 0;
  // From now on calls this after each job, on any thread. Null: calls nothing, and no call is under way.
  virtual void on_done(std::function<void()> call) = 0;
};

}  // namespace runnel

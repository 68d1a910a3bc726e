// Fills masks on threads, several at once. The threads have a lower priority than those that compute, so
// masks take little of a step that computes, and all cores where the step waits.
//
// Slow masks do not hold up quick ones: the next job is the one that is due first, and a job is due later the
// longer its last mask took. One thread is kept for jobs whose last mask was quick.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <list>
#include <mutex>
#include <vector>

#include "runner/sampling/mask_filler.h"
#include "runner/system/deep_thread.h"

namespace runnel {

constexpr uint32_t kMaxMaskThreads = 8;

class MaskThreads final : public MaskFiller {
 public:
  // Threads start when there are jobs for them, at most this many. If the system refuses the first one, jobs
  // are done by start().
  MaskThreads(uint32_t vocab_size, uint32_t max_threads);
  // Waits for the jobs that are being filled.
  ~MaskThreads() override;
  MaskThreads(const MaskThreads&) = delete;
  MaskThreads& operator=(const MaskThreads&) = delete;

  void start(const std::shared_ptr<MaskJob>& job) override;
  void drop(const std::shared_ptr<MaskJob>& job) override;
  bool is_done(const MaskJob& job) override;
  void wait(std::span<const std::shared_ptr<MaskJob>> jobs,
            std::optional<std::chrono::nanoseconds> at_most) override;
  void on_done(std::function<void()> call) override;

 private:
  void add_thread();
  void work();
  // The queued job that a free thread may begin; the end of the queue if there is none.
  std::list<std::shared_ptr<MaskJob>>::iterator next();
  void fill(MaskJob& job) const;

  const uint32_t vocab_size_;
  const uint32_t max_threads_;
  std::mutex mutex_;
  std::condition_variable has_jobs_;
  std::condition_variable has_results_;
  std::list<std::shared_ptr<MaskJob>> queue_;
  uint32_t num_filling_ = 0;
  uint32_t num_slow_ = 0;  // of those, jobs whose last mask was slow
  std::function<void()> on_done_;
  bool is_stopping_ = false;
  std::list<DeepThread> threads_;
};

}  // namespace runnel

#include "runner/sampling/mask_threads.h"

#include <algorithm>

#include "runner/check.h"
#include "runner/system/thread_time.h"

namespace runnel {
namespace {

// A job waits for jobs that came later and are quicker for at most this many times its own time.
constexpr int kPatience = 8;

bool is_slow(const MaskJob& job) {
  return job.took > kQuickMask;
}

}  // namespace

MaskThreads::MaskThreads(uint32_t vocab_size, uint32_t max_threads)
    : vocab_size_(vocab_size), max_threads_(std::clamp(max_threads, 1u, kMaxMaskThreads)) {}

MaskThreads::~MaskThreads() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  has_jobs_.notify_all();
  for (DeepThread& thread : threads_) thread.join();
}

void MaskThreads::start(const std::shared_ptr<MaskJob>& job) {
  const std::lock_guard lock(mutex_);
  CHECK(job->state == MaskJob::State::kIdle || job->state == MaskJob::State::kDone);
  job->state = MaskJob::State::kQueued;
  job->due = std::chrono::steady_clock::now() + kPatience * job->took;
  queue_.push_back(job);
  if (queue_.size() + num_filling_ > threads_.size() && threads_.size() < max_threads_) add_thread();
  if (threads_.empty()) {
    fill(*job);
    job->state = MaskJob::State::kDone;
    queue_.clear();
  }
  has_jobs_.notify_all();
}

void MaskThreads::add_thread() {
  if (!threads_.emplace_back().start([this] { work(); })) threads_.pop_back();
}

void MaskThreads::drop(const std::shared_ptr<MaskJob>& job) {
  const std::lock_guard lock(mutex_);
  std::erase(queue_, job);
}

bool MaskThreads::is_done(const MaskJob& job) {
  const std::lock_guard lock(mutex_);
  return job.state == MaskJob::State::kDone;
}

void MaskThreads::wait(std::span<const std::shared_ptr<MaskJob>> jobs,
                       std::optional<std::chrono::nanoseconds> at_most) {
  std::unique_lock lock(mutex_);
  const auto are_done = [&] {
    return std::ranges::all_of(jobs, [](const auto& job) { return job->state == MaskJob::State::kDone; });
  };
  if (at_most) {
    has_results_.wait_for(lock, *at_most, are_done);
  } else {
    has_results_.wait(lock, are_done);
  }
}

void MaskThreads::on_done(std::function<void()> call) {
  const std::lock_guard lock(mutex_);
  on_done_ = std::move(call);
}

std::list<std::shared_ptr<MaskJob>>::iterator MaskThreads::next() {
  const auto first = std::ranges::min_element(queue_, {}, &MaskJob::due);
  const bool keeps_the_last = max_threads_ > 1 && num_slow_ + 1 >= max_threads_;
  if (first == queue_.end() || !is_slow(**first) || !keeps_the_last) return first;
  return std::ranges::find_if_not(queue_, [](const auto& job) { return is_slow(*job); });
}

void MaskThreads::work() {
  lower_priority();
  std::unique_lock lock(mutex_);
  while (true) {
    has_jobs_.wait(lock, [&] { return is_stopping_ || next() != queue_.end(); });
    if (is_stopping_) return;
    const auto place = next();
    const std::shared_ptr<MaskJob> job = *place;
    queue_.erase(place);
    const uint32_t slow = is_slow(*job) ? 1 : 0;
    job->state = MaskJob::State::kFilling;
    ++num_filling_;
    num_slow_ += slow;
    lock.unlock();
    fill(*job);
    lock.lock();
    num_slow_ -= slow;
    --num_filling_;
    job->state = MaskJob::State::kDone;
    if (on_done_) on_done_();
    has_results_.notify_all();
    has_jobs_.notify_all();
  }
}

void MaskThreads::fill(MaskJob& job) const {
  const std::chrono::nanoseconds began = thread_time();
  fill_masks(job, vocab_size_);
  job.took = thread_time() - began;
}

}  // namespace runnel

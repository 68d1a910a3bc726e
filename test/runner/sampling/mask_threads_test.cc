#include "runner/sampling/mask_threads.h"

#include <algorithm>
#include <future>
#include <memory>
#include <vector>

#include "runner/check.h"
#include "runner/sampling/id_bits.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

constexpr uint32_t kVocabSize = 40;

// Is filled when the test opens it, and then allows the id that is the number of generated ones.
class Gate final : public TokenMask {
 public:
  Result<void> fill(std::span<const uint32_t> generated_ids, std::span<uint32_t> allowed_bits) override {
    began_.set_value();
    opened_.get_future().wait();
    std::ranges::fill(allowed_bits, 0);
    set_id(allowed_bits, static_cast<uint32_t>(generated_ids.size()), true);
    return {};
  }
  void open() { opened_.set_value(); }
  void wait_until_begun() { began_.get_future().wait(); }

 private:
  std::promise<void> began_;
  std::promise<void> opened_;
};

struct Job {
  std::shared_ptr<Gate> gate = std::make_shared<Gate>();
  std::shared_ptr<MaskJob> job = std::make_shared<MaskJob>();
  explicit Job(uint32_t num_generated = 0) {
    job->mask = gate;
    job->generated_ids.resize(num_generated);
  }
};

TEST_CASE("mask threads: several masks are filled at once, and each job gets its own") {
  MaskThreads threads(kVocabSize, 3);
  std::vector<Job> jobs;
  for (const uint32_t num_generated : {5u, 7u, 11u}) threads.start(jobs.emplace_back(num_generated).job);
  // None is opened before all have begun.
  for (Job& job : jobs) job.gate->wait_until_begun();
  for (Job& job : jobs) CHECK_FALSE(threads.is_done(*job.job));
  for (Job& job : jobs) job.gate->open();
  const std::vector<std::shared_ptr<MaskJob>> all = {jobs[0].job, jobs[1].job, jobs[2].job};
  threads.wait(all, std::nullopt);
  for (Job& job : jobs) {
    CHECK(threads.is_done(*job.job));
    CHECK(job.job->filled.ok());
    CHECK(has_id(job.job->next.allowed_bits.at(0), static_cast<uint32_t>(job.job->generated_ids.size())));
  }
}

TEST_CASE("mask threads: a wait ends at its time, and what is dropped in the queue is not begun") {
  MaskThreads threads(kVocabSize, 1);
  Job first, dropped, last;
  threads.start(first.job);
  first.gate->wait_until_begun();
  threads.start(dropped.job);
  threads.start(last.job);
  threads.wait(std::vector{first.job}, std::chrono::milliseconds(1));
  CHECK_FALSE(threads.is_done(*first.job));
  threads.drop(dropped.job);
  threads.drop(first.job);  // is under way, so it ends
  first.gate->open();
  last.gate->open();
  threads.wait(std::vector{first.job, last.job}, std::nullopt);
  CHECK(threads.is_done(*last.job));
  CHECK_FALSE(threads.is_done(*dropped.job));
}

TEST_CASE("mask threads: one thread is reserved for quick masks, which go first") {
  MaskThreads threads(kVocabSize, 2);
  Job slow, slower, quick;
  for (Job* job : {&slow, &slower}) job->job->took = kQuickMask + std::chrono::seconds(1);
  threads.start(slow.job);
  threads.start(slower.job);
  slow.gate->wait_until_begun();
  threads.start(quick.job);
  quick.gate->wait_until_begun();
  quick.gate->open();
  threads.wait(std::vector{quick.job}, std::nullopt);
  slow.gate->open();
  slower.gate->wait_until_begun();
  slower.gate->open();
  threads.wait(std::vector{slow.job, slower.job}, std::nullopt);
}

TEST_CASE("mask threads: the call on each mask comes, and none after it is taken back") {
  MaskThreads threads(kVocabSize, 2);
  uint32_t num_calls = 0;
  threads.on_done([&] { ++num_calls; });
  Job job;
  job.gate->open();
  threads.start(job.job);
  threads.wait(std::vector{job.job}, std::nullopt);
  threads.on_done(nullptr);
  CHECK(num_calls == 1);
  Job other;
  other.gate->open();
  threads.start(other.job);
  threads.wait(std::vector{other.job}, std::nullopt);
  CHECK(num_calls == 1);
}

}  // namespace
}  // namespace runnel

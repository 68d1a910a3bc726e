#include "cpu-runner/sampling/drawn_rows.h"

#include <atomic>

#include "runner/check.h"

namespace runnel {
namespace {

// The cost of a row varies. With fewer rows than this a thread would wait for another.
constexpr uint32_t kManyRowsPerThread = 4;

bool are_many(size_t num_rows, const ThreadPool& threads) {
  return num_rows >= size_t{kManyRowsPerThread} * threads.num_threads();
}

uint32_t num_drawers(uint32_t max_rows, const ThreadPool& threads) {
  return are_many(max_rows, threads) ? threads.num_threads() : 1;
}

}  // namespace

DrawnRows::DrawnRows(const DrawKernels& kernels, ThreadPool& threads, uint32_t max_rows, uint32_t vocab_size)
    : threads_(threads),
      max_rows_(max_rows),
      vocab_size_(vocab_size),
      logits_(std::make_unique_for_overwrite<float[]>(size_t{max_rows} * vocab_size)) {
  const uint32_t count = num_drawers(max_rows, threads);
  drawers_.reserve(count);
  while (drawers_.size() < count) drawers_.emplace_back(kernels, vocab_size);
}

uint64_t DrawnRows::bytes(const ThreadPool& threads, uint32_t max_rows, uint32_t vocab_size) {
  return uint64_t{max_rows} * vocab_size * sizeof(float) +
         num_drawers(max_rows, threads) * RowDrawer::bytes(vocab_size);
}

std::span<float> DrawnRows::start(std::span<const HeadRow> rows) {
  CHECK(!rows.empty() && rows.size() <= max_rows_);
  // Not assigned element by element, since a draw holds references to its parameters.
  rows_ = std::vector<HeadRow>(rows.begin(), rows.end());
  drawn_.assign(rows.size(), std::nullopt);
  return {logits_.get(), rows.size() * vocab_size_};
}

void DrawnRows::draw() {
  std::vector<uint32_t> wanted;
  for (uint32_t i = 0; i < rows_.size(); ++i)
    if (rows_[i].draw) wanted.push_back(i);
  if (!are_many(wanted.size(), threads_)) {
    for (const uint32_t i : wanted) drawn_[i] = drawers_[0].draw(logits(i), *rows_[i].draw, &threads_);
    return;
  }
  std::atomic<uint32_t> num_taken = 0;
  threads_.parallel_for(threads_.num_threads(), [&](uint32_t chunk) {
    for (uint32_t next; (next = num_taken++) < wanted.size();) {
      const uint32_t i = wanted[next];
      drawn_[i] = drawers_[chunk].draw(logits(i), *rows_[i].draw, nullptr);
    }
  });
}

std::span<const float> DrawnRows::row(uint32_t index) {
  CHECK(index < rows_.size() && rows_[index].wants_logits);
  return logits(index);
}

std::span<float> DrawnRows::logits(uint32_t index) {
  return {logits_.get() + size_t{index} * vocab_size_, vocab_size_};
}

}  // namespace runnel

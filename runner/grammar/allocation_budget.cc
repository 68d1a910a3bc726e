#include "runner/grammar/allocation_budget.h"

#include <malloc.h>

#include <cstdlib>
#include <new>

#include "runner/check.h"
#include "runner/system/thread_time.h"

namespace runnel {
namespace {

thread_local AllocationBudget* open_budget = nullptr;

// Reading the clock costs as much as several allocations.
constexpr uint32_t kAllocationsPerClock = 64;
// After a refusal, this many more allocations succeed, so that the code that ends can say why. Then the next
// one is refused.
constexpr uint32_t kForgivenAllocations = 1024;
constexpr size_t kForgivenBytes = 4096;

}  // namespace

AllocationBudget::Scope::Scope(AllocationBudget& budget, std::chrono::milliseconds max_time) {
  CHECK(open_budget == nullptr);
  budget.deadline_ = thread_time() + max_time;
  budget.num_until_clock_ = kAllocationsPerClock;
  open_budget = &budget;
}

AllocationBudget::Scope::~Scope() {
  open_budget = nullptr;
}

void AllocationBudget::charge(size_t num_bytes) {
  if (is_spent_ && num_bytes <= kForgivenBytes && num_forgiven_ < kForgivenAllocations) {
    ++num_forgiven_;
    return;
  }
  if (is_spent_ || num_bytes > static_cast<size_t>(max_bytes_) ||
      num_bytes_ + static_cast<int64_t>(num_bytes) > max_bytes_)
    return refuse();
  if (--num_until_clock_ > 0) return;
  num_until_clock_ = kAllocationsPerClock;
  if (thread_time() < deadline_) return;
  was_time_ = true;
  refuse();
}

void AllocationBudget::refuse() {
  is_spent_ = true;
  num_forgiven_ = 0;
  throw std::bad_alloc();
}

}  // namespace runnel

// The standard library's other forms call these; those for larger alignments are not counted. Sanitizers have
// forms of their own that do not call these, so the forms that do not throw are defined here too.
void* operator new(size_t num_bytes) {
  runnel::AllocationBudget* const budget = runnel::open_budget;
  if (budget != nullptr) [[unlikely]]
    budget->charge(num_bytes);
  void* const memory = std::malloc(num_bytes == 0 ? 1 : num_bytes);
  if (memory == nullptr) throw std::bad_alloc();
  if (budget != nullptr) [[unlikely]]
    budget->add(static_cast<int64_t>(malloc_usable_size(memory)));
  return memory;
}

void* operator new(size_t num_bytes, const std::nothrow_t&) noexcept {
  try {
    return operator new(num_bytes);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

void operator delete(void* memory) noexcept {
  if (runnel::AllocationBudget* const budget = runnel::open_budget; budget != nullptr) [[unlikely]]
    budget->add(-static_cast<int64_t>(malloc_usable_size(memory)));
  std::free(memory);
}

void operator delete(void* memory, size_t) noexcept {
  operator delete(memory);
}

void operator delete(void* memory, const std::nothrow_t&) noexcept {
  operator delete(memory);
}

// What a piece of code that cannot be interrupted may take: bytes and processor time. While a scope of a
// budget is open, each allocation by `new` of its thread counts, and where one would be beyond the budget it
// throws std::bad_alloc: code that allocates as it goes ends there, and gives back what it had. Code that
// runs without allocating is not bounded.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace runnel {

class AllocationBudget {
 public:
  explicit AllocationBudget(size_t max_bytes) : max_bytes_(static_cast<int64_t>(max_bytes)) {}
  AllocationBudget(const AllocationBudget&) = delete;
  AllocationBudget& operator=(const AllocationBudget&) = delete;

  // Counts what this thread allocates and frees as long as it lives, and the processor time it takes from
  // now. One at a time in a thread.
  class Scope {
   public:
    Scope(AllocationBudget& budget, std::chrono::milliseconds max_time);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
  };

  // What was allocated in scopes and not freed in scopes.
  size_t num_bytes() const { return num_bytes_ > 0 ? static_cast<size_t>(num_bytes_) : 0; }
  // Whether an allocation was refused, and for want of what.
  bool is_spent() const { return is_spent_; }
  bool was_time() const { return was_time_; }

  // For `new` and `delete`. charge throws std::bad_alloc.
  void charge(size_t num_bytes);
  void add(int64_t num_bytes) { num_bytes_ += num_bytes; }

 private:
  void refuse();

  int64_t max_bytes_;
  int64_t num_bytes_ = 0;
  std::chrono::nanoseconds deadline_{};
  uint32_t num_until_clock_ = 0;
  uint32_t num_forgiven_ = 0;
  bool is_spent_ = false;
  bool was_time_ = false;
};

}  // namespace runnel

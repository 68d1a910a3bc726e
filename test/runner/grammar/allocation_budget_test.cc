#include "runner/grammar/allocation_budget.h"

#include <list>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "test/unit_test.h"

namespace runnel {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kLong{60'000};

// Whether fn ends without a refused allocation.
template <typename Fn>
bool fits(AllocationBudget& budget, milliseconds max_time, const Fn& fn) {
  try {
    const AllocationBudget::Scope scope(budget, max_time);
    fn();
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

TEST_CASE("allocation budget: freed bytes stop counting, in one scope or in several") {
  AllocationBudget budget(1u << 20);
  std::unique_ptr<std::string> kept;
  CHECK(fits(budget, kLong, [&] {
    for (int i = 0; i < 1000; ++i) kept = std::make_unique<std::string>(500'000, 'x');
  }));
  CHECK(budget.num_bytes() >= 500'000);
  CHECK_FALSE(fits(budget, kLong, [] { const std::string more(600'000, 'x'); }));
  CHECK(budget.is_spent());
  CHECK_FALSE(budget.was_time());

  AllocationBudget other(1u << 20);
  CHECK(fits(other, kLong, [&] { kept = std::make_unique<std::string>(900'000, 'x'); }));
  CHECK(fits(other, kLong, [&] { kept.reset(); }));
  CHECK(other.num_bytes() < 1000);
}

TEST_CASE("allocation budget: a loop that allocates ends when its time is over") {
  AllocationBudget budget(1u << 20);
  CHECK_FALSE(fits(budget, milliseconds(20), [] {
    while (true) const std::vector<int> one(100);
  }));
  CHECK(budget.is_spent());
  CHECK(budget.was_time());
}

TEST_CASE("allocation budget: an allocation after a refusal is refused too") {
  AllocationBudget budget(100'000);
  CHECK_FALSE(fits(budget, kLong, [] {
    std::list<int> all;
    while (true) {
      try {
        all.push_back(1);
      } catch (const std::bad_alloc&) {
        const std::string sentence(1000, 'x');  // memory for an error message is still available
        throw;
      }
    }
  }));
}

TEST_CASE("allocation budget: counts only its own thread, and only while a scope is open") {
  AllocationBudget budget(100'000);
  CHECK(fits(budget, kLong, [] { std::thread([] { const std::string other(500'000, 'x'); }).join(); }));
  const std::string after(500'000, 'x');
  CHECK(budget.num_bytes() < 100'000);
  CHECK_FALSE(budget.is_spent());
}

}  // namespace
}  // namespace runnel

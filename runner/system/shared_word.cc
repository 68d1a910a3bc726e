#include "runner/system/shared_word.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>

#include "runner/system/spin.h"

namespace runnel {
namespace {

static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t) &&
              std::atomic<uint32_t>::is_always_lock_free);

// std::atomic's own wait works within one process.
void futex(std::atomic<uint32_t>& word, int operation, uint32_t argument) {
  syscall(SYS_futex, &word, operation, argument, nullptr, nullptr, 0);
}

}  // namespace

void SharedWord::add(uint32_t count) {
  // Sequentially consistent, like the sleepers' own accesses: of a sleeper that has not seen the sum, this
  // sees that it sleeps.
  value_.fetch_add(count);
  if (num_sleepers_.load() > 0) futex(value_, FUTEX_WAKE, INT_MAX);
}

void SharedWord::wait_for(uint32_t least) {
  if (spin_until([&] { return has_reached(least); })) return;
  num_sleepers_.fetch_add(1);
  for (uint32_t seen = value_.load(); static_cast<int32_t>(seen - least) < 0; seen = value_.load())
    futex(value_, FUTEX_WAIT, seen);
  num_sleepers_.fetch_sub(1);
}

}  // namespace runnel

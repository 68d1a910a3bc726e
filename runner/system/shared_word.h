// A number in memory that processes share, and that one waits for while another changes it.
#pragma once

#include <atomic>
#include <cstdint>

namespace runnel {

class SharedWord {
 public:
  uint32_t value() const { return value_.load(std::memory_order_acquire); }
  // What this process wrote before is visible to all that see the sum.
  void add(uint32_t count);
  // Returns when at least this many have been added, of less than 2^31 that may be added meanwhile. After a
  // bounded spin it waits in the kernel.
  void wait_for(uint32_t least);

 private:
  bool has_reached(uint32_t least) const { return static_cast<int32_t>(value() - least) >= 0; }

  alignas(64) std::atomic<uint32_t> value_{0};
  std::atomic<uint32_t> num_sleepers_{0};
};

}  // namespace runnel

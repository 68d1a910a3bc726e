// A second, third, ... place where execution stands, on a stack of its own. A switch is a function call that
// returns somewhere else: a few nanoseconds, no system call.
#pragma once

#include <cstddef>

namespace runnel::emulator {

class Fiber {
 public:
  // Of the thread that is running: it has a stack.
  Fiber() = default;
  // On this memory; the stack grows down from its end.
  Fiber(void* stack, size_t bytes);

  // The next switch to it enters `entry`, which must not return. What the stack held is forgotten.
  void prepare(void (*entry)());
  // Leaves `from`, which is running, for `to`; returns when somebody switches back. With from_ends nobody
  // may.
  static void switch_to(Fiber& from, Fiber& to, bool from_ends = false);

 private:
  static void enter();

  void* stack_pointer_ = nullptr;
  void (*entry_)() = nullptr;
  char* stack_ = nullptr;
  size_t stack_bytes_ = 0;
  void* fake_stack_ = nullptr;  // AddressSanitizer's
};

}  // namespace runnel::emulator

#include "cuda-runner/emulator/fiber.h"

#include <cstdint>

#include "runner/check.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

// Saves the callee-saved registers on the current stack, stores the stack pointer, switches to the other
// stack pointer and restores the registers from there. Rounding modes are not saved, since all fibers have
// the same.
extern "C" void runnel_emulator_switch(void** save_stack_pointer, void* stack_pointer);

#if defined(__x86_64__)
asm(R"(
.text
.globl runnel_emulator_switch
.type runnel_emulator_switch, @function
runnel_emulator_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size runnel_emulator_switch, . - runnel_emulator_switch
)");
#elif defined(__aarch64__)
asm(R"(
.text
.globl runnel_emulator_switch
.type runnel_emulator_switch, %function
runnel_emulator_switch:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
.size runnel_emulator_switch, . - runnel_emulator_switch
)");
#else
#error "The emulator switches between threads of a block on x86-64 and aarch64 only."
#endif

namespace runnel::emulator {
namespace {

// The frame that the switch restores on a new stack: zeros, and the address to go on at.
#if defined(__x86_64__)
constexpr size_t kFrameWords = 8;  // six registers, the return address, the return address of the entry
constexpr size_t kReturnWord = 6;
#else
constexpr size_t kFrameWords = 20;
constexpr size_t kReturnWord = 11;
#endif

// The fibers of the current switch, for Fiber::enter on a new stack.
Fiber* left = nullptr;
Fiber* entered = nullptr;

}  // namespace

Fiber::Fiber(void* stack, size_t bytes) : stack_(static_cast<char*>(stack)), stack_bytes_(bytes) {
  CHECK(bytes % 16 == 0);
}

void Fiber::prepare(void (*entry)()) {
#if defined(__SANITIZE_ADDRESS__)
  // The frames that were live when the fiber was left for the last time. Those below them have returned.
  if (stack_pointer_ != nullptr) {
    auto* const first = static_cast<char*>(stack_pointer_);
    __asan_unpoison_memory_region(first, static_cast<size_t>(stack_ + stack_bytes_ - first));
  }
#endif
  entry_ = entry;
  auto* frame = reinterpret_cast<uintptr_t*>(stack_ + stack_bytes_) - kFrameWords;
  for (size_t word = 0; word < kFrameWords; ++word) frame[word] = 0;
  frame[kReturnWord] = reinterpret_cast<uintptr_t>(&Fiber::enter);
  stack_pointer_ = frame;
}

void Fiber::enter() {
#if defined(__SANITIZE_ADDRESS__)
  // This also returns the bounds of the stack that was left. Those of the thread's own stack are known only
  // from here.
  const void* stack = nullptr;
  size_t bytes = 0;
  __sanitizer_finish_switch_fiber(nullptr, &stack, &bytes);
  left->stack_ = static_cast<char*>(const_cast<void*>(stack));
  left->stack_bytes_ = bytes;
#endif
  entered->entry_();
  CHECK(false);
}

void Fiber::switch_to(Fiber& from, Fiber& to, [[maybe_unused]] bool from_ends) {
  left = &from;
  entered = &to;
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(from_ends ? nullptr : &from.fake_stack_, to.stack_, to.stack_bytes_);
#endif
  runnel_emulator_switch(&from.stack_pointer_, to.stack_pointer_);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(from.fake_stack_, nullptr, nullptr);
#endif
}

}  // namespace runnel::emulator

#include "fiber_switch.h"

#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
// The registers that a call preserves in the System V ABI; the return address is already on the stack.
asm(R"(
.text
.globl emulator_switch
.hidden emulator_switch
.type emulator_switch,@function
emulator_switch:
  push %rbp
  push %rbx
  push %r12
  push %r13
  push %r14
  push %r15
  mov %rsp,(%rdi)
  mov %rsi,%rsp
  pop %r15
  pop %r14
  pop %r13
  pop %r12
  pop %rbx
  pop %rbp
  ret
.size emulator_switch,.-emulator_switch
)");
#elif defined(__aarch64__)
// x19 to x30 and the lower halves of v8 to v15.
asm(R"(
.text
.globl emulator_switch
.hidden emulator_switch
.type emulator_switch,%function
emulator_switch:
  sub sp,sp,#160
  stp x19,x20,[sp]
  stp x21,x22,[sp,#16]
  stp x23,x24,[sp,#32]
  stp x25,x26,[sp,#48]
  stp x27,x28,[sp,#64]
  stp x29,x30,[sp,#80]
  stp d8,d9,[sp,#96]
  stp d10,d11,[sp,#112]
  stp d12,d13,[sp,#128]
  stp d14,d15,[sp,#144]
  mov x9,sp
  str x9,[x0]
  mov sp,x1
  ldp x19,x20,[sp]
  ldp x21,x22,[sp,#16]
  ldp x23,x24,[sp,#32]
  ldp x25,x26,[sp,#48]
  ldp x27,x28,[sp,#64]
  ldp x29,x30,[sp,#80]
  ldp d8,d9,[sp,#96]
  ldp d10,d11,[sp,#112]
  ldp d12,d13,[sp,#128]
  ldp d14,d15,[sp,#144]
  add sp,sp,#160
  ret
.size emulator_switch,.-emulator_switch
)");
#else
#error "the Metal emulator knows x86-64 and AArch64"
#endif

namespace emulator {

void* new_stack(char* top, void (*start)()) {
  const std::uintptr_t aligned = reinterpret_cast<std::uintptr_t>(top) & ~std::uintptr_t{15};
#if defined(__x86_64__)
  // At a function's first instruction the stack is 8 off a multiple of 16: `ret` pops the address of `start`.
  constexpr std::size_t kFrame = 8 * sizeof(void*), kReturn = 6 * sizeof(void*);
#else
  constexpr std::size_t kFrame = 160, kReturn = 88;
#endif
  char* stack = reinterpret_cast<char*>(aligned) - kFrame;
  std::memset(stack, 0, kFrame);
  std::memcpy(stack + kReturn, &start, sizeof start);
  return stack;
}

}  // namespace emulator

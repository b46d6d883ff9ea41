// objc_msgSend: keeps all registers that may hold arguments, asks for the function, and jumps to it. nil answers 0.
// On x86-64 objc_msgSend_stret is its twin for results that are returned in memory: there the arguments stand one
// later.
#if defined(__x86_64__)
asm(R"(
.text
.macro message name, self, selector
.globl \name
.type \name,@function
\name:
  endbr64
  test \self,\self
  jz 1f
  push %rbp
  mov %rsp,%rbp
  sub $0xb0,%rsp
  mov %rdi,(%rsp)
  mov %rsi,8(%rsp)
  mov %rdx,16(%rsp)
  mov %rcx,24(%rsp)
  mov %r8,32(%rsp)
  mov %r9,40(%rsp)
  movaps %xmm0,48(%rsp)
  movaps %xmm1,64(%rsp)
  movaps %xmm2,80(%rsp)
  movaps %xmm3,96(%rsp)
  movaps %xmm4,112(%rsp)
  movaps %xmm5,128(%rsp)
  movaps %xmm6,144(%rsp)
  movaps %xmm7,160(%rsp)
  mov \self,%r10
  mov \selector,%rsi
  mov %r10,%rdi
  call emulator_lookup
  mov %rax,%r11
  mov (%rsp),%rdi
  mov 8(%rsp),%rsi
  mov 16(%rsp),%rdx
  mov 24(%rsp),%rcx
  mov 32(%rsp),%r8
  mov 40(%rsp),%r9
  movaps 48(%rsp),%xmm0
  movaps 64(%rsp),%xmm1
  movaps 80(%rsp),%xmm2
  movaps 96(%rsp),%xmm3
  movaps 112(%rsp),%xmm4
  movaps 128(%rsp),%xmm5
  movaps 144(%rsp),%xmm6
  movaps 160(%rsp),%xmm7
  leave
  jmp *%r11
1:
  xor %eax,%eax
  xor %edx,%edx
  xorps %xmm0,%xmm0
  ret
.size \name,.-\name
.endm
message objc_msgSend, %rdi, %rsi
message objc_msgSend_stret, %rsi, %rdx
)");
#elif defined(__aarch64__)
asm(R"(
.text
.globl objc_msgSend
.type objc_msgSend,%function
objc_msgSend:
  cbz x0,1f
  stp x29,x30,[sp,#-224]!
  mov x29,sp
  stp x0,x1,[sp,#16]
  stp x2,x3,[sp,#32]
  stp x4,x5,[sp,#48]
  stp x6,x7,[sp,#64]
  str x8,[sp,#80]
  stp q0,q1,[sp,#96]
  stp q2,q3,[sp,#128]
  stp q4,q5,[sp,#160]
  stp q6,q7,[sp,#192]
  bl emulator_lookup
  mov x9,x0
  ldp x0,x1,[sp,#16]
  ldp x2,x3,[sp,#32]
  ldp x4,x5,[sp,#48]
  ldp x6,x7,[sp,#64]
  ldr x8,[sp,#80]
  ldp q0,q1,[sp,#96]
  ldp q2,q3,[sp,#128]
  ldp q4,q5,[sp,#160]
  ldp q6,q7,[sp,#192]
  ldp x29,x30,[sp],#224
  br x9
1:
  mov x0,#0
  movi d0,#0
  ret
.size objc_msgSend,.-objc_msgSend
)");
#else
#error "the Metal emulator knows x86-64 and AArch64"
#endif

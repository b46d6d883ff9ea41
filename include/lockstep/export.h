// Marks what the library offers to its users. Everything else is hidden, so that a symbol outside include/lockstep
// can change or vanish without breaking anyone. Used as `class LOCKSTEP_API Tensor` and `LOCKSTEP_API Tensor exp(...)`.
// Exception types need it too: a catch in a program must recognise what the library threw.
#pragma once

#define LOCKSTEP_API __attribute__((visibility("default")))

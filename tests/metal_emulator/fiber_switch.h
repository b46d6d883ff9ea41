// A thread of a kernel is a stack of its own; changing threads is a handful of instructions.
#pragma once

namespace emulator {

/// Keeps the running stack in `*from` and goes on with `to`. The floating-point state is the same for all.
extern "C" void emulator_switch(void** from, void* to) __attribute__((visibility("hidden")));

/// A stack that begins with a call of `start` when it is switched to; `start` must not return.
void* new_stack(char* top, void (*start)());

}  // namespace emulator

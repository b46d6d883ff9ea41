// What a compiled kernel and the emulator share. Read by both compilers, so it uses neither Metal's types nor C++'s
// library.
#pragma once

namespace emulator {

inline constexpr int kBufferSlots = 31;

struct Size3 {
  unsigned x, y, z;
};

/// What differs between the threads of a dispatch.
struct Ids {
  Size3 thread_position_in_grid, thread_position_in_threadgroup, threadgroup_position_in_grid;
  Size3 threads_per_threadgroup, threadgroups_per_grid, threads_per_grid;
  unsigned thread_index_in_threadgroup, simdgroup_index_in_threadgroup, thread_index_in_simdgroup;
  unsigned simdgroups_per_threadgroup;
};

/// What is the same for all threads of a threadgroup.
struct Arguments {
  void* buffers[kBufferSlots];
  void* threadgroup[kBufferSlots];  ///< memory whose size is given at the dispatch
  char* variables;                  ///< memory of the threadgroup variables
};

/// A thread's place in its threadgroup, in the order in which threads run.
struct Place {
  unsigned short x, y, z, index;
};

/// A threadgroup variable of a kernel: its place in Arguments::variables.
struct Variable {
  const char* name;
  unsigned offset, bytes, alignment;
};

/// What a kernel calls. `site` tells one call in the program from every other.
struct Runtime {
  void (*barrier)(int line);
  /// Publishes `size` bytes for the simdgroup: 32 slots of kSlot bytes come back, and the mask of the active lanes.
  char* (*exchange)(const void* value, unsigned size, const void* site, int line, unsigned* active);
  unsigned (*lane)();
};
inline constexpr unsigned kSlot = 16;

}  // namespace emulator

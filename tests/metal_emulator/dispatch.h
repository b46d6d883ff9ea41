// Runs a kernel over a grid. Threadgroups are independent, so OS threads share them; each has the memory and the stacks
// of one threadgroup.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string>

#include "include/metal_emulator/abi.h"
#include "program.h"

namespace emulator {

inline constexpr std::size_t kThreadgroupBytes = 32 << 10;

struct Dispatch {
  std::shared_ptr<const Program> program;
  const Kernel* kernel = nullptr;
  std::array<void*, kBufferSlots> buffers{};
  std::array<std::size_t, kBufferSlots> threadgroup_bytes{};  ///< of memory whose size the encoder gives
  Size3 threads{}, threads_per_threadgroup{};
};

/// Runs it to its end. What came of it: empty, or the kernel's mistake.
std::string run(const Dispatch& dispatch);

struct DispatchCounts {
  std::size_t dispatches = 0, threads = 0;
};
DispatchCounts dispatch_counts();

}  // namespace emulator

// How much memory of a device tensors take.
#pragma once

#include <cstddef>
#include <cstdint>

#include <lockstep/device.h>
#include <lockstep/export.h>

namespace lockstep {
inline namespace v0 {

/// What a device's caching allocator holds.
struct MemoryStatistics {
  std::size_t live = 0;         ///< bytes in use by computed tensors, rounded up to the sizes that are allocated
  std::size_t cached = 0;       ///< bytes kept for reuse
  std::size_t peak = 0;         ///< the most that was live since reset_peak_memory
  std::size_t recent_peak = 0;  ///< the most that was live lately: what the cache is measured by
  std::uint64_t reused = 0;     ///< allocations answered from the cache
};

/// What is allocated on `device` now; memory that was borrowed (Tensor::from_blob, mapped files) does not count.
/// Throws DeviceError if there is no such device.  PyTorch: cuda.memory_stats.
LOCKSTEP_API MemoryStatistics memory_statistics(Device device = {});
/// Lets the peak begin again at what is live now.  PyTorch: cuda.reset_peak_memory_stats.
LOCKSTEP_API void reset_peak_memory(Device device = {});

}  // namespace v0
}  // namespace lockstep

// A caching allocator over a driver's memory, the same for every GPU. Work is in order on one queue, so released memory
// is reusable at once.
//
// Sizes are rounded up to 8 classes per power of two, so that slowly growing shapes hit the same class. Small blocks
// share large ones. What is cached beside live memory is capped; when the driver has no more, the cache is given back
// and the request tried again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include <lockstep/memory.h>

#include "backends/gpu/driver.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {

/// Throws OutOfMemoryError for what is more than all memory of the device.
void refuse_beyond_memory(const DriverInfo& device, std::size_t bytes);

class Memory {
 public:
  explicit Memory(Driver& driver) : driver_(driver) {}

  /// Throws OutOfMemoryError.
  std::uint64_t allocate(std::size_t bytes);
  /// `bytes`: as they were allocated.
  void release(std::uint64_t address, std::size_t bytes);
  /// Gives all cached memory back to the driver.
  void trim();
  const MemoryStatistics& statistics() const { return statistics_; }
  void reset_peak() { statistics_.peak = statistics_.live; }

 private:
  std::uint64_t take_small(std::size_t size);
  std::uint64_t from_driver(std::size_t size);
  void trim_to(std::size_t cached);

  Driver& driver_;
  MemoryStatistics statistics_;
  std::map<std::size_t, std::vector<std::uint64_t>> small_;  ///< free blocks by size, as heaps
  std::map<std::size_t, std::vector<std::uint64_t>> large_;
  std::deque<std::pair<std::uint64_t, std::size_t>> order_;  ///< cached large blocks, longest unused first
  std::uint64_t shared_next_ = 0;
  std::uint64_t shared_end_ = 0;
};

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep

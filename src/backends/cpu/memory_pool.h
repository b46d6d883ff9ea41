// Host memory for tensors, kept for reuse: a block that the system gave once costs no page faults the second time,
// which for large tensors is most of the cost of a memory-bound kernel.
//
// Blocks are aligned to 64 bytes and rounded up to 8 sizes per power of two. Live and cached bytes together stay below
// 1.5 times the recent peak of live bytes (or 256 MB, if that is more). Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <mutex>
#include <vector>

#include <lockstep/memory.h>

#include "backends/cpu/huge_regions.h"

namespace lockstep {
inline namespace v0 {

class MemoryPool {
 public:
  static constexpr std::size_t kAlignment = 64;
  static constexpr std::size_t kAlwaysKept = std::size_t{256} << 20;

  MemoryPool() = default;
  ~MemoryPool() { trim(0); }
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  /// At least `bytes` bytes, uninitialised. Throws OutOfMemoryError when the system has none even with an empty cache.
  void* allocate(std::size_t bytes);
  /// Takes back what allocate(bytes) returned.
  void release(void* data, std::size_t bytes) noexcept;
  /// Returns cached blocks to the system, longest unused first, until at most `keep` bytes are cached.
  void trim(std::size_t keep);
  MemoryStatistics statistics() const;
  void reset_peak();

  /// The size of the block that serves `bytes`: the next of 8 steps per power of two, at least 64.
  static std::size_t block_size(std::size_t bytes);

 private:
  struct Block {
    void* data;
    std::size_t size;
  };
  using Blocks = std::list<Block>;  // longest unused first

  void* system_allocate(std::size_t size);
  void system_free(void* data, std::size_t size) noexcept;
  std::size_t limit() const;
  void trim_locked(std::size_t keep) noexcept;
  void count_allocation(std::size_t size);

  mutable std::mutex mutex_;
  HugeRegions regions_;
  Blocks cached_;
  Blocks spare_;  // nodes of the list for the blocks to come: a step allocates and releases as many
  std::map<std::size_t, std::vector<Blocks::iterator>> by_size_;  // few sizes; those without a block stay, too
  MemoryStatistics statistics_;
  // The recent peak is that of this and of the previous window of allocations.
  std::size_t window_peak_ = 0;
  std::size_t previous_window_peak_ = 0;
  std::uint32_t window_allocations_ = 0;
};

}  // namespace v0
}  // namespace lockstep

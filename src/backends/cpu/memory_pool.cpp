#include "backends/cpu/memory_pool.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <limits>
#include <string>

#include <lockstep/error.h>

#include "core/os.h"

namespace lockstep {
inline namespace v0 {
namespace {

constexpr std::uint32_t kWindow = 1024;
// Blocks from twice a huge page on start at one and are made of them where the system has them: fewer page faults at first
// use, and fewer misses of the address translation later. Those from a sixteenth of a page on share them. Not where
// AddressSanitizer watches the ends of each block.
constexpr std::size_t kAlone = 2 * HugeRegions::kHugePage;
constexpr std::size_t kShared = HugeRegions::kHugePage / 16;
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kShares = false;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
constexpr bool kShares = false;
#else
constexpr bool kShares = true;
#endif
#else
constexpr bool kShares = true;
#endif

bool is_shared(std::size_t size) {
  return kShares && size >= kShared && size < kAlone;
}

std::string mebibytes(std::size_t bytes) {
  return std::to_string((bytes + (1u << 20) - 1) >> 20) + " MiB";
}

}  // namespace

void* MemoryPool::system_allocate(std::size_t size) {
  if (is_shared(size)) return regions_.allocate(size);
  if (size < kAlone) return std::aligned_alloc(kAlignment, size);
  const std::size_t whole = (size + HugeRegions::kHugePage - 1) / HugeRegions::kHugePage * HugeRegions::kHugePage;
  void* data = std::aligned_alloc(HugeRegions::kHugePage, whole);
  if (data != nullptr) os::prefer_huge_pages(data, whole);
  return data;
}

void MemoryPool::system_free(void* data, std::size_t size) noexcept {
  if (is_shared(size)) {
    regions_.release(data, size);
  } else {
    std::free(data);
  }
}

std::size_t MemoryPool::block_size(std::size_t bytes) {
  if (bytes <= kAlignment) return kAlignment;
  if (bytes > std::numeric_limits<std::size_t>::max() / 4) return bytes;  // the system will refuse it
  const std::size_t step = std::max(std::bit_floor(bytes - 1) / 8, kAlignment);
  return (bytes + step - 1) / step * step;
}

std::size_t MemoryPool::limit() const {
  return std::max(kAlwaysKept, statistics_.recent_peak + statistics_.recent_peak / 2);
}

void MemoryPool::count_allocation(std::size_t size) {
  statistics_.live += size;
  statistics_.peak = std::max(statistics_.peak, statistics_.live);
  if (++window_allocations_ == kWindow) {
    window_allocations_ = 0;
    previous_window_peak_ = window_peak_;
    window_peak_ = 0;
  }
  window_peak_ = std::max(window_peak_, statistics_.live);
  statistics_.recent_peak = std::max(window_peak_, previous_window_peak_);
}

void* MemoryPool::allocate(std::size_t bytes) {
  const std::size_t size = block_size(bytes);
  const std::lock_guard lock(mutex_);
  if (const auto found = by_size_.find(size); found != by_size_.end() && !found->second.empty()) {
    const Blocks::iterator block = found->second.back();
    found->second.pop_back();
    void* data = block->data;
    spare_.splice(spare_.end(), cached_, block);
    statistics_.cached -= size;
    ++statistics_.reused;
    count_allocation(size);
    return data;
  }
  void* data = system_allocate(size);
  if (data == nullptr) {
    trim_locked(0);
    data = system_allocate(size);
  }
  if (data == nullptr) {
    throw OutOfMemoryError("cpu: out of memory\n  requested  " + mebibytes(size) + "\n  in use     " +
                           mebibytes(statistics_.live) +
                           " by tensors\n  fix: smaller batches, fewer live tensors, or a smaller dtype");
  }
  count_allocation(size);
  trim_locked(limit() > statistics_.live ? limit() - statistics_.live : 0);
  return data;
}

void MemoryPool::release(void* data, std::size_t bytes) noexcept {
  const std::size_t size = block_size(bytes);
  const std::lock_guard lock(mutex_);
  statistics_.live -= size;
  try {
    if (spare_.empty()) spare_.emplace_back();
    by_size_[size].push_back(spare_.begin());
    spare_.front() = {data, size};
    cached_.splice(cached_.end(), spare_, spare_.begin());
  } catch (const std::bad_alloc&) {  // no memory to remember the block by: let it go
    system_free(data, size);
    return;
  }
  statistics_.cached += size;
  trim_locked(limit() > statistics_.live ? limit() - statistics_.live : 0);
}

void MemoryPool::trim(std::size_t keep) {
  const std::lock_guard lock(mutex_);
  trim_locked(keep);
}

void MemoryPool::trim_locked(std::size_t keep) noexcept {
  while (statistics_.cached > keep) {
    const Blocks::iterator block = cached_.begin();
    const auto same_size = by_size_.find(block->size);
    std::erase(same_size->second, block);
    statistics_.cached -= block->size;
    system_free(block->data, block->size);
    cached_.erase(block);
  }
}

void MemoryPool::reset_peak() {
  const std::lock_guard lock(mutex_);
  statistics_.peak = statistics_.live;
}

MemoryStatistics MemoryPool::statistics() const {
  const std::lock_guard lock(mutex_);
  return statistics_;
}

}  // namespace v0
}  // namespace lockstep

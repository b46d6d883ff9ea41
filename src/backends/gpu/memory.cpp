#include "backends/gpu/memory.h"

#include <algorithm>
#include <bit>
#include <functional>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "core/assert.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

constexpr std::size_t kLeast = 256;
constexpr std::size_t kSmall = std::size_t{1} << 20;
constexpr std::size_t kShared = std::size_t{32} << 20;
constexpr std::size_t kAlwaysCached = std::size_t{256} << 20;

/// The class of a size: 8 per power of two.
std::size_t class_of(std::size_t bytes) {
  const std::size_t size = std::max(bytes, kLeast);
  const std::size_t step = std::max(std::bit_floor(size - 1) / 8, kLeast / 8);
  const std::size_t rounded = (size + step - 1) / step * step;
  return (rounded + kLeast - 1) / kLeast * kLeast;
}

// Free blocks of one size, the lowest address first: so a step that allocates what the step before did gets the same
// memory, whatever the order in which that was released, and its launches can be replayed.
void put(std::vector<std::uint64_t>& free, std::uint64_t address) {
  free.push_back(address);
  std::push_heap(free.begin(), free.end(), std::greater<>());
}
std::uint64_t take_lowest(std::vector<std::uint64_t>& free) {
  std::pop_heap(free.begin(), free.end(), std::greater<>());
  const std::uint64_t address = free.back();
  free.pop_back();
  return address;
}

}  // namespace

std::uint64_t Memory::allocate(std::size_t bytes) {
  refuse_beyond_memory(driver_.info(), bytes);
  const std::size_t size = class_of(bytes);
  std::uint64_t address = 0;
  if (size <= kSmall) {
    address = take_small(size);
  } else if (const auto found = large_.find(size); found != large_.end() && !found->second.empty()) {
    address = take_lowest(found->second);
    order_.erase(std::find(order_.begin(), order_.end(), std::pair{address, size}));
    statistics_.cached -= size;
  } else {
    address = from_driver(size);
  }
  statistics_.live += size;
  statistics_.peak = std::max(statistics_.peak, statistics_.live);
  statistics_.recent_peak = statistics_.peak;
  return address;
}

std::uint64_t Memory::take_small(std::size_t size) {
  std::vector<std::uint64_t>& free = small_[size];
  if (!free.empty()) {
    const std::uint64_t address = take_lowest(free);
    statistics_.cached -= size;
    return address;
  }
  if (shared_end_ - shared_next_ < size) {
    shared_next_ = from_driver(kShared);
    shared_end_ = shared_next_ + kShared;
  }
  const std::uint64_t address = shared_next_;
  shared_next_ += size;
  return address;
}

void refuse_beyond_memory(const DriverInfo& device, std::size_t bytes) {
  if (bytes <= device.memory_bytes) return;
  throw OutOfMemoryError(
      fmt::format("{}: {} bytes can never be allocated: the device has {}\n"
                  "  fix: compute in parts, or on another device",
                  device.name, bytes, device.memory_bytes));
}

std::uint64_t Memory::from_driver(std::size_t size) {
  std::uint64_t address = driver_.allocate(size);
  if (address == 0) {
    trim();
    address = driver_.allocate(size);
  }
  if (address == 0) {
    throw OutOfMemoryError(
        fmt::format("{}: cannot allocate {} bytes: {} of {} bytes are in use\n"
                    "  fix: release tensors, or use smaller batches",
                    driver_.info().name, size, statistics_.live, driver_.info().memory_bytes));
  }
  return address;
}

void Memory::release(std::uint64_t address, std::size_t bytes) {
  const std::size_t size = class_of(bytes);
  LOCKSTEP_ASSERT(statistics_.live >= size);
  statistics_.live -= size;
  statistics_.cached += size;
  if (size <= kSmall) {
    put(small_[size], address);
    return;
  }
  put(large_[size], address);
  order_.emplace_back(address, size);
  const std::size_t most = std::max(kAlwaysCached, 2 * statistics_.peak);  // sizes that do not serve each other
  trim_to(most > statistics_.live ? most - statistics_.live : 0);
}

void Memory::trim_to(std::size_t cached) {
  while (statistics_.cached > cached && !order_.empty()) {
    const auto [address, size] = order_.front();
    order_.pop_front();
    std::vector<std::uint64_t>& free = large_[size];
    std::erase(free, address);
    std::make_heap(free.begin(), free.end(), std::greater<>());
    statistics_.cached -= size;
    driver_.release(address);
  }
}

void Memory::trim() {
  trim_to(0);
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep

#include "backends/cpu/huge_regions.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <new>

#include "core/os.h"

namespace lockstep {
inline namespace v0 {
namespace {

// Blocks whose sizes are powers of two would all begin at the same place of a page, and their elements take each other's
// place in the first cache: a line lies between two of them.
constexpr std::size_t with_gap(std::size_t size) {
  return size + HugeRegions::kLine;
}

}  // namespace

HugeRegions::~HugeRegions() {
  for (const Region& region : regions_) std::free(region.data);
}

void* HugeRegions::allocate(std::size_t size) {
  const std::size_t needed = with_gap(size);
  for (Region& region : regions_) {
    // The first range that is large enough: what lies in front is full, and the pages behind stay untouched.
    const auto found = std::find_if(region.free.begin(), region.free.end(), [&](const auto& r) { return r.second >= needed; });
    if (found == region.free.end()) continue;
    const auto [begin, room] = *found;
    if (room > needed) region.free.emplace_hint(found, begin + needed, room - needed);
    region.free.erase(found);
    return region.data + begin;
  }
  auto* const data = static_cast<std::byte*>(std::aligned_alloc(kHugePage, kRegion));
  if (data == nullptr) return nullptr;
  try {
    regions_.push_back({.data = data, .free = {{needed, kRegion - needed}}});
  } catch (const std::bad_alloc&) {
    std::free(data);
    return nullptr;
  }
  os::prefer_huge_pages(data, kRegion);
  return data;
}

void HugeRegions::release(void* data, std::size_t size) noexcept {
  auto* const bytes = static_cast<std::byte*>(data);
  const auto region = std::find_if(regions_.begin(), regions_.end(),
                                   [&](const Region& r) { return r.data <= bytes && bytes < r.data + kRegion; });
  std::size_t begin = static_cast<std::size_t>(bytes - region->data);
  std::size_t room = with_gap(size);
  auto next = region->free.lower_bound(begin);
  try {
    if (next != region->free.end() && begin + room == next->first) {
      room += next->second;
      next = region->free.erase(next);
    }
    if (next != region->free.begin()) {
      if (const auto before = std::prev(next); before->first + before->second == begin) {
        begin = before->first;
        room += before->second;
        region->free.erase(before);
      }
    }
    region->free.emplace(begin, room);
  } catch (const std::bad_alloc&) {
    return;  // no memory to remember the range by: it stays taken
  }
  if (room != kRegion) return;
  std::free(region->data);
  regions_.erase(region);
}

}  // namespace v0
}  // namespace lockstep

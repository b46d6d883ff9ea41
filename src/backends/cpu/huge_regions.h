// Blocks of memory in regions that are made of huge pages. A network's weights and values are mostly smaller than such a page
// of 2 MiB, and there are enough of them that translating their addresses costs 3 to 5 % of its time; in one region they share
// its pages. Used by MemoryPool, under its lock.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

namespace lockstep {
inline namespace v0 {

class HugeRegions {
 public:
  static constexpr std::size_t kHugePage = std::size_t{2} << 20;
  static constexpr std::size_t kRegion = std::size_t{32} << 20;
  static constexpr std::size_t kLine = 64;

  HugeRegions() = default;
  ~HugeRegions();
  HugeRegions(const HugeRegions&) = delete;
  HugeRegions& operator=(const HugeRegions&) = delete;

  /// `size` bytes, a multiple of kLine below kRegion, at a multiple of kLine. Null when the system has none.
  void* allocate(std::size_t size);
  /// Takes back what allocate(size) returned; a region without blocks goes back to the system.
  void release(void* data, std::size_t size) noexcept;

  std::size_t regions() const { return regions_.size(); }

 private:
  struct Region {
    std::byte* data;
    std::map<std::size_t, std::size_t> free;  // where a free range begins, and its size; no two touch
  };
  std::vector<Region> regions_;
};

}  // namespace v0
}  // namespace lockstep

#include "backends/cpu/huge_regions.h"

#include <cstdint>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace lockstep {
namespace {

struct Taken {
  std::byte* data;
  std::size_t size;
};

Taken take(HugeRegions& regions, std::size_t size) {
  auto* const data = static_cast<std::byte*>(regions.allocate(size));
  EXPECT_NE(data, nullptr);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(data) % HugeRegions::kLine, 0u);
  return {data, size};
}

TEST(HugeRegions, BlocksLieSideBySideWithALineBetween) {
  HugeRegions regions;
  const Taken a = take(regions, 4096), b = take(regions, 8192);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(a.data) % HugeRegions::kHugePage, 0u);
  EXPECT_EQ(b.data, a.data + a.size + HugeRegions::kLine);
  regions.release(a.data, a.size);
  EXPECT_EQ(take(regions, 64).data, a.data);  // the first range with room
  EXPECT_EQ(regions.regions(), 1u);
}

TEST(HugeRegions, ARegionWithoutBlocksGoesBack) {
  HugeRegions regions;
  const std::size_t half = HugeRegions::kRegion / 2 - HugeRegions::kLine;
  const Taken a = take(regions, half), b = take(regions, half);  // full to the last byte
  const Taken c = take(regions, 64);
  EXPECT_EQ(regions.regions(), 2u);
  regions.release(b.data, b.size);
  regions.release(a.data, a.size);
  EXPECT_EQ(regions.regions(), 1u);
  regions.release(c.data, c.size);
  EXPECT_EQ(regions.regions(), 0u);
}

TEST(HugeRegions, RangesThatTouchBecomeOne) {
  for (const auto& order : {std::vector{0, 1, 2}, std::vector{0, 2, 1}, std::vector{1, 0, 2}, std::vector{2, 1, 0}}) {
    HugeRegions regions;
    const std::size_t quarter = (HugeRegions::kRegion / 4) - HugeRegions::kLine;
    std::vector<Taken> blocks;
    for (int i = 0; i < 4; ++i) blocks.push_back(take(regions, quarter));
    for (const int i : order) regions.release(blocks[static_cast<std::size_t>(i)].data, quarter);
    EXPECT_EQ(take(regions, 3 * quarter + 2 * HugeRegions::kLine).data, blocks[0].data);
    EXPECT_EQ(regions.regions(), 1u);
  }
}

TEST(HugeRegions, NoTwoBlocksOverlapInAnyOrder) {
  HugeRegions regions;
  std::mt19937 random(7);
  std::vector<Taken> blocks;
  for (int step = 0; step < 3000; ++step) {
    if (blocks.empty() || random() % 5 < 3) {
      const Taken block = take(regions, (1 + random() % 2048) * HugeRegions::kLine);
      const auto mark = static_cast<unsigned char>(random());
      std::memset(block.data, mark, 1);
      std::memset(block.data + block.size - 1, mark, 1);
      for (const Taken& other : blocks) {
        ASSERT_TRUE(block.data + block.size <= other.data || other.data + other.size <= block.data) << step;
      }
      blocks.push_back(block);
    } else {
      std::swap(blocks[random() % blocks.size()], blocks.back());
      ASSERT_EQ(blocks.back().data[0], blocks.back().data[blocks.back().size - 1]) << step;
      regions.release(blocks.back().data, blocks.back().size);
      blocks.pop_back();
    }
  }
  for (const Taken& block : blocks) regions.release(block.data, block.size);
  EXPECT_EQ(regions.regions(), 0u);
}

}  // namespace
}  // namespace lockstep

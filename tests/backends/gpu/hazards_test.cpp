// Barriers stand before commands that depend on an unfinished one, and nowhere else.
#include <gtest/gtest.h>

#include <vector>

#include "backends/gpu/hazards.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

constexpr Access reads(std::uint64_t address) {
  return {address, 0, false};
}
constexpr Access writes(std::uint64_t address) {
  return {address, 0, true};
}

bool waits(Hazards& hazards, std::vector<Access> accesses) {
  return hazards.add(accesses);
}

TEST(Hazards, OnlyOfCommandsThatShareWhatOneWrites) {
  Hazards hazards;
  EXPECT_FALSE(waits(hazards, {reads(1), writes(2)}));
  EXPECT_FALSE(waits(hazards, {reads(1), writes(3)})) << "both only read 1";
  EXPECT_TRUE(waits(hazards, {reads(2), writes(4)})) << "read after write";
  EXPECT_FALSE(waits(hazards, {reads(3), writes(5)})) << "the last barrier was for 3 too";
  EXPECT_TRUE(waits(hazards, {writes(3)})) << "write after read";
  EXPECT_TRUE(waits(hazards, {writes(3)})) << "write after write";
  EXPECT_FALSE(waits(hazards, {})) << "touches nothing";
}

TEST(Hazards, OneCommandMayReadWhatItWrites) {
  Hazards hazards;
  EXPECT_FALSE(waits(hazards, {reads(1), writes(1)}));
}

TEST(Hazards, AfterWhatIsNotKnownEverythingWaitsOnce) {
  Hazards hazards;
  hazards.add_unknown();
  EXPECT_TRUE(waits(hazards, {reads(1)}));
  EXPECT_FALSE(waits(hazards, {reads(1)}));
}

TEST(Hazards, LongRunsEndInABarrier) {
  Hazards hazards;
  int barriers = 0;
  for (std::uint64_t i = 0; i < 1000; ++i) barriers += int{waits(hazards, {writes(i)})};
  EXPECT_GT(barriers, 0);
  EXPECT_LT(barriers, 20);
}

// Two values of one, and a third of both; then the memory of the first is written again.
TEST(Hazards, ACommandWaitsForThoseThatNoOtherWaitsFor) {
  const std::vector<std::vector<Access>> accesses = {{writes(1)},           {reads(1), writes(2)},
                                                     {reads(1), writes(3)}, {reads(2), reads(3), writes(4)},
                                                     {writes(1)},           {reads(9), writes(8)}};
  std::vector<Command> commands;
  for (const std::vector<Access>& own : accesses) {
    commands.push_back({.module = nullptr, .groups = 1, .words = {}, .accesses = own});
  }
  const std::vector<std::vector<std::size_t>> expected = {{}, {0}, {0}, {2, 1}, {2, 1}, {}};
  EXPECT_EQ(needed_by(commands), expected);
}

}  // namespace
}  // namespace gpu
}  // namespace v0
}  // namespace lockstep

#include "data/random.h"

#include <set>

#include <gtest/gtest.h>

namespace lockstep::data {
namespace {

TEST(DataRandom, StreamsAreFixedAndDiffer) {
  EXPECT_EQ(RandomStream(1, Purpose::shuffle, 2, 3).word64(), RandomStream(1, Purpose::shuffle, 2, 3).word64());
  std::set<std::uint64_t> words;
  int streams = 0;
  for (const std::uint64_t seed : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1} << 32}) {
    for (const Purpose purpose : {Purpose::shuffle, Purpose::augment}) {
      for (const std::uint64_t epoch : {0, 1}) {
        for (const std::uint64_t index : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1} << 32}) {
          for (const std::uint32_t part : {0u, 1u}) {
            words.insert(RandomStream(seed, purpose, epoch, index, part).word64());
            ++streams;
          }
        }
      }
    }
  }
  EXPECT_EQ(words.size(), static_cast<std::size_t>(streams));
}

TEST(DataRandom, BelowIsTheUpperHalfOfTheProduct) {
  for (const std::uint64_t n : {std::uint64_t{1}, std::uint64_t{10}, std::uint64_t{0xfffffffff}, ~std::uint64_t{0}}) {
    RandomStream words(5, Purpose::shuffle, 0, 0);
    RandomStream numbers(5, Purpose::shuffle, 0, 0);
    for (int i = 0; i < 100; ++i) {
      __extension__ using Wide = unsigned __int128;
      EXPECT_EQ(numbers.below(n), static_cast<std::uint64_t>((Wide{words.word64()} * n) >> 64));
    }
  }
}

TEST(DataRandom, UniformNumbersFillTheirRange) {
  RandomStream stream(5, Purpose::augment, 0, 0);
  double sum = 0;
  for (int i = 0; i < 4000; ++i) {
    const float x = stream.uniform(-2, 6);
    ASSERT_GE(x, -2);
    ASSERT_LT(x, 6);
    sum += x;
  }
  EXPECT_NEAR(sum / 4000, 2, 0.2);
}

TEST(DataRandom, PermutationsHoldEveryNumberOnce) {
  const auto order = permutation(1000, RandomStream(5, Purpose::shuffle, 0, 0));
  EXPECT_EQ(std::set<std::int64_t>(order.begin(), order.end()).size(), 1000u);
  EXPECT_NE(order, permutation(1000, RandomStream(5, Purpose::shuffle, 1, 0)));
  EXPECT_TRUE(permutation(0, RandomStream(5, Purpose::shuffle, 0, 0)).empty());
  // Written down, so that no release shuffles otherwise without saying so.
  EXPECT_EQ(permutation(8, RandomStream(42, Purpose::shuffle, 0, 0)), (std::vector<std::int64_t>{2, 7, 0, 5, 4, 6, 3, 1}));
}

}  // namespace
}  // namespace lockstep::data

// The drawn digits: the same bytes everywhere, and different enough from each other.
#include <gtest/gtest.h>

#include <set>
#include <span>

#include <lockstep/data/digits.h>
#include <lockstep/error.h>

#include "core/hash.h"

namespace lockstep::test {
namespace {

std::uint64_t hash(const data::DigitImages& images) {
  return hash_bytes(std::as_bytes(std::span(images.pixels)));
}

TEST(Digits, AreTheSameBytesOnEveryMachine) {
  EXPECT_EQ(hash(data::draw_digits(200, 1)), 0xf8811f99fff84032u);
  EXPECT_NE(hash(data::draw_digits(200, 2)), hash(data::draw_digits(200, 1)));
}

TEST(Digits, ASmallerSetIsTheBeginningOfALargerOne) {
  const data::DigitImages few = data::draw_digits(20, 7);
  const data::DigitImages many = data::draw_digits(50, 7);
  EXPECT_TRUE(std::equal(few.pixels.begin(), few.pixels.end(), many.pixels.begin()));
  EXPECT_EQ(many.labels[13], 3);
  EXPECT_EQ(data::draw_digits(0, 1).pixels.size(), 0u);
  EXPECT_THROW(data::draw_digits(-1, 1), ValueError);
}

TEST(Digits, NoTwoAreAlikeAndAllHaveInk) {
  const data::DigitImages images = data::draw_digits(300, 3);
  std::set<std::uint64_t> seen;
  for (std::size_t i = 0; i < images.labels.size(); ++i) {
    const auto picture = std::span(images.pixels).subspan(i * data::DigitImages::kPixels, data::DigitImages::kPixels);
    seen.insert(hash_bytes(std::as_bytes(picture)));
    EXPECT_GT(std::count_if(picture.begin(), picture.end(), [](std::uint8_t p) { return p > 90; }), 15) << i;
  }
  EXPECT_EQ(seen.size(), images.labels.size());
}

}  // namespace
}  // namespace lockstep::test

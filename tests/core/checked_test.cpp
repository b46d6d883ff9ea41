#include "core/checked.h"

#include <array>
#include <cstdint>

#include <gtest/gtest.h>

#include "support/files.h"

namespace lockstep {
namespace {

using test::message_of;

constexpr std::uint64_t kLargest = ~std::uint64_t{0};

TEST(CheckedSize, ComputesWhatFits) {
  EXPECT_EQ((CheckedSize(3) * 5 + 7).value(), 22u);
  EXPECT_TRUE((CheckedSize(kLargest - 1) + 1).equals(kLargest));
  EXPECT_TRUE((CheckedSize(std::uint64_t{1} << 32) * ((std::uint64_t{1} << 32) - 1)).at_most(kLargest));
}

TEST(CheckedSize, OverflowIsNeverWithinALimit) {
  for (const CheckedSize size :
       {CheckedSize(kLargest) + 1, CheckedSize(std::uint64_t{1} << 32) * (std::uint64_t{1} << 32),
        CheckedSize(1) + kLargest}) {
    EXPECT_TRUE(size.overflowed());
    EXPECT_FALSE(size.at_most(kLargest));
    EXPECT_FALSE(size.equals(0));
  }
}

TEST(CheckedSize, OverflowSticksThroughZeroAndSmallNumbers) {
  const CheckedSize overflowed = CheckedSize(kLargest) * 2;
  EXPECT_TRUE((overflowed * 0).overflowed());
  EXPECT_TRUE((CheckedSize(0) * overflowed).overflowed());
  EXPECT_TRUE((overflowed + 0).overflowed());
  EXPECT_EQ(overflowed.to_string(), "more than 2^64 - 1");
}

TEST(ByteReader, ReadsLittleEndian) {
  const std::array<std::byte, 9> bytes = {std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}, std::byte{5},
                                          std::byte{6}, std::byte{7}, std::byte{8}, std::byte{9}};
  ByteReader reader("file", bytes);
  EXPECT_EQ(reader.u8("a"), 0x01u);
  EXPECT_EQ(reader.u64("b"), 0x0908070605040302u);
  EXPECT_TRUE(reader.at_end());
}

TEST(ByteReader, SaysWhereAndWhatIsMissing) {
  const std::array<std::byte, 5> bytes = {};
  ByteReader reader("model.bin", bytes, 100);
  reader.u16("start");
  EXPECT_EQ(message_of<FormatError>([&] { reader.u32("the count"); }),
            "model.bin: the count needs 4 bytes, but 3 remain (at byte 102)");
  EXPECT_EQ(message_of<FormatError>([&] { reader.take(kLargest, "the data"); }),
            "model.bin: the data needs 18446744073709551615 bytes, but 3 remain (at byte 102)");
  EXPECT_EQ(message_of<FormatError>([&] { reader.take(CheckedSize(kLargest) + 1, "the data"); }),
            "model.bin: the data needs more than 2^64 - 1 bytes, but 3 remain (at byte 102)");
  EXPECT_EQ(reader.remaining(), 3u);
}

TEST(InQuotes, CannotForgeATerminal) {
  EXPECT_EQ(in_quotes("fc.weight"), "\"fc.weight\"");
  EXPECT_EQ(in_quotes("a\"b\\c\n\x1b[2J\xff"), "\"a\\\"b\\\\c\\x0a\\x1b[2J\\xff\"");
  EXPECT_EQ(in_quotes(std::string(1000, 'x')), "\"" + std::string(200, 'x') + "\"... (1000 bytes)");
}

}  // namespace
}  // namespace lockstep

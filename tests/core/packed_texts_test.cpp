#include "core/packed_texts.h"

#include <array>
#include <vector>

#include <gtest/gtest.h>

#include "backends/gpu/texts.h"
#include "core/assert.h"

namespace lockstep {
namespace {

// `printf 'one, two, three' | gzip -n` between its header and its check sum.
constexpr std::array<unsigned char, 15> kPacked = {0xcb, 0xcf, 0x4b, 0xd5, 0x51, 0x28, 0x29, 0xcf,
                                                   0x07, 0x12, 0x19, 0x45, 0xa9, 0xa9, 0x00};

TEST(PackedTexts, AreCutApartBySizes) {
  const std::array<std::size_t, 3> sizes = {5, 0, 10};
  const PackedTexts packed(kPacked, sizes);
  const std::vector<std::string_view> expected = {"one, ", "", "two, three"};
  EXPECT_EQ(std::vector(packed.texts().begin(), packed.texts().end()), expected);
}

TEST(PackedTexts, OfOtherSizesOrCutOffAreRefused) {
  const std::array<std::size_t, 1> exact = {15}, less = {14}, more = {16};
  EXPECT_EQ(PackedTexts(kPacked, exact).texts()[0], "one, two, three");
  EXPECT_THROW(PackedTexts(kPacked, less), InternalError);
  EXPECT_THROW(PackedTexts(kPacked, more), InternalError);
  EXPECT_THROW(PackedTexts(std::span(kPacked).first(9), exact), InternalError);
}

TEST(PackedTexts, AreTheSourcesOfKernels) {
  const std::span<const std::string_view> texts = gpu::embedded_texts();
  ASSERT_GT(texts.size(), 10u);
  for (const std::string_view text : texts) EXPECT_TRUE(text.starts_with("//")) << text.substr(0, 100);
}

}  // namespace
}  // namespace lockstep

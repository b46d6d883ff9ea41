#include <lockstep/io/metadata.h>

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <lockstep/error.h>

#include "support/files.h"

namespace lockstep::io {
namespace {

using testing::HasSubstr;

TEST(Metadata, KeepsTheTypeOfEveryValue) {
  const Metadata metadata{{"text", "resnet"},
                          {"u8", std::uint8_t{255}},
                          {"i8", std::int8_t{-128}},
                          {"u16", std::uint16_t{65535}},
                          {"i16", std::int16_t{-1}},
                          {"u32", std::uint32_t{4294967295u}},
                          {"i32", -7},
                          {"u64", std::numeric_limits<std::uint64_t>::max()},
                          {"i64", std::numeric_limits<std::int64_t>::min()},
                          {"f32", 0.1f},
                          {"f64", 0.1},
                          {"bool", true}};
  for (const auto& [name, value] : metadata) EXPECT_EQ(value.kind(), name);
  EXPECT_EQ(metadata.at("text").to_string(), "resnet");
  EXPECT_EQ(metadata.at("u8").to_string(), "255");
  EXPECT_EQ(metadata.at("i8").to_string(), "-128");
  EXPECT_EQ(metadata.at("u64").to_string(), "18446744073709551615");
  EXPECT_EQ(metadata.at("f32").to_string(), "0.1");
  EXPECT_EQ(metadata.at("f64").to_string(), "0.1");
  EXPECT_EQ(metadata.at("bool").to_string(), "true");
  EXPECT_EQ(*metadata.at("u16").get_if<std::uint16_t>(), 65535);
  EXPECT_EQ(metadata.at("u16").get_if<std::int16_t>(), nullptr);
  EXPECT_NE(metadata.at("f32"), metadata.at("f64"));
}

TEST(Metadata, NumbersAreReadWhateverTheirWidth) {
  EXPECT_EQ(MetadataValue(std::uint8_t{7}).as_integer(), 7);
  EXPECT_EQ(MetadataValue(std::int64_t{-7}).as_integer(), -7);
  EXPECT_EQ(MetadataValue(std::uint32_t{7}).as_real(), 7.0);
  EXPECT_EQ(MetadataValue(0.5f).as_real(), 0.5);
  EXPECT_EQ(MetadataValue("a").as_text(), "a");
  EXPECT_TRUE(MetadataValue(true).as_bool());
  EXPECT_THROW(MetadataValue(std::numeric_limits<std::uint64_t>::max()).as_integer(), ValueError);
  EXPECT_THROW(MetadataValue(true).as_integer(), ValueError);
  EXPECT_THROW(MetadataValue(1.0f).as_integer(), ValueError);
  EXPECT_THROW(MetadataValue(1).as_bool(), ValueError);
  EXPECT_THROW(MetadataValue(1).as_text(), ValueError);
  EXPECT_THAT(test::message_of<ValueError>([] { MetadataValue("three").as_real(); }),
              HasSubstr("\"three\" is text, not a number"));
}

TEST(Metadata, ArraysPrintTheirBeginning) {
  const MetadataValue three(std::vector<float>{0.5f, NAN, -1});
  EXPECT_EQ(three.kind(), "array of 3 f32");
  EXPECT_EQ(three.to_string(), "[0.5, nan, -1]");
  const MetadataValue tokens(std::vector<std::string>(32'000, "x"));
  EXPECT_EQ(tokens.to_string(2), "[x, x, ... 32000 in all]");
  EXPECT_EQ(MetadataValue(std::vector<bool>{true, false}).to_string(), "[true, false]");
  EXPECT_EQ(MetadataValue(std::vector<int>{}).to_string(), "[]");
  const MetadataValue nested(std::vector<MetadataValue>{std::vector<int>{1, 2}, "a"});
  EXPECT_EQ(nested.kind(), "array of 2 arrays");
  EXPECT_EQ(nested.to_string(), "[[1, 2], a]");
  EXPECT_EQ(nested, MetadataValue(std::vector<MetadataValue>{std::vector<int>{1, 2}, "a"}));
}

TEST(Metadata, TextsBecomeMetadata) {
  const std::map<std::string, std::string> texts{{"format", "pt"}, {"epoch", "3"}};
  const Metadata metadata(texts.begin(), texts.end());
  EXPECT_EQ(metadata.at("epoch").as_text(), "3");
  EXPECT_EQ(metadata.size(), 2u);
}

}  // namespace
}  // namespace lockstep::io

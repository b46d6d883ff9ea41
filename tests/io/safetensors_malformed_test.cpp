// One test per way to attack a reader of safetensors files. Each wrong file gives a FormatError that says what is
// wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include <lockstep/error.h>
#include <lockstep/io/safetensors.h>

#include "core/os.h"
#include "io/builders.h"
#include "io/safetensors_header.h"
#include "support/files.h"
#include "support/peak_memory.h"

namespace lockstep::io {
namespace {

using test::bytes_of;
using test::message_of;
using test::safetensors_bytes;
using testing::HasSubstr;

void parse(const std::string& bytes) {
  parse_safetensors_header({"m.safetensors", std::as_bytes(std::span(bytes)), nullptr});
}

std::string error_of(const std::string& bytes) {
  return message_of<FormatError>([&] { parse(bytes); });
}

std::string error_of_header(const std::string& header, const std::string& data = {}) {
  return error_of(safetensors_bytes(header, data));
}

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& span) {
  return "\"" + name + R"(":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + span + "}";
}

constexpr const char* kGood = R"({"__metadata__":{"a":"b"},)"
                              R"("x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                              R"("y":{"dtype":"U8","shape":[],"data_offsets":[8,9]}})";

TEST(MalformedSafetensors, TheGoodFileIsGood) {
  EXPECT_NO_THROW(parse(safetensors_bytes(kGood, std::string(9, 'x'))));
}

TEST(MalformedSafetensors, EveryTruncationIsRefused) {
  const std::string good = safetensors_bytes(kGood, std::string(9, 'x'));
  for (std::size_t size = 0; size < good.size(); ++size) {
    EXPECT_NE(error_of(good.substr(0, size)), "no error") << size;
  }
}

TEST(MalformedSafetensors, Lengths) {
  EXPECT_EQ(error_of("\x01"), "m.safetensors: the header's length needs 8 bytes, but 1 remain (at byte 0)");
  EXPECT_THAT(error_of_header(""), HasSubstr("does not start with \"{\" (at byte 8)"));
  EXPECT_THAT(error_of_header("{"), HasSubstr("not valid JSON"));
  for (const std::uint64_t length :
       {std::uint64_t{1} << 63, ~std::uint64_t{0}, ~std::uint64_t{7}, ~std::uint64_t{3}, std::uint64_t{100'000'001}}) {
    EXPECT_THAT(error_of(bytes_of(length) + "{}"),
                HasSubstr("length " + std::to_string(length) + " exceeds 100000000"));
  }
  EXPECT_THAT(error_of(bytes_of<std::uint64_t>(3) + "{}"), HasSubstr("the header needs 3 bytes, but 2 remain"));
}

TEST(MalformedSafetensors, OtherFilesInFrontOrBehind) {
  EXPECT_THAT(error_of_header(" {}"), HasSubstr("does not start with"));
  EXPECT_THAT(error_of_header("[]"), HasSubstr("does not start with"));
  EXPECT_THAT(error_of_header("{}x"), HasSubstr("not valid JSON"));
  EXPECT_THAT(error_of_header("{}", "PK\x03\x04"), HasSubstr("4 bytes follow the last tensor's data (at byte 10)"));
  EXPECT_NO_THROW(parse(safetensors_bytes("{}   ")));
}

// The JSON parser takes a zero byte for the end.
TEST(MalformedSafetensors, AZeroByteHidesNothing) {
  const std::string zero(1, '\0');
  EXPECT_EQ(error_of_header("{}" + zero + "garbage"),
            "m.safetensors: the header is not valid JSON: it has a zero byte (at byte 10)");
  for (const std::string& header : {"{}" + zero, "{" + zero + "}", "{\"__metadata__\":{\"a" + zero + "\":\"\"}}",
                                    "{\"__metadata__\":{\"a\":\"\\" + zero + "\"}}"}) {
    EXPECT_THAT(error_of_header(header), HasSubstr("zero byte")) << header;
  }
  EXPECT_NO_THROW(parse(safetensors_bytes(R"({"__metadata__":{"a":"\u0000"}})")));
}

TEST(MalformedSafetensors, MetadataKeysAreBounded) {
  const auto texts = [](std::size_t count) {
    std::string header = R"({"__metadata__":{)";
    for (std::size_t i = 0; i < count; ++i) header += (i > 0 ? ",\"" : "\"") + std::to_string(i) + "\":\"\"";
    return header + "}}";
  };
  EXPECT_NO_THROW(parse(safetensors_bytes(texts(kMaxMetadataKeys))));
  const std::string many = safetensors_bytes(texts(2'000'000));
  const auto growth = test::peak_growth(
      [&] { EXPECT_EQ(error_of(many), "m.safetensors: __metadata__ has more than 65536 keys"); });
  if (growth) {
    EXPECT_LT(*growth, 32u << 20);
  }
}

TEST(MalformedSafetensors, ShapesWhoseByteCountWraps) {
  for (const char* shape :
       {"[4611686018427387904,4]", "[4294967296,4294967296]", "[8589934592,2147483648]", "[0,4611686018427387904,4]"}) {
    EXPECT_THAT(error_of_header("{" + entry("a", "F32", shape, "[0,0]") + "}"), HasSubstr("does not match f32"))
        << shape;
  }
  EXPECT_THAT(error_of_header("{" + entry("a", "U8", "[9223372036854775808]", "[0,0]") + "}"),
              HasSubstr("size 9223372036854775808 exceeds 2^63 - 1"));
}

TEST(MalformedSafetensors, SpansThatAreNotTheTensor) {
  EXPECT_EQ(error_of_header("{" + entry("fc.weight", "F32", "[32,8]", "[0,65536]") + "}", std::string(65536, 'x')),
            "m.safetensors: tensor \"fc.weight\": data span [0, 65536) does not match f32 [32, 8] (1024 bytes)");
  EXPECT_THAT(error_of_header("{" + entry("a", "F32", "[128,128]", "[0,4]") + "}", "abcd"),
              HasSubstr("does not match"));
  EXPECT_THAT(error_of_header("{" + entry("a", "U8", "[4]", "[8,4]") + "}", "abcdefgh"),
              HasSubstr("[8, 4) ends before it begins"));
  EXPECT_THAT(error_of_header("{" + entry("a", "U8", "[5]", "[0,5]") + "}", "abcd"),
              HasSubstr("[0, 5) ends after the file's 4 bytes of data"));
}

TEST(MalformedSafetensors, SpansThatOverlapOrLeaveHoles) {
  const auto two = [](const char* a, const char* b) {
    return "{" + entry("a", "U8", "[4]", a) + "," + entry("b", "U8", "[4]", b) + "}";
  };
  EXPECT_THAT(error_of_header(two("[0,4]", "[2,6]"), "abcdef"), HasSubstr("\"b\": data span [2, 6) overlaps"));
  EXPECT_THAT(error_of_header(two("[0,4]", "[0,4]"), "abcd"), HasSubstr("overlaps"));
  EXPECT_THAT(error_of_header(two("[0,4]", "[6,10]"), "abcdefghij"), HasSubstr("leaves a hole after"));
  EXPECT_THAT(error_of_header(two("[2,6]", "[6,10]"), "abcdefghij"), HasSubstr("leaves a hole after"));
  EXPECT_NO_THROW(parse(safetensors_bytes(two("[4,8]", "[0,4]"), "abcdefgh")));
}

TEST(MalformedSafetensors, DuplicatesOfAnyKind) {
  const std::string a = entry("a", "I32", "[1]", "[0,4]");
  EXPECT_EQ(error_of_header("{" + a + "," + entry("a", "F32", "[1]", "[0,4]") + "}", "abcd"),
            "m.safetensors: tensor \"a\" appears twice");
  EXPECT_THAT(error_of_header("{" + a + "," + entry("\\u0061", "F32", "[1]", "[0,4]") + "}", "abcd"),
              HasSubstr("appears twice"));
  EXPECT_THAT(error_of_header("{" + entry("z", "U8", "[0]", "[0,0]") + "," + entry("z", "U8", "[0]", "[0,0]") + "}"),
              HasSubstr("appears twice"));
  EXPECT_THAT(error_of_header(R"({"__metadata__":{},"__metadata__":{}})"), HasSubstr("__metadata__ appears twice"));
  EXPECT_THAT(error_of_header(R"({"__metadata__":{"k":"1","k":"2"}})"), HasSubstr("key \"k\" appears twice"));
  EXPECT_THAT(error_of_header(R"({"a":{"dtype":"U8","dtype":"I8","shape":[0],"data_offsets":[0,0]}})"),
              HasSubstr("key \"dtype\" appears twice"));
}

TEST(MalformedSafetensors, NumbersThatAreNotSizes) {
  for (const char* number : {"1.0", "1e2", "-0", "-1", "\"0\"", "18446744073709551616", "null", "true", "[0]", "{}"}) {
    EXPECT_NE(error_of_header("{" + entry("a", "U8", std::string("[") + number + "]", "[0,0]") + "}"), "no error")
        << number;
    EXPECT_NE(error_of_header("{" + entry("a", "U8", "[0]", std::string("[0,") + number + "]") + "}"), "no error")
        << number;
  }
  // Exact beyond 2^53, where a double would round.
  EXPECT_THAT(error_of_header("{" + entry("a", "U8", "[1]", "[9007199254740993,9007199254740994]") + "}"),
              HasSubstr("[9007199254740993, 9007199254740994)"));
  EXPECT_THAT(error_of_header("{" + entry("a", "U8", "[0]", "[0]") + "}"), HasSubstr("has 1 numbers instead of 2"));
  EXPECT_THAT(error_of_header("{" + entry("a", "U8", "[0]", "[0,0,0]") + "}"), HasSubstr("has 3 numbers instead of 2"));
}

TEST(MalformedSafetensors, WrongKindsAndKeys) {
  EXPECT_THAT(error_of_header(R"({"a":1})"), HasSubstr("tensor \"a\": is 1 instead of an object"));
  EXPECT_THAT(error_of_header(R"({"a":"b"})"), HasSubstr("instead of an object"));
  EXPECT_THAT(error_of_header(R"({"__metadata__":{"k":1}})"), HasSubstr("key \"k\" holds 1 instead of a string"));
  EXPECT_THAT(error_of_header(R"({"__metadata__":[]})"), HasSubstr("__metadata__ is an array instead of an object"));
  EXPECT_THAT(error_of_header(R"({"a":{"dtype":"U8","shape":[0]}})"), HasSubstr("data_offsets is missing"));
  EXPECT_THAT(error_of_header(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0],"stride":[1]}})"),
              HasSubstr("key \"stride\" is not known"));
  EXPECT_THAT(error_of_header("{" + entry("a", "F4", "[2]", "[0,1]") + "}", "x"),
              HasSubstr("dtype \"F4\" is not known"));
  EXPECT_THAT(error_of_header("{" + entry("a", "U8", "[1,1,1,1,1,1,1,1,1]", "[0,1]") + "}", "x"),
              HasSubstr("more than 8 dimensions"));
  EXPECT_THAT(error_of_header("{\"\xff\":{}}"), HasSubstr("not valid JSON"));
}

TEST(MalformedSafetensors, NestingEndsTheParseAtOnce) {
  for (const char* opening : {"[", "{\"a\":"}) {
    std::string deep = "{\"a\":";
    for (int i = 0; i < 100'000; ++i) deep += opening;
    EXPECT_NE(error_of_header(deep), "no error");
  }
}

TEST(MalformedSafetensors, HugeHeadersCostBoundedTimeAndMemory) {
  std::string many = "{";
  while (many.size() < 20'000'000) {
    many += entry(std::to_string(many.size()), "U8", "[0]", "[0,0]") + ",";
  }
  many.back() = '}';
  const std::string one_text = "{\"" + std::string(50'000'000, 'x') + "\":1}";
  const std::string one_number = "{\"a\":" + std::string(50'000'000, '1') + "}";
  const auto start = std::chrono::steady_clock::now();
  const std::uint64_t before = os::resident_bytes();
  EXPECT_THAT(error_of_header(many), HasSubstr("lists more than 131072 tensors"));
  EXPECT_THAT(error_of_header(one_text), HasSubstr("more than 1048576 bytes"));
  EXPECT_THAT(error_of_header(one_number), HasSubstr("more than 1048576 bytes"));
  EXPECT_LT(os::resident_bytes(), before + (200u << 20));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));  // quadratic would take minutes
}

}  // namespace
}  // namespace lockstep::io

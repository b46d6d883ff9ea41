#include "io/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <lockstep/error.h>
#include <lockstep/io/weights.h>
#include <lockstep/ops.h>

#include "io/gguf_builder.h"
#include "support/data.h"
#include "support/files.h"

namespace lockstep::io {
namespace {

using test::bytes_of;
using test::gguf_file;
using test::gguf_tensor;
using test::gguf_text;
using test::gguf_value;
using test::message_of;
using test::TemporaryFolder;
using testing::HasSubstr;

std::string floats(const std::vector<float>& values) {
  std::string result;
  for (const float value : values) result += bytes_of(value);
  return result;
}

std::string refusal(const std::string& bytes) {
  const TemporaryFolder folder;
  const std::string path = folder.write("x.gguf", bytes);
  return message_of<FormatError>([&] { list_tensors(path); });
}

TEST(Gguf, ReadsTensorsInRowMajorOrder) {
  const TemporaryFolder folder;
  for (const std::uint32_t version : {2u, 3u}) {
    const std::string path =
        folder.write("a.gguf", gguf_file({}, {gguf_tensor("w", {3, 2}, 0, 0)}, floats({1, 2, 3, 4, 5, 6}), version));
    const TensorMap tensors = load_weights(path);
    EXPECT_EQ(tensors.at("w").shape(), (Shape{2, 3}));
    EXPECT_EQ(tensors.at("w").to_vector<float>(), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  }
}

TEST(Gguf, KeepsTheTypesOfMetadata) {
  const TemporaryFolder folder;
  const std::string path = folder.write(
      "a.gguf",
      gguf_file({gguf_value("u8", 0, "\x07"), gguf_value("i32", 5, bytes_of<std::int32_t>(-5)),
                 gguf_value("f32", 6, bytes_of(0.5f)), gguf_value("yes", 7, "\x01"),
                 gguf_value("text", 8, gguf_text("abc")), gguf_value("f64", 12, bytes_of(0.25)),
                 gguf_value("names", 9,
                            bytes_of<std::uint32_t>(8) + bytes_of<std::uint64_t>(2) + gguf_text("a") + gguf_text("")),
                 gguf_value("sizes", 9,
                            bytes_of<std::uint32_t>(4) + bytes_of<std::uint64_t>(2) + bytes_of<std::uint32_t>(3) +
                                bytes_of<std::uint32_t>(9))}));
  const FileListing listing = list_tensors(path);
  EXPECT_EQ(listing.format, "GGUF");
  const Metadata expected = {{"u8", std::uint8_t{7}},
                             {"i32", std::int32_t{-5}},
                             {"f32", 0.5f},
                             {"yes", true},
                             {"text", "abc"},
                             {"f64", 0.25},
                             {"names", std::vector<std::string>{"a", ""}},
                             {"sizes", std::vector<std::uint32_t>{3, 9}}};
  EXPECT_EQ(listing.metadata, expected);
}

TEST(Gguf, NamesPackedTypesAndDecodesThem) {
  const TemporaryFolder folder;
  std::string block = bytes_of<std::uint16_t>(0x3800);  // 0.5 as f16
  for (int i = 0; i < 32; ++i) block += static_cast<char>(i - 16);
  const std::string path = folder.write("a.gguf", gguf_file({}, {gguf_tensor("q", {32, 1}, 8, 0)}, block));
  const FileListing listing = list_tensors(path);
  EXPECT_EQ(listing.tensors.at(0).encoding, "Q8_0");
  EXPECT_EQ(listing.tensors.at(0).bytes, 34u);
  const std::vector<float> values = load_weights(path).at("q").to_vector<float>();
  EXPECT_EQ(values.front(), -8.0f);
  EXPECT_EQ(values.back(), 7.5f);
}

TEST(Gguf, SaysWhatCannotBeDecoded) {
  const TemporaryFolder folder;
  const std::string path =
      folder.write("a.gguf", gguf_file({}, {gguf_tensor("q", {256}, 15, 0)}, std::string(292, '\0')));
  EXPECT_EQ(list_tensors(path).tensors.at(0).encoding, "Q8_K");
  EXPECT_THAT(message_of<FormatError>([&] { load_weights(path); }),
              HasSubstr("tensor \"q\": elements of type Q8_K cannot be decoded"));
}

TEST(Gguf, RefusesEveryTruncation) {
  const std::string whole = gguf_file({gguf_value("general.architecture", 8, gguf_text("llama"))},
                                      {gguf_tensor("w", {4}, 0, 0)}, floats({1, 2, 3, 4}));
  EXPECT_EQ(refusal(whole), "no error");
  for (std::size_t size = 4; size < whole.size(); ++size) {
    EXPECT_NE(refusal(whole.substr(0, size)), "no error") << size;
  }
}

TEST(Gguf, RefusesHostileNumbers) {
  const std::string data(64, '\0');
  const auto tensor = [&](const std::vector<std::uint64_t>& sizes, std::uint32_t type, std::uint64_t offset) {
    return refusal(gguf_file({}, {gguf_tensor("w", sizes, type, offset)}, data));
  };
  EXPECT_THAT(refusal("GGUF" + bytes_of<std::uint32_t>(3) + bytes_of(std::uint64_t{1} << 63) + std::string(8, '\0')),
              HasSubstr("9223372036854775808 tensors are more than 65536"));
  EXPECT_THAT(tensor({(std::uint64_t{1} << 42) + 1, std::uint64_t{1} << 30}, 0, 0), HasSubstr("needs more than 2^64"));
  EXPECT_THAT(tensor({0, std::uint64_t{1} << 62, std::uint64_t{1} << 62}, 0, 0), HasSubstr("needs more than 2^64"));
  EXPECT_THAT(tensor({1, 1, 1, 1, 1}, 0, 0), HasSubstr("has 5 dimensions, more than 4"));
  EXPECT_THAT(tensor({4}, 99, 0), HasSubstr("unknown element type 99"));
  EXPECT_THAT(tensor({33}, 8, 0), HasSubstr("rows of 33 elements are no blocks of 32 (Q8_0)"));
  EXPECT_THAT(tensor({4}, 0, 4), HasSubstr("not aligned to 32 bytes"));
  EXPECT_THAT(tensor({4}, 0, 64), HasSubstr("after the file's"));
  EXPECT_THAT(tensor({4}, 0, ~std::uint64_t{31}), HasSubstr("after the file's"));
  EXPECT_THAT(refusal(gguf_file({gguf_value("a", 9, bytes_of<std::uint32_t>(8) + bytes_of(std::uint64_t{1} << 61))})),
              HasSubstr("more than the file can hold"));
  EXPECT_THAT(refusal(gguf_file({gguf_value("a", 9, bytes_of<std::uint32_t>(9) + bytes_of<std::uint64_t>(0))})),
              HasSubstr("is an array of arrays"));
  for (const std::uint32_t alignment : {0u, 3u, 1u << 31}) {
    EXPECT_THAT(refusal(gguf_file({gguf_value("general.alignment", 4, bytes_of(alignment))})),
                HasSubstr("not a power of two"));
  }
  EXPECT_THAT(refusal(gguf_file({}, {gguf_tensor("a", {16}, 0, 0), gguf_tensor("b", {4}, 0, 32)}, data)),
              HasSubstr("overlap those before them"));
  EXPECT_THAT(refusal(gguf_file({}, {gguf_tensor("a", {4}, 0, 0), gguf_tensor("a", {4}, 0, 32)}, data)),
              HasSubstr("tensor \"a\" appears twice"));
  EXPECT_THAT(refusal("GGUF" + std::string("\0\0\0\3", 4) + std::string(16, '\0')), HasSubstr("big-endian"));
}

// The three files of one model, whose safetensors hold the same values.
TEST(Gguf, ReadsPublishedFiles) {
  const auto folder = test::test_data("tinyllm");
  LOCKSTEP_REQUIRE_DATA(folder);
  const TensorMap dense = load_weights((folder / "stories260K-f32.gguf").string());
  const TensorMap named = load_weights((folder / "stories260K.safetensors").string());
  EXPECT_EQ(dense.at("token_embd.weight").hash(), named.at("model.embed_tokens.weight").hash());
  EXPECT_EQ(dense.at("blk.4.ffn_down.weight").hash(), named.at("model.layers.4.mlp.down_proj.weight").hash());
  for (const auto& [name, largest] : {std::pair{"stories260K-q8_0.gguf", 0.01}, {"stories260K-q4_0.gguf", 0.2}}) {
    const TensorMap packed = load_weights((folder / name).string());
    ASSERT_EQ(packed.size(), dense.size());
    for (const auto& [key, tensor] : dense) {
      EXPECT_LE(amax(abs(packed.at(key).to(DType::f32) - tensor)).item<float>(), largest) << key;
    }
  }
}

}  // namespace
}  // namespace lockstep::io

#include "io/gguf_writer.h"

#include <cerrno>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <lockstep/error.h>
#include <lockstep/io/gguf.h>
#include <lockstep/io/weights.h>
#include <lockstep/ops.h>

#include "support/failing_calls.h"
#include "support/files.h"

namespace lockstep::io {
namespace {

using test::message_of;
using test::TemporaryFolder;
using testing::HasSubstr;

// The file that the Python package gguf 0.19.0 writes: GGUFWriter(path, "llama"), add_uint32("llama.block_count", 2),
// add_float32("llama.eps", 0.5), add_bool("llama.flag", True), add_array("llama.names", ["a", "bc"]),
// add_array("llama.sizes", [3, -4]), add_tensor("a", arange(3) as f32), add_tensor("b.weight", [[1, 2], [3, 4]] as
// f16), add_tensor("c", arange(34) as u8, raw_dtype=Q8_0).
constexpr std::string_view kFileOfGguf =
    "474755460300000003000000000000000600000000000000140000000000000067656e6572616c2e6172636869746563747572650800"
    "000005000000000000006c6c616d6111000000000000006c6c616d612e626c6f636b5f636f756e740400000002000000090000000000"
    "00006c6c616d612e657073060000000000003f0a000000000000006c6c616d612e666c616707000000010b000000000000006c6c616d"
    "612e6e616d657309000000080000000200000000000000010000000000000061020000000000000062630b000000000000006c6c616d"
    "612e73697a65730900000005000000020000000000000003000000fcffffff0100000000000000610100000003000000000000000000"
    "000000000000000000000800000000000000622e77656967687402000000020000000000000002000000000000000100000020000000"
    "000000000100000000000000630200000020000000000000000100000000000000080000004000000000000000000000000000000000"
    "000000000000000000000000803f000000400000000000000000000000000000000000000000003c0040004200440000000000000000"
    "00000000000000000000000000000000000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f202100000000"
    "0000000000000000000000000000000000000000000000000000";

std::string hexadecimal(std::string_view bytes) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text;
  for (const char c : bytes) {
    text += kDigits[static_cast<unsigned char>(c) >> 4];
    text += kDigits[static_cast<unsigned char>(c) & 15];
  }
  return text;
}

const BlockType& type_named(std::string_view name) {
  for (const BlockType& type : block_types()) {
    if (type.name == name) return type;
  }
  throw std::runtime_error("no such type");
}

std::vector<std::byte> ascending_bytes(std::size_t count) {
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i < count; ++i) bytes.push_back(static_cast<std::byte>(i));
  return bytes;
}

TEST(GgufWriter, WritesTheBytesOfGguf) {
  const TemporaryFolder folder;
  const Metadata metadata = {{"general.architecture", "llama"},
                             {"llama.block_count", std::uint32_t{2}},
                             {"llama.eps", 0.5f},
                             {"llama.flag", true},
                             {"llama.names", std::vector<std::string>{"a", "bc"}},
                             {"llama.sizes", std::vector<std::int32_t>{3, -4}}};
  const Tensor a = Tensor::from(std::vector<float>{0, 1, 2}, {3});
  const Tensor b = Tensor::from(std::vector<float>{1, 2, 3, 4}, {2, 2}).to(DType::f16);
  const std::vector<GgufPart> parts = {
      {"a", &type_named("F32"), a.shape(), [&] { return elements_of(a); }},
      {"b.weight", &type_named("F16"), b.shape(), [&] { return elements_of(b); }},
      {"c", &type_named("Q8_0"), {1, 32}, [] { return ascending_bytes(34); }},
  };
  write_gguf(folder.path("x.gguf"), parts, metadata, os::system_calls());
  EXPECT_EQ(hexadecimal(test::read_whole_file(folder.path("x.gguf"))), kFileOfGguf);
}

TEST(GgufWriter, EveryTypeOfMetadataAndTensorComesBack) {
  const TemporaryFolder folder;
  const Metadata metadata = {{"u8", std::uint8_t{7}},
                             {"i8", std::int8_t{-7}},
                             {"u16", std::uint16_t{65535}},
                             {"i16", std::int16_t{-300}},
                             {"u64", ~std::uint64_t{0}},
                             {"i64", std::int64_t{-1}},
                             {"f64", 0.1},
                             {"text", std::string("a\0b", 3)},
                             {"empty", ""},
                             {"truths", std::vector<bool>{true, false, true}},
                             {"nothing", std::vector<float>{}},
                             {"bytes", std::vector<std::uint8_t>{1, 2, 255}},
                             {"reals", std::vector<double>{1.5, -0.0}},
                             {"general.alignment", std::uint32_t{64}}};
  TensorMap tensors;
  for (const DType dtype :
       {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i8, DType::i16, DType::i32, DType::i64}) {
    tensors.emplace(std::string(name_of(dtype)),
                    Tensor::from(std::vector<float>{1, -2, 3, 4, 5, 6}, {3, 1, 2}).to(dtype));
  }
  tensors.emplace("scalar", Tensor::from(std::vector<float>{3}, {}));
  tensors.emplace("none", Tensor::from(std::vector<float>{}, {2, 0}));
  save_gguf(folder.path("x.gguf"), tensors, metadata);
  const FileListing listing = list_tensors(folder.path("x.gguf"));
  EXPECT_EQ(listing.metadata, metadata);
  for (const TensorEntry& entry : listing.tensors) {
    if (entry.bytes != 0) {
      EXPECT_EQ(entry.offset % 64, 0u) << entry.name;
    }
  }
  const TensorMap found = load_weights(folder.path("x.gguf"));
  ASSERT_EQ(found.size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    EXPECT_EQ(found.at(name).dtype(), tensor.dtype()) << name;
    EXPECT_EQ(found.at(name).shape(), tensor.shape()) << name;
    EXPECT_EQ(elements_of(found.at(name)), elements_of(tensor)) << name;
  }
}

TEST(GgufWriter, RefusesWhatTheFormatCannotHold) {
  const TemporaryFolder folder;
  const Tensor one = Tensor::from(std::vector<float>{1}, {1});
  const auto refusal = [&](const TensorMap& tensors, const Metadata& metadata) {
    return message_of<ValueError>([&] { save_gguf(folder.path("x.gguf"), tensors, metadata); });
  };
  EXPECT_THAT(refusal({{"a", one.to(DType::u8)}}, {}), HasSubstr("tensor \"a\": GGUF has no elements of u8"));
  EXPECT_THAT(refusal({{std::string(65, 'n'), one}}, {}), HasSubstr("its name has 65 bytes, not 1 to 64"));
  EXPECT_THAT(refusal({{"", one}}, {}), HasSubstr("its name has 0 bytes"));
  EXPECT_THAT(refusal({{"a", one.reshape({1, 1, 1, 1, 1})}}, {}), HasSubstr("more than 4 dimensions"));
  EXPECT_THAT(refusal({{"a", Tensor()}}, {}), HasSubstr("\"a\""));
  EXPECT_THAT(refusal({{"a", one}}, {{"", 1.0f}}), HasSubstr("has 0 bytes, not 1 to 65535"));
  EXPECT_THAT(refusal({{"a", one}}, {{"n", std::vector<MetadataValue>{std::vector<float>{1}}}}),
              HasSubstr("metadata \"n\" is an array of arrays"));
  for (const std::uint32_t alignment : {0u, 3u, 1u << 31}) {
    EXPECT_THAT(refusal({{"a", one}}, {{"general.alignment", alignment}}), HasSubstr("not a power of two"));
  }
  EXPECT_THAT(refusal({{"a", one}}, {{"general.alignment", std::uint64_t{32}}}),
              HasSubstr("(u64), not a power of two"));
  const Tensor packed = quantize(zeros({1, 32}), Encoding::q8_0);
  EXPECT_THAT(message_of<DTypeError>([&] {
                save_gguf(folder.path("x.gguf"), {{"a", packed}});
              }),
              HasSubstr("tensor \"a\" is packed (q8_0); dequantize makes it dense"));
  EXPECT_TRUE(folder.names().empty());
}

TEST(GgufWriter, AFailingCallLeavesTheOldFileOrTheNew) {
  const Tensor old_value = Tensor::from(std::vector<float>{1}, {1});
  const Tensor new_value = Tensor::from(std::vector<float>{2}, {1});
  const std::vector<GgufPart> parts = {{"a", &type_named("F32"), {1}, [&] { return elements_of(new_value); }}};
  int failures = 0;
  for (int k = 0;; ++k) {
    const TemporaryFolder folder;
    const std::string path = folder.path("x.gguf");
    save_gguf(path, {{"a", old_value}});
    test::FailingCalls calls(k, ENOSPC);
    bool reported = false;
    try {
      write_gguf(path, parts, {}, calls);
    } catch (const IoError&) {
      reported = true;
      ++failures;
    }
    const float found = load_weights(path).at("a").item<float>();
    EXPECT_TRUE(found == 2.0f || (reported && found == 1.0f)) << calls.failed_call();
    EXPECT_EQ(folder.names(), std::vector<std::string>{"x.gguf"}) << calls.failed_call();
    if (!calls.failed()) break;
  }
  EXPECT_GT(failures, 3);
}

}  // namespace
}  // namespace lockstep::io

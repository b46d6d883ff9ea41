#include "io/block_encode.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <lockstep/error.h>
#include <lockstep/io/safetensors.h>

#include "support/data.h"

namespace lockstep::io {
namespace {

const BlockType& encoded_type(std::string_view name) {
  for (const BlockType& type : block_types()) {
    if (type.name == name) return type;
  }
  throw std::runtime_error("no such type");
}

std::vector<std::byte> encoded(const BlockType& type, const std::vector<float>& values) {
  std::vector<std::byte> blocks(values.size() / type.elements * type.bytes);
  encode_blocks(type, values, blocks);
  return blocks;
}

template <typename Error> std::string encoding_error(const std::string& name, const std::vector<float>& values) {
  try {
    encoded(encoded_type(name), values);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// Weights of many sizes, ties, zeros, values beside powers of two, quantised by the Python package gguf; and by ggml.
TEST(BlockEncode, BytesAreThoseOfGguf) {
  const TensorFile file = load_safetensors(test::repository_data("encoded.safetensors").string());
  const auto values_of = [&](const char* name) { return file.tensors.at(name).to_vector<float>(); };
  const std::vector<float> short_rows = values_of("values");
  const std::vector<float> long_rows = values_of("values_of_256");
  ASSERT_GT(short_rows.size(), 6000u);
  int compared = 0;
  for (const BlockType& type : block_types()) {
    if (type.encode == nullptr) continue;
    const std::string name(type.name);
    const std::vector<std::uint8_t> expected = file.tensors.at(name + ".blocks").to_vector<std::uint8_t>();
    const bool searched = name.ends_with("_K") || name.starts_with("IQ");
    const std::vector<float>& values = searched ? long_rows : short_rows;
    const std::vector<std::byte> blocks = encoded(type, values);
    ASSERT_EQ(blocks.size(), expected.size()) << name;
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      ASSERT_EQ(std::to_integer<int>(blocks[i]), expected[i])
          << name << " block " << i / type.bytes << " byte " << i % type.bytes;
    }
    ++compared;
  }
  EXPECT_EQ(compared, 13);
}

// The stored scale, minimum and codes are each rounded; the decoder gives values back within those roundings.
TEST(BlockEncode, DecodedValuesAreNearWhatWasEncoded) {
  std::vector<float> values(256);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i) * 1.7f);
  const std::pair<const char*, float> steps[] = {
      {"Q4_0", 1 / 8.0f},  {"Q4_1", 1 / 15.0f}, {"Q5_0", 1 / 16.0f}, {"Q5_1", 1 / 31.0f}, {"Q8_0", 0.5f / 127},
      {"MXFP4", 0.25f},    {"Q2_K", 0.4f},      {"Q3_K", 1 / 4.0f},  {"Q4_K", 1 / 14.0f}, {"Q5_K", 1 / 22.0f},
      {"Q6_K", 1 / 31.0f}, {"IQ4_NL", 0.11f},   {"IQ4_XS", 0.12f}};
  for (const auto& [name, distance] : steps) {
    const BlockType& type = encoded_type(name);
    std::vector<float> again(values.size());
    decode_blocks(type, encoded(type, values), again);
    for (std::size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(again[i], values[i], distance + 1e-3f) << name;
  }
}

TEST(BlockEncode, ScalesTooSmallToInvertGiveZeros) {
  for (const BlockType& type : block_types()) {
    if (type.encode == nullptr) continue;
    std::vector<float> values(type.elements, 1e-42f);
    values[3] = -2e-42f;
    std::vector<float> again(type.elements, 1.0f);
    decode_blocks(type, encoded(type, values), again);
    for (const float value : again) EXPECT_NEAR(value, 0.0f, 1e-37f) << type.name;
  }
}

TEST(BlockEncode, RefusesWhatItCannotHold) {
  std::vector<float> values(64, 1.0f);
  values[40] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_NE(encoding_error<ValueError>("Q4_0", values).find("element 40"), std::string::npos);
  values[40] = -std::numeric_limits<float>::infinity();
  EXPECT_NE(encoding_error<ValueError>("MXFP4", values).find("element 40"), std::string::npos);
  values[40] = -3e38f;
  values[41] = 3e38f;  // their difference is infinite
  for (const char* name : {"Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"}) {
    const std::string text = encoding_error<ValueError>(name, values);
    EXPECT_NE(text.find("elements 32 to 63"), std::string::npos) << text;
    EXPECT_NE(text.find(name), std::string::npos) << text;
  }
  for (const char* name : {"Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS"}) {
    for (const float large : {3e38f, 5e8f}) {
      std::vector<float> more(512, 1.0f);
      more[300] = large;
      const std::string text = encoding_error<ValueError>(name, more);
      EXPECT_NE(text.find("are too large for the f16 scale of " + std::string(name)), std::string::npos) << text;
      EXPECT_NE(text.find(std::string(name) == "IQ4_NL" ? "288 to 319" : "256 to 511"), std::string::npos) << text;
    }
  }
  EXPECT_EQ(encoding_error<ValueError>("MXFP4", values), "no error");  // its exponent has f32's range
  const std::string text = encoding_error<ValueError>("IQ2_S", std::vector<float>(256, 1.0f));
  EXPECT_NE(text.find("IQ2_S"), std::string::npos) << text;
  EXPECT_NE(text.find("Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL, IQ4_XS, MXFP4"),
            std::string::npos)
      << text;
}

}  // namespace
}  // namespace lockstep::io

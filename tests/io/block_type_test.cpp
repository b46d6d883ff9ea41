#include "io/block_type.h"

#include <bit>
#include <cmath>
#include <set>

#include <gtest/gtest.h>

#include <lockstep/io/safetensors.h>

#include "support/data.h"

namespace lockstep::io {
namespace {

TEST(BlockType, RowsAreConsistent) {
  std::set<std::uint32_t> ids;
  std::set<std::string_view> names;
  for (const BlockType& type : block_types()) {
    EXPECT_TRUE(ids.insert(type.id).second) << type.name;
    EXPECT_TRUE(names.insert(type.name).second) << type.name;
    EXPECT_EQ(find_block_type(type.id), &type);
    EXPECT_EQ(type.dense.has_value(), type.elements == 1) << type.name;
    EXPECT_EQ(type.dense ? size_of(*type.dense) : type.bytes, type.bytes) << type.name;
  }
  EXPECT_EQ(find_block_type(4), nullptr);  // Q4_2, which ggml has removed
}

// Blocks of random bytes, decoded by the Python package gguf, or by ggml where that cannot.
TEST(BlockType, DecodesAsGgufDoesToTheBit) {
  const TensorFile file = load_safetensors(test::repository_data("blocks.safetensors").string());
  int compared = 0;
  for (const BlockType& type : block_types()) {
    if (type.decode == nullptr) continue;
    const std::string name(type.name);
    const std::vector<std::uint8_t> blocks = file.tensors.at(name + ".blocks").to_vector<std::uint8_t>();
    const std::vector<float> expected = file.tensors.at(name + ".values").to_vector<float>();
    std::vector<float> values(expected.size());
    decode_blocks(type, std::as_bytes(std::span(blocks)), values);
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_TRUE(std::isfinite(expected[i])) << name;
      ASSERT_EQ(std::bit_cast<std::uint32_t>(values[i]), std::bit_cast<std::uint32_t>(expected[i]))
          << name << " element " << i << ": " << values[i] << " instead of " << expected[i];
    }
    ++compared;
  }
  EXPECT_EQ(compared, 25);
}

}  // namespace
}  // namespace lockstep::io

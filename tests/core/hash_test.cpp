#include "core/hash.h"

#include <cstring>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include <lockstep/error.h>

namespace lockstep {
namespace {

template <typename T> std::uint64_t hash_of(DType dtype, std::vector<T> values) {
  return hash_elements(dtype, std::as_bytes(std::span(values)));
}

// Reference values of the algorithm: XXH3-64 with seed 0.
TEST(Hash, IsXxh3) {
  EXPECT_EQ(hash_bytes({}), 0x2d06800538d394c2u);
  EXPECT_EQ(hash_elements(DType::u8, {}), 0x2d06800538d394c2u);
}

TEST(Hash, CountsEveryNaNAsTheQuietOne) {
  EXPECT_EQ(hash_of<std::uint16_t>(DType::f16, {0x7c01, 0xffff, 0x3c00}),
            hash_of<std::uint16_t>(DType::f16, {0x7e00, 0x7e00, 0x3c00}));
  EXPECT_EQ(hash_of<std::uint16_t>(DType::bf16, {0x7f81, 0xffff}),
            hash_of<std::uint16_t>(DType::bf16, {0x7fc0, 0x7fc0}));
  EXPECT_EQ(hash_of<std::uint32_t>(DType::f32, {0x7f800001, 0xffc00000}),
            hash_of<std::uint32_t>(DType::f32, {0x7fc00000, 0x7fc00000}));
  EXPECT_EQ(hash_of<std::uint64_t>(DType::f64, {0x7ff0000000000001, 0xfff8000000000000}),
            hash_of<std::uint64_t>(DType::f64, {0x7ff8000000000000, 0x7ff8000000000000}));
}

TEST(Hash, KeepsInfinitiesZerosAndIntegersApart) {
  EXPECT_NE(hash_of<std::uint32_t>(DType::f32, {0x7f800000}), hash_of<std::uint32_t>(DType::f32, {0x7fc00000}));
  EXPECT_NE(hash_of<std::uint32_t>(DType::f32, {0x00000000}), hash_of<std::uint32_t>(DType::f32, {0x80000000}));
  EXPECT_NE(hash_of<std::uint32_t>(DType::i32, {0x7f800001}), hash_of<std::uint32_t>(DType::i32, {0x7fc00000}));
}

TEST(Hash, DoesNotDependOnPiecesOrAlignment) {
  std::vector<float> values(5000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) * 0.37f;
  std::memset(&values[1023], 0xff, 8);  // NaNs across a block's end
  const std::span<const std::byte> bytes = std::as_bytes(std::span(values));
  const std::uint64_t whole = hash_elements(DType::f32, bytes);

  ElementHasher pieces(DType::f32);
  for (std::size_t at = 0, size = 4; at < bytes.size(); at += size, size += 4) {
    size = std::min(size, bytes.size() - at);
    pieces.update(bytes.subspan(at, size));
  }
  EXPECT_EQ(pieces.digest(), whole);

  std::vector<std::byte> shifted(bytes.size() + 1);
  std::memcpy(shifted.data() + 1, bytes.data(), bytes.size());
  EXPECT_EQ(hash_elements(DType::f32, std::span(shifted).subspan(1)), whole);
}

TEST(Hash, RefusesPartsOfElements) {
  const std::vector<std::byte> bytes(7);
  EXPECT_THROW(hash_elements(DType::f32, bytes), ValueError);
}

}  // namespace
}  // namespace lockstep

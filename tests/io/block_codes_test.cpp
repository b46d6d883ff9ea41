// Codes with scales and offsets: packed they have the values that they have dense, and the smallest encoding is taken.
#include "io/block_codes.h"

#include <random>

#include <gtest/gtest.h>

#include <lockstep/ops.h>

namespace lockstep::io {
namespace {

/// Codes between two numbers, both of which occur; groups of 32 columns.
CodedMatrix random_matrix(int lowest, int highest, bool offsets) {
  std::mt19937 random(static_cast<unsigned>(highest - lowest));
  CodedMatrix result{.rows = 3, .columns = 96, .groups = 3};
  const auto half = [&] { return to_f32(to_f16(static_cast<float>(random() % 1000) / 1000.0F - 0.4F)); };
  for (int i = 0; i < 3 * 96; ++i) {
    result.codes.push_back(
        static_cast<std::int16_t>(lowest + static_cast<int>(random() % static_cast<unsigned>(highest - lowest + 1))));
  }
  result.codes.front() = static_cast<std::int16_t>(lowest);
  result.codes.back() = static_cast<std::int16_t>(highest);
  for (int i = 0; i < 96; ++i) result.group_of.push_back(2 - i / 32);  // in any order
  for (int i = 0; i < 9; ++i) result.scales.push_back(half());
  if (offsets) {
    for (int i = 0; i < 9; ++i) result.offsets.push_back(half());
  }
  return result;
}

void expect_packed_as(const CodedMatrix& matrix, Encoding encoding) {
  const Tensor dense = tensor_of(matrix, false);
  const Tensor packed = tensor_of(matrix, true);
  EXPECT_EQ(dense.encoding(), Encoding::dense);
  EXPECT_EQ(packed.encoding(), encoding) << name_of(packed.encoding());
  EXPECT_EQ(dequantize(packed).hash(), dense.hash()) << name_of(encoding);
}

TEST(BlockCodes, TakeTheSmallestEncodingThatHoldsThem) {
  expect_packed_as(random_matrix(-8, 7, false), Encoding::q4_0);
  expect_packed_as(random_matrix(-8, 8, false), Encoding::q5_0);
  expect_packed_as(random_matrix(-9, 7, false), Encoding::q5_0);
  expect_packed_as(random_matrix(-16, 15, false), Encoding::q5_0);
  expect_packed_as(random_matrix(-16, 16, false), Encoding::q8_0);
  expect_packed_as(random_matrix(-128, 127, false), Encoding::q8_0);
  expect_packed_as(random_matrix(-128, 128, false), Encoding::dense);
  expect_packed_as(random_matrix(0, 15, true), Encoding::q4_1);
  expect_packed_as(random_matrix(0, 16, true), Encoding::q5_1);
  expect_packed_as(random_matrix(0, 31, true), Encoding::q5_1);
  expect_packed_as(random_matrix(0, 32, true), Encoding::dense);
  expect_packed_as(random_matrix(-1, 15, true), Encoding::dense);
}

TEST(BlockCodes, StayDenseWhereBlocksWouldChangeThem) {
  CodedMatrix matrix = random_matrix(-8, 7, false);
  matrix.scales[4] = 0.1F;  // no f16 number
  expect_packed_as(matrix, Encoding::dense);
  matrix = random_matrix(-8, 7, false);
  matrix.scales[4] = 1e6F;
  expect_packed_as(matrix, Encoding::dense);
  matrix = random_matrix(0, 15, true);
  matrix.offsets[8] = 1e-9F;
  expect_packed_as(matrix, Encoding::dense);
  matrix = random_matrix(-8, 7, false);
  matrix.group_of[40] = 0;
  expect_packed_as(matrix, Encoding::dense);
  matrix = random_matrix(-8, 7, false);
  matrix.columns = 48;
  matrix.rows = 6;
  matrix.group_of.resize(48);
  matrix.scales.insert(matrix.scales.end(), matrix.scales.begin(), matrix.scales.end());
  expect_packed_as(matrix, Encoding::dense);
}

TEST(BlockCodes, KeepTheSignsOfZeros) {
  CodedMatrix matrix = random_matrix(-8, 7, false);
  matrix.codes.assign(matrix.codes.size(), 0);
  expect_packed_as(matrix, Encoding::q4_0);
  matrix = random_matrix(0, 15, true);
  matrix.codes.assign(matrix.codes.size(), 0);
  matrix.offsets.assign(matrix.offsets.size(), -0.0F);
  expect_packed_as(matrix, Encoding::q4_1);
}

ScaledFloats random_floats(const Shape& shape, std::int64_t tall, std::int64_t wide, DType dtype) {
  std::mt19937 random(static_cast<unsigned>(tall + 7 * wide));
  ScaledFloats result{.floats = {}, .tall = tall, .wide = wide, .scales = {}};
  std::vector<std::uint8_t> bytes;
  for (std::int64_t i = 0; i < shape.numel(); ++i) bytes.push_back(static_cast<std::uint8_t>(random() % 256));
  result.floats = Tensor::from_bytes(bytes.data(), bytes.size(), shape, dtype);
  const std::int64_t scales = (shape[0] + tall - 1) / tall * ((shape[1] + wide - 1) / wide);
  for (std::int64_t i = 0; i < scales; ++i) result.scales.push_back(static_cast<float>(random() % 1000) * 1e-3F - 0.3F);
  return result;
}

TEST(BlockCodes, FloatsStayWhatTheyAre) {
  const auto expect = [](const Shape& shape, std::int64_t tall, std::int64_t wide, DType dtype, Encoding encoding) {
    const ScaledFloats matrix = random_floats(shape, tall, wide, dtype);
    const Tensor dense = tensor_of(matrix, false);
    const Tensor packed = tensor_of(matrix, true);
    EXPECT_EQ(dense.encoding(), Encoding::dense);
    EXPECT_EQ(packed.encoding(), encoding) << name_of(packed.encoding());
    EXPECT_EQ(dequantize(packed).hash(), dense.hash()) << name_of(encoding);
  };
  expect({300, 256}, 300, 256, DType::f8e4m3, Encoding::e4m3_rows);
  expect({300, 256}, 1, 256, DType::f8e4m3, Encoding::e4m3_rows);
  expect({300, 256}, 128, 128, DType::f8e4m3, Encoding::e4m3_squares);
  expect({100, 256}, 100, 128, DType::f8e4m3, Encoding::e4m3_squares);
  expect({300, 256}, 1, 128, DType::f8e4m3, Encoding::e4m3);
  expect({300, 256}, 128, 128, DType::f8e5m2, Encoding::e5m2);
  // Rows, or their parts with one scale, that are no whole blocks.
  expect({300, 192}, 1, 192, DType::f8e4m3, Encoding::dense);
  expect({300, 256}, 1, 64, DType::f8e4m3, Encoding::dense);
  expect({2, 200}, 128, 128, DType::f8e4m3, Encoding::dense);
}

}  // namespace
}  // namespace lockstep::io

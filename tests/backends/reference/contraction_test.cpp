// Contractions on the reference backend, against the definition and values worked out by hand.
#include <gtest/gtest.h>

#include <cmath>

#include "backends/reference/programs.h"
#include "kernels/scalar.h"

namespace lockstep {
namespace {

using test::bytes_of;
using test::run_reference;
using test::values_of;

/// out[m, n] = sum_k a[m, k] b[k, n], all row-major, result of type `type` stored as `result`.
ContractionKernel matmul(std::int64_t m, std::int64_t n, std::int64_t k, DType dtype, ComputeType type, DType result) {
  ContractionKernel kernel;
  kernel.m = {m};
  kernel.n = {n};
  kernel.k = {k};
  kernel.type = type;
  kernel.a.slot = 0;
  kernel.a.dtype = dtype;
  kernel.a.view.shape = {m, k};
  kernel.a.view.strides = {k, 1};
  kernel.b_operand.slot = 1;
  kernel.b_operand.dtype = dtype;
  kernel.b_operand.view.shape = {k, n};
  kernel.b_operand.view.strides = {n, 1};
  Instruction accumulator;
  accumulator.kind = Instruction::Kind::accumulator;
  accumulator.type = type;
  kernel.epilogue.rows = {m};
  kernel.epilogue.inner = {n};
  kernel.epilogue.code = {accumulator};
  kernel.epilogue.outputs = {{.slot = 2, .dtype = result, .value = 0, .bits = false, .strides = {n, 1}}};
  return kernel;
}

float dot_f32(const std::vector<float>& a, const std::vector<float>& b) {
  const auto k = static_cast<std::int64_t>(a.size());
  std::vector<std::vector<std::byte>> slots = {bytes_of(a), bytes_of(b), std::vector<std::byte>(4)};
  run_reference(matmul(1, 1, k, DType::f32, ComputeType::f32, DType::f32), slots);
  return values_of<float>(slots[2])[0];
}

TEST(ReferenceContraction, SmallMatrixProduct) {
  std::vector<std::vector<std::byte>> slots = {bytes_of(std::vector<float>{1, 2, 3, 4, 5, 6}),
                                               bytes_of(std::vector<float>{7, 8, 9, 10, 11, 12}),
                                               std::vector<std::byte>(16)};
  run_reference(matmul(2, 2, 3, DType::f32, ComputeType::f32, DType::f32), slots);
  EXPECT_EQ(values_of<float>(slots[2]), (std::vector<float>{58, 64, 139, 154}));
}

TEST(ReferenceContraction, BlocksOf256FusedFromPlusZero) {
  for (std::size_t k : {1U, 2U, 255U, 256U, 257U, 512U, 700U}) {
    std::vector<float> a(k), b(k);
    for (std::size_t i = 0; i < k; ++i) {
      a[i] = std::sin(static_cast<float>(i));
      b[i] = std::cos(static_cast<float>(3 * i));
    }
    float total = 0;
    for (std::size_t begin = 0; begin < k; begin += 256) {
      float partial = 0;
      for (std::size_t i = begin; i < std::min(k, begin + 256); ++i) partial = std::fma(a[i], b[i], partial);
      total = begin == 0 ? partial : total + partial;
    }
    EXPECT_EQ(BITS(dot_f32(a, b)), BITS(total)) << k;
  }
}

TEST(ReferenceContraction, ZerosSubnormalsAndNan) {
  EXPECT_EQ(BITS(dot_f32({}, {})), 0U);
  EXPECT_EQ(BITS(dot_f32({-0.0F}, {1.0F})), 0U);  // fma(-0, 1, +0) is +0
  EXPECT_EQ(BITS(dot_f32({INFINITY}, {0.0F})), 0x7fc00000U);
  EXPECT_EQ(BITS(dot_f32({0x1p-127F}, {1e38F})), 0U);                                 // a subnormal operand is zero
  EXPECT_EQ(dot_f32({0x1p-100F, 0x1p-100F}, {0x1.8p-27F, 0x1.8p-26F}), 0x1.2p-125F);  // the first product is subnormal
  EXPECT_EQ(BITS(dot_f32({-0x1p-100F}, {0x1p-27F})), 0x80000000U);                    // the stored result is canonical
}

TEST(ReferenceContraction, IntegersWrap) {
  std::vector<std::vector<std::byte>> slots = {bytes_of(std::vector<std::int32_t>{2'000'000'000, 3}),
                                               bytes_of(std::vector<std::int32_t>{2, -5}), std::vector<std::byte>(4)};
  run_reference(matmul(1, 1, 2, DType::i32, ComputeType::i32, DType::i32), slots);
  EXPECT_EQ(values_of<std::int32_t>(slots[2])[0], static_cast<std::int32_t>(4'000'000'000U) - 15);
  slots = {bytes_of(std::vector<std::int8_t>{-128, 127}), bytes_of(std::vector<std::int8_t>{-128, 2}),
           std::vector<std::byte>(4)};
  run_reference(matmul(1, 1, 2, DType::i8, ComputeType::i32, DType::i32), slots);
  EXPECT_EQ(values_of<std::int32_t>(slots[2])[0], 16384 + 254);
}

TEST(ReferenceContraction, F16OperandsAreExactAndRoundOnceWhenStored) {
  // 1 * (1 + 2^-10) + 2^-11 * 1 is a tie of f16 between 1 + 2^-10 and 1 + 2^-9.
  std::vector<std::vector<std::byte>> slots = {bytes_of(std::vector<std::uint16_t>{0x3c00, 0x1000}),
                                               bytes_of(std::vector<std::uint16_t>{0x3c01, 0x3c00}),
                                               std::vector<std::byte>(2)};
  run_reference(matmul(1, 1, 2, DType::f16, ComputeType::f32, DType::f16), slots);
  EXPECT_EQ(values_of<std::uint16_t>(slots[2])[0], 0x3c02);
}

TEST(ReferenceContraction, EpilogueSeesBatchAndRowsThenColumns) {
  // out[b, m, n] = relu(sum_k a[b, m, k] b[b, k, n] + bias[n])
  ContractionKernel kernel = matmul(2, 2, 1, DType::f32, ComputeType::f32, DType::f32);
  kernel.b = {2};
  kernel.a.view.shape = {2, 2, 1};
  kernel.a.view.strides = {2, 1, 1};
  kernel.b_operand.view.shape = {2, 1, 2};
  kernel.b_operand.view.strides = {2, 2, 1};
  Program& epilogue = kernel.epilogue;
  epilogue.rows = {2, 2};
  Input bias;
  bias.slot = 3;
  bias.view.shape = {2, 2, 2};
  bias.view.strides = {0, 0, 1};
  epilogue.inputs = {bias};
  Instruction load;
  load.index = 0;
  Instruction add;
  add.kind = Instruction::Kind::elementwise;
  add.op = Op::add;
  add.a = 0;
  add.b = 1;
  Instruction relu = add;
  relu.op = Op::relu;
  relu.a = 2;
  relu.b = -1;
  epilogue.code.push_back(load);
  epilogue.code.push_back(add);
  epilogue.code.push_back(relu);
  epilogue.outputs = {{.slot = 2, .dtype = DType::f32, .value = 3, .bits = false, .strides = {4, 2, 1}}};
  std::vector<std::vector<std::byte>> slots = {bytes_of(std::vector<float>{1, 2, 3, 4}),
                                               bytes_of(std::vector<float>{1, -1, 10, 20}), std::vector<std::byte>(32),
                                               bytes_of(std::vector<float>{0.5F, 1.5F})};
  run_reference(kernel, slots);
  EXPECT_EQ(values_of<float>(slots[2]), (std::vector<float>{1.5F, 0.5F, 2.5F, 0, 30.5F, 61.5F, 40.5F, 81.5F}));
}

}  // namespace
}  // namespace lockstep

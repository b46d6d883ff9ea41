// Row programs on the reference backend, against values worked out by hand.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "backends/reference/programs.h"
#include "core/assert.h"
#include "core/fp_state.h"
#include "kernels/scalar.h"

namespace lockstep {
namespace {

using test::bytes_of;
using test::ProgramBuilder;
using test::run_reference;
using test::values_of;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
const float kNegativeNan = FROM_BITS(0xffc12345U);

std::vector<std::uint32_t> bits_of(const std::vector<float>& values) {
  return values_of<std::uint32_t>(bytes_of(values));
}

/// The results of one elementwise op over f32 operands.
std::vector<float> run_op(Op op, const std::vector<float>& a, const std::vector<float>& b = {}) {
  ProgramBuilder builder({}, {static_cast<std::int64_t>(a.size())});
  std::vector<std::vector<std::byte>> slots = {bytes_of(a)};
  const int x = builder.load(DType::f32);
  int y = -1;
  if (!b.empty()) {
    y = builder.load(DType::f32);
    slots.push_back(bytes_of(b));
  }
  builder.store(builder.elementwise(op, x, y), DType::f32);
  slots.emplace_back(a.size() * sizeof(float));
  run_reference(builder.row_kernel(), slots);
  return values_of<float>(slots.back());
}

/// The reduction of one row of T to a result of type R.
template <typename R, typename T> R run_reduce(ReduceOp op, const std::vector<T>& x, DType result) {
  ProgramBuilder builder({}, {static_cast<std::int64_t>(x.size())});
  const int value = builder.load(dtype_of<T>());
  builder.store(builder.reduce(op, value, value), result);
  std::vector<std::vector<std::byte>> slots = {bytes_of(x), std::vector<std::byte>(sizeof(R))};
  run_reference(builder.row_kernel(), slots);
  return values_of<R>(slots[1])[0];
}

float reduce_f32(ReduceOp op, const std::vector<float>& x) {
  return run_reduce<float>(op, x, DType::f32);
}
std::int64_t index_f32(ReduceOp op, const std::vector<float>& x) {
  return run_reduce<std::int64_t>(op, x, DType::i64);
}

TEST(ReferenceElementwise, ResultsAreCanonical) {
  const std::vector<float> a = {0x1p-126F, -0x1p-127F, 0x1.8p-100F, kNegativeNan, kInfinity, -0.0F};
  const std::vector<float> b = {1.0F, 1e30F, 0x1p-26F, 1.0F, 0.0F, 1.0F};
  // The smallest normal as a result is zero; a subnormal operand is zero; 1.5 * 2^-126 stays.
  EXPECT_EQ(bits_of(run_op(Op::mul, a, b)),
            (std::vector<std::uint32_t>{0, 0x80000000U, 0x00c00000U, 0x7fc00000U, 0x7fc00000U, 0x80000000U}));
}

TEST(ReferenceElementwise, SubnormalOperandsReadAsZeroEverywhere) {
  const float tiny = FROM_BITS(0x007fffffU);
  EXPECT_EQ(bits_of(run_op(Op::neg, {tiny, 0.0F})), (std::vector<std::uint32_t>{0x80000000U, 0x80000000U}));
  EXPECT_EQ(run_op(Op::div, {1.0F}, {-tiny})[0], -kInfinity);
  EXPECT_EQ(run_op(Op::exp, {tiny})[0], 1.0F);
}

TEST(ReferenceElementwise, MaximumAndMinimumLetNanAndTheFirstWin) {
  EXPECT_EQ(bits_of(run_op(Op::maximum, {-0.0F, 0.0F, 1.0F, kNegativeNan}, {0.0F, -0.0F, kNegativeNan, 1.0F})),
            (std::vector<std::uint32_t>{0x80000000U, 0, 0x7fc00000U, 0x7fc00000U}));
  EXPECT_EQ(bits_of(run_op(Op::minimum, {-0.0F, 0.0F, 1.0F, kNegativeNan}, {0.0F, -0.0F, kNegativeNan, 1.0F})),
            (std::vector<std::uint32_t>{0x80000000U, 0, 0x7fc00000U, 0x7fc00000U}));
}

TEST(ReferenceElementwise, ReluAndSignKeepNan) {
  EXPECT_EQ(bits_of(run_op(Op::relu, {-1.0F, -0.0F, 2.0F, kNegativeNan})),
            (std::vector<std::uint32_t>{0, 0, BITS(2.0F), 0x7fc00000U}));
  EXPECT_EQ(bits_of(run_op(Op::sign, {-3.0F, -0.0F, 5.0F, kNegativeNan})),
            (std::vector<std::uint32_t>{BITS(-1.0F), 0x80000000U, BITS(1.0F), 0x7fc00000U}));
}

TEST(ReferenceElementwise, EntersWithAnyFloatingPointState) {
#ifdef __x86_64__
  const std::vector<float> a = {0x1.8p-100F};
  const std::vector<float> b = {0x1.8p-25F};
  const std::uint64_t found = FloatingPointScope::control_word();
  const float expected = run_op(Op::mul, a, b)[0];
  FloatingPointScope::set_control_word(0x9fc0 | 0x6000);  // FTZ, DAZ, rounding to zero
  const float thirds = run_op(Op::div, {2.0F}, {3.0F})[0];
  const float got = run_op(Op::mul, a, b)[0];
  FloatingPointScope::set_control_word(found);
  EXPECT_EQ(got, expected);
  EXPECT_EQ(thirds, 2.0F / 3.0F);
#endif
}

TEST(ReferenceElementwise, MovesKeepBits) {
  ProgramBuilder builder({}, {3});
  const int condition = builder.load(DType::boolean, true);
  const int x = builder.load(DType::f32, true);
  const int y = builder.load(DType::f32, true);
  builder.store(builder.elementwise(Op::where, condition, x, y), DType::f32, true);
  std::vector<std::vector<std::byte>> slots = {
      bytes_of(std::vector<std::uint8_t>{1, 0, 1}), bytes_of(std::vector<std::uint32_t>{0xffc12345U, 1, 0x00000001U}),
      bytes_of(std::vector<std::uint32_t>{0, 0x80000003U, 0}), std::vector<std::byte>(12)};
  run_reference(builder.row_kernel(), slots);
  EXPECT_EQ(values_of<std::uint32_t>(slots[3]), (std::vector<std::uint32_t>{0xffc12345U, 0x80000003U, 1}));
}

TEST(ReferenceElementwise, NarrowIntegersWrapWhenRounded) {
  ProgramBuilder builder({}, {2});
  const int x = builder.load(DType::u8);
  const int sum = builder.elementwise(Op::add, x, x);
  const int rounded = builder.cast(sum, DType::u8, DType::u8);
  builder.store(rounded, DType::u8);
  builder.store(builder.elementwise(Op::lt, rounded, x), DType::boolean);
  std::vector<std::vector<std::byte>> slots = {bytes_of(std::vector<std::uint8_t>{100, 200}), std::vector<std::byte>(2),
                                               std::vector<std::byte>(2)};
  run_reference(builder.row_kernel(), slots);
  EXPECT_EQ(values_of<std::uint8_t>(slots[1]), (std::vector<std::uint8_t>{200, 144}));
  EXPECT_EQ(values_of<std::uint8_t>(slots[2]), (std::vector<std::uint8_t>{0, 1}));
}

TEST(ReferenceCast, RoundsOnceFromTheExactSource) {
  ProgramBuilder builder({}, {2});
  const int x = builder.load(DType::f64);
  builder.store(builder.cast(x, DType::f64, DType::f16), DType::f16);
  builder.store(builder.cast(x, DType::f64, DType::i8), DType::i8);
  std::vector<std::vector<std::byte>> slots = {bytes_of(std::vector<double>{1.0 + 0x1p-11 + 0x1p-40, -1e9}),
                                               std::vector<std::byte>(4), std::vector<std::byte>(2)};
  run_reference(builder.row_kernel(), slots);
  EXPECT_EQ(values_of<std::uint16_t>(slots[1]), (std::vector<std::uint16_t>{0x3c01, 0xfc00}));
  EXPECT_EQ(values_of<std::int8_t>(slots[2]), (std::vector<std::int8_t>{1, -128}));
}

/// A sum in the words of docs/numerics.md section 4, written once more and differently: padded with -0.0 to full lanes.
float literal_sum(std::vector<float> x) {
  while (x.size() > 1) {
    std::vector<float> chunks;
    for (std::size_t begin = 0; begin < x.size(); begin += 4096) {
      std::vector<float> chunk(4096, -0.0F);
      std::copy(x.begin() + static_cast<std::ptrdiff_t>(begin),
                x.begin() + static_cast<std::ptrdiff_t>(std::min(begin + 4096, x.size())), chunk.begin());
      float lanes[64];
      for (std::size_t lane = 0; lane < 64; ++lane) {
        lanes[lane] = chunk[lane];
        for (std::size_t i = lane + 64; i < 4096; i += 64) lanes[lane] += chunk[i];
      }
      for (std::size_t width : {32U, 16U, 8U, 4U, 2U, 1U}) {
        for (std::size_t lane = 0; lane < width; ++lane) lanes[lane] += lanes[lane + width];
      }
      chunks.push_back(lanes[0]);
    }
    x = chunks;
  }
  return x[0];
}

TEST(ReferenceReduce, SumsInTheSpecifiedOrder) {
  for (std::size_t n : {1U, 2U, 3U, 63U, 64U, 65U, 100U, 128U, 4095U, 4096U, 4097U, 9000U, 300'000U}) {
    std::vector<float> x(n);
    for (std::size_t i = 0; i < n; ++i) x[i] = std::sin(static_cast<float>(i)) * static_cast<float>(1 + i % 7);
    EXPECT_EQ(BITS(reduce_f32(ReduceOp::sum, x)), BITS(scalar::canonical(literal_sum(x)))) << n;
  }
}

TEST(ReferenceReduce, SumKeepsTheSignOfZeroAndTheOneNan) {
  EXPECT_EQ(BITS(reduce_f32(ReduceOp::sum, {-0.0F})), 0x80000000U);
  EXPECT_EQ(BITS(reduce_f32(ReduceOp::sum, {-0.0F, -0.0F})), 0x80000000U);
  EXPECT_EQ(BITS(reduce_f32(ReduceOp::sum, {-0.0F, 0.0F})), 0U);
  EXPECT_EQ(BITS(reduce_f32(ReduceOp::sum, {1.0F, kNegativeNan})), 0x7fc00000U);
  EXPECT_EQ(BITS(reduce_f32(ReduceOp::sum, {kInfinity, -kInfinity})), 0x7fc00000U);
}

TEST(ReferenceReduce, AccumulatorsKeepSubnormalsAndResultsDoNot) {
  // (a - b) is subnormal and grows back to a normal number: lanes 0 and 1 meet last, lanes 0 and 2 before.
  const std::vector<float> grows = {0x1.8p-126F, 0x1p-126F, -0x1.2p-126F};
  EXPECT_EQ(reduce_f32(ReduceOp::sum, grows), 0x1.6p-126F);
  EXPECT_EQ(BITS(reduce_f32(ReduceOp::sum, {-0x1.8p-126F, 0x1.2p-126F})), 0x80000000U);
  // Subnormal elements are zeros.
  EXPECT_EQ(BITS(reduce_f32(ReduceOp::sum, std::vector<float>(64, 0x1p-127F))), 0U);
}

TEST(ReferenceReduce, EmptySumsAndProducts) {
  EXPECT_EQ(BITS(reduce_f32(ReduceOp::sum, {})), 0U);
  EXPECT_EQ(reduce_f32(ReduceOp::prod, {}), 1.0F);
  EXPECT_EQ(BITS(reduce_f32(ReduceOp::dot, {})), 0U);
  EXPECT_THROW(reduce_f32(ReduceOp::max, {}), InternalError);
}

TEST(ReferenceReduce, DotRoundsTheFirstProductAndFusesTheRest) {
  const float x = 1.0F + 0x3p-12F;  // x * x = 1 + 3 * 2^-11 + 9 * 2^-24 loses 2^-24 when it is rounded
  const float square = x * x;
  EXPECT_EQ(reduce_f32(ReduceOp::dot, {x}), square);
  std::vector<float> two(65, 0.0F);
  two[0] = x;
  two[64] = x;
  EXPECT_EQ(reduce_f32(ReduceOp::dot, two), std::fma(x, x, square));
  EXPECT_EQ(square, 1.0F + 0x3p-11F + 0x1p-21F);
}

TEST(ReferenceReduce, MaxAndMinGiveTheFirstWinner) {
  EXPECT_EQ(index_f32(ReduceOp::argmax, {1, 3, 3, 2}), 1);
  EXPECT_EQ(index_f32(ReduceOp::argmin, {1, 0, -0.0F, 0}), 1);
  EXPECT_EQ(BITS(reduce_f32(ReduceOp::max, {-1.0F, -0.0F, 0.0F})), 0x80000000U);
  EXPECT_EQ(index_f32(ReduceOp::argmax, {1, kNegativeNan, kInfinity, std::nanf("")}), 1);
  EXPECT_EQ(index_f32(ReduceOp::argmin, {1, -kInfinity, kNegativeNan}), 2);
  EXPECT_EQ(BITS(reduce_f32(ReduceOp::min, {1, -kInfinity, kNegativeNan})), 0x7fc00000U);
  EXPECT_EQ(BITS(reduce_f32(ReduceOp::max, {-1.0F, 0x1p-126F})), 0U);  // the result is canonical
}

TEST(ReferenceReduce, IntegersGiveI64AndWrap) {
  EXPECT_EQ((run_reduce<std::int64_t>(ReduceOp::sum, std::vector<std::int32_t>(3, 2'000'000'000), DType::i64)),
            6'000'000'000);
  EXPECT_EQ((run_reduce<std::int64_t>(ReduceOp::prod, std::vector<std::uint8_t>(10, 255), DType::i64)),
            static_cast<std::int64_t>([] {
              std::uint64_t product = 1;
              for (int i = 0; i < 10; ++i) product *= 255;
              return product;
            }()));
  EXPECT_EQ((run_reduce<std::uint32_t>(ReduceOp::max, std::vector<std::uint32_t>{1, 4'000'000'000, 2}, DType::u32)),
            4'000'000'000);
}

TEST(ReferenceProgram, SoftmaxOfTwoRows) {
  ProgramBuilder builder({2}, {3});
  const int x = builder.load(DType::f32);
  const int e = builder.elementwise(Op::exp, builder.elementwise(Op::sub, x, builder.reduce(ReduceOp::max, x)));
  const int sum = builder.reduce(ReduceOp::sum, e);
  builder.store(builder.elementwise(Op::div, e, sum), DType::f32);
  builder.store(sum, DType::f32);
  std::vector<std::vector<std::byte>> slots = {bytes_of(std::vector<float>{1, 2, 3, 5, 5, 5}),
                                               std::vector<std::byte>(24), std::vector<std::byte>(8)};
  run_reference(builder.row_kernel(), slots);
  const float e1 = scalar::ls_exp(-1.0F);
  const float e2 = scalar::ls_exp(-2.0F);
  const float s = (e2 + 1.0F) + e1;  // lanes 0 and 2 meet before 1
  EXPECT_EQ(values_of<float>(slots[1]),
            (std::vector<float>{e2 / s, e1 / s, 1.0F / s, 1.0F / 3.0F, 1.0F / 3.0F, 1.0F / 3.0F}));
  EXPECT_EQ(values_of<float>(slots[2]), (std::vector<float>{s, 3.0F}));
}

TEST(ReferenceProgram, ViewsBroadcastReverseAndPad) {
  ProgramBuilder builder({2}, {4});
  Input input;
  input.view.shape = {2, 4};
  input.view.strides = {0, -1};  // both rows: the 2 elements backwards, one element of padding on either side
  input.view.offset = 2;
  input.view.bounds = {Bound{.offset = -1, .m = {0, 1}, .lo = 0, .hi = 2}};
  input.view.fill = BITS(9.0F);
  const int x = builder.load(input);
  builder.program().outputs.push_back({.slot = 1, .dtype = DType::f32, .value = x, .bits = false, .strides = {4, 1}});
  std::vector<std::vector<std::byte>> slots = {bytes_of(std::vector<float>{1, 2}), std::vector<std::byte>(32)};
  run_reference(builder.row_kernel(), slots);
  EXPECT_EQ(values_of<float>(slots[1]), (std::vector<float>{9, 2, 1, 9, 9, 2, 1, 9}));
}

TEST(ReferenceProgram, RandomWordsOfElementPositions) {
  ProgramBuilder builder({2}, {3});
  builder.program().positions.push_back({.offset = 5, .strides = {3, 1}});
  Instruction iota;
  iota.kind = Instruction::Kind::iota;
  iota.type = ComputeType::i64;
  iota.index = 0;
  Instruction random;
  random.kind = Instruction::Kind::random;
  random.type = ComputeType::i32;
  random.a = builder.push(iota);
  random.index = 0;
  builder.store(builder.push(random), DType::i32);
  std::vector<std::vector<std::byte>> slots = {std::vector<std::byte>(24)};
  run_reference(builder.row_kernel(), slots, {{0x0000000700000003U}, {11}});
  const auto words = values_of<std::uint32_t>(slots[0]);
  for (std::uint32_t i = 0; i < 6; ++i) EXPECT_EQ(words[i], scalar::philox_word(3, 7, 11, 0, 5 + i, 0));
}

TEST(ReferenceProgram, ConstantsAndBitsOfNarrowTypes) {
  ProgramBuilder builder({}, {1});
  Instruction constant;
  constant.kind = Instruction::Kind::constant;
  constant.type = ComputeType::f32;
  constant.index = 0;
  constant.extent = Extent::row;
  const int c = builder.push(constant);
  Instruction to_bits;
  to_bits.kind = Instruction::Kind::to_bits;
  to_bits.dtype = DType::f16;
  to_bits.type = ComputeType::i32;
  to_bits.extent = Extent::row;
  to_bits.a = c;
  const int bits = builder.push(to_bits);
  builder.store(bits, DType::f16, true);
  Instruction from_bits = to_bits;
  from_bits.kind = Instruction::Kind::from_bits;
  from_bits.type = ComputeType::f32;
  from_bits.a = bits;
  builder.store(builder.push(from_bits), DType::f32);
  std::vector<std::vector<std::byte>> slots = {std::vector<std::byte>(2), std::vector<std::byte>(4)};
  run_reference(builder.row_kernel(), slots, {{BITS(-2.0F)}});
  EXPECT_EQ(values_of<std::uint16_t>(slots[0])[0], 0xc000);
  EXPECT_EQ(values_of<float>(slots[1])[0], -2.0F);
}

TEST(ReferenceProgram, EmptyIterationSpacesDoNothing) {
  ProgramBuilder builder({0}, {3});
  builder.store(builder.elementwise(Op::neg, builder.load(DType::f32)), DType::f32);
  std::vector<std::vector<std::byte>> slots(2);
  run_reference(builder.row_kernel(), slots);
}

}  // namespace
}  // namespace lockstep

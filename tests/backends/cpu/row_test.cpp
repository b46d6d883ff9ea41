// Row programs of the shapes that the scheduler makes, against the reference backend, by equality of bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include <lockstep/threads.h>

#include "backends/cpu/row/planner.h"
#include "kernels/scalar.h"
#include "support/program_builder.h"

namespace lockstep {
namespace {

using testing::ProgramBuilder;
using testing::Random;
using testing::same_bits;

constexpr auto f32 = ComputeType::f32;

/// A dense f32 input over the whole space.
int dense_input(ProgramBuilder& builder, Random& random, DType dtype = DType::f32, bool canonical = true) {
  const Shape space = builder.space();
  const int slot = builder.add_buffer(random, dtype, space.numel(), !canonical);
  return builder.load(builder.add_input(slot, dtype, View::contiguous(space), canonical));
}

/// An input with one element per inner index, the same for every row.
int per_column(ProgramBuilder& builder, Random& random) {
  const Shape space = builder.space();
  const int slot = builder.add_buffer(random, DType::f32, builder.program().inner.numel(), false);
  return builder.load(
      builder.add_input(slot, DType::f32, View::contiguous(builder.program().inner).expanded(space), true));
}

void softmax(ProgramBuilder& builder, int x, DType dtype) {
  const int m = builder.reduce(ReduceOp::max, x);
  const int finite = builder.op(Op::isfinite, f32, m);
  const int words = builder.op(Op::mul, f32, m, m);  // something else that is computed per row
  (void)words;
  (void)finite;
  const int e = builder.op(Op::exp, f32, builder.op(Op::sub, f32, x, m));
  builder.output(builder.op(Op::div, f32, e, builder.reduce(ReduceOp::sum, e)), dtype);
}

void layer_norm(ProgramBuilder& builder, int x, int gain, int bias, std::int64_t n) {
  const int count = builder.constant(static_cast<float>(n));
  const int mean = builder.op(Op::div, f32, builder.reduce(ReduceOp::sum, x), count);
  const int d = builder.op(Op::sub, f32, x, mean);
  const int variance = builder.op(Op::div, f32, builder.reduce(ReduceOp::dot, d, d), count);
  const int scale = builder.op(Op::rsqrt, f32, builder.op(Op::add, f32, variance, builder.constant(1e-5f)));
  const int y = builder.op(Op::mul, f32, builder.op(Op::mul, f32, d, scale), gain);
  builder.output(builder.op(Op::add, f32, y, bias), DType::f32);
  builder.output(mean, DType::f32);
}

const std::vector<std::int64_t> kSizes = {1, 2, 9, 63, 64, 65, 511, 512, 513, 4095, 4096, 4097, 10000};

TEST(Row, SoftmaxOfEverySize) {
  Random random(1);
  for (std::int64_t n : kSizes) {
    for (std::int64_t rows : {1, 3, 70}) {
      ProgramBuilder builder({rows}, {n});
      softmax(builder, dense_input(builder, random), DType::f32);
      EXPECT_TRUE(builder.agrees_everywhere()) << rows << " x " << n;
    }
  }
}

/// Rows of numbers far enough apart that some exponentials are 0, and rows with each special value; softmax of a
/// row with a NaN is nothing but NaN, so most have none.
void fill_rows(Random& random, std::vector<std::byte>& buffer, std::int64_t rows, std::int64_t n) {
  auto* const x = reinterpret_cast<float*>(buffer.data());
  for (std::int64_t i = 0; i < rows * n; ++i) x[i] = static_cast<float>(random.below(1 << 20)) * 0x1p-12f - 128;
  const float special[] = {NAN, INFINITY, -INFINITY};
  for (std::int64_t r = 1; r < std::min<std::int64_t>(rows, 4); ++r) x[r * n + n / 2] = special[r - 1];
  if (rows > 4) std::fill_n(x + 4 * n, n, -INFINITY);
  if (rows > 5) std::fill_n(x + 5 * n, n, -0.0f);
}

TEST(Row, ExponentialsOfRowsAreAddedWhereTheyAreMade) {
  Random random(16);
  for (const std::int64_t n : {513, 1000, 4095, 4096, 4097, 9000}) {
    for (const std::int64_t rows : {1, 2, 7}) {
      ProgramBuilder builder({rows}, {n});
      const int x = dense_input(builder, random);
      fill_rows(random, builder.buffers()[0], rows, n);
      softmax(builder, x, DType::f32);
      EXPECT_TRUE(builder.agrees_everywhere()) << rows << " x " << n;
      for (const Isa isa : available_isas()) {
        const RowPlan plan = make_plan(builder.program(), {.isa = isa});
        const auto adds = [](const Step& step) { return step.kind == Step::Kind::exponentials && step.c >= 0; };
        ASSERT_EQ(plan.passes.size(), 3u);
        const auto& steps = plan.passes[1].steps;
        EXPECT_EQ(std::any_of(steps.begin(), steps.end(), adds), isa != Isa::scalar) << name_of(isa);
      }
    }
  }
}

TEST(Row, ExponentialsAboveTheLargestOfSomethingElse) {
  Random random(17);
  ProgramBuilder builder({3}, {2000});
  const int x = dense_input(builder, random);
  const int y = dense_input(builder, random);
  for (const std::size_t buffer : {0u, 1u}) fill_rows(random, builder.buffers()[buffer], 1, 3 * 2000);
  const int e = builder.op(Op::exp, f32, builder.op(Op::sub, f32, x, builder.reduce(ReduceOp::min, y)));
  builder.output(builder.op(Op::div, f32, e, builder.reduce(ReduceOp::sum, e)), DType::f32);
  EXPECT_TRUE(builder.agrees_everywhere());
}

TEST(Row, ExponentialsDoNotLookAtALargestThatComesLater) {
  // Each row's shift is what was the largest of the row before, and most of its elements are above it.
  constexpr std::int64_t kRows = 6, kLength = 1500;
  Random random(18);
  ProgramBuilder builder({kRows}, {kLength});
  const int x = dense_input(builder, random);
  const int slot = builder.add_buffer(random, DType::f32, kRows, false);
  const View view = View::contiguous({kRows}).reshaped({kRows, 1})->expanded(builder.space());
  const int shift = builder.load(builder.add_input(slot, DType::f32, view, true), Extent::row);
  auto* const elements = reinterpret_cast<float*>(builder.buffers()[0].data());
  auto* const shifts = reinterpret_cast<float*>(builder.buffers()[1].data());
  for (std::int64_t i = 0; i < kRows * kLength; ++i) elements[i] = static_cast<float>(i / kLength * 95 + i % 90);
  for (std::int64_t r = 0; r < kRows; ++r) shifts[r] = static_cast<float>(std::max<std::int64_t>(r - 1, 0) * 95 + 89);
  builder.output(builder.reduce(ReduceOp::sum, builder.op(Op::exp, f32, builder.op(Op::sub, f32, x, shift))),
                 DType::f32);
  builder.output(builder.reduce(ReduceOp::max, x), DType::f32);
  EXPECT_TRUE(builder.agrees_everywhere());
}

TEST(Row, SoftmaxInHalfPrecisionOfLongRows) {
  Random random(2);
  for (DType dtype : {DType::f16, DType::bf16}) {
    for (std::int64_t n : {100, 20000, 40000}) {
      ProgramBuilder builder({2}, {n});
      softmax(builder, dense_input(builder, random, dtype, false), dtype);
      EXPECT_TRUE(builder.agrees_everywhere()) << n;
    }
  }
}

TEST(Row, LayerNormOfEverySize) {
  Random random(3);
  for (std::int64_t n : kSizes) {
    ProgramBuilder builder({5}, {n});
    const int x = dense_input(builder, random);
    const int gain = per_column(builder, random);
    layer_norm(builder, x, gain, per_column(builder, random), n);
    EXPECT_TRUE(builder.agrees_everywhere()) << n;
  }
}

TEST(Row, ManyRowsShareOneThatIsConverted) {
  // Short rows are computed several at a time: what they share must outlive the result of the first of them.
  Random random(14);
  for (const auto& [rows, n] : std::vector<std::pair<std::int64_t, std::int64_t>>{{6, 6}, {50, 100}, {33, 512}}) {
    ProgramBuilder builder({rows}, {n});
    const int slot = builder.add_buffer(random, DType::bf16, n, false);
    const View view = View::contiguous(builder.program().inner).expanded(builder.space());
    const int shared = builder.load(builder.add_input(slot, DType::bf16, view, true));
    const int x = dense_input(builder, random);
    const int scaled = builder.op(Op::mul, f32, shared, builder.reduce(ReduceOp::max, x));
    builder.output(scaled, DType::f32);
    builder.output(builder.op(Op::exp, f32, builder.op(Op::sub, f32, shared, x)), DType::bf16);
    EXPECT_TRUE(builder.agrees_everywhere()) << rows << " x " << n;
  }
}

TEST(Row, SlowResultsLargerThanTheCachesMayBeReadAgain) {
  Random random(15);
  for (const Shape& rows : {Shape{}, Shape{11000}}) {
    ProgramBuilder builder(rows, rows.rank() == 0 ? Shape{11000 * 128} : Shape{128});
    const int x = dense_input(builder, random);
    const int scale = rows.rank() == 0 ? builder.constant(0.9f) : builder.reduce(ReduceOp::max, x);
    const int a = builder.op(Op::mul, f32, x, scale);
    const int b = builder.op(Op::add, f32, builder.op(Op::sqrt, f32, builder.op(Op::mul, f32, a, a)), scale);
    const int c = builder.op(Op::div, f32, builder.op(Op::sub, f32, a, x), b);
    for (int value : {a, b, c, a, b, c}) builder.output(value, DType::f32);
    EXPECT_TRUE(builder.agrees_everywhere()) << rows.to_string();
  }
}

TEST(Row, ChainsOfCheapOpsKeepEveryRounding) {
  Random random(12);
  const std::vector<Op> ops = {Op::add, Op::sub, Op::mul, Op::div, Op::relu};
  for (int i = 0; i < 60; ++i) {
    const std::int64_t n = random.pick(kSizes);
    ProgramBuilder builder({4}, {n});
    const int x = dense_input(builder, random);
    const std::vector<int> operands = {x,
                                       dense_input(builder, random, DType::f32, false),
                                       dense_input(builder, random, DType::bf16),
                                       per_column(builder, random),
                                       builder.constant(1.5f),
                                       builder.constant(FROM_BITS(0x00800001u)),
                                       builder.reduce(ReduceOp::max, x)};
    int y = x;
    for (int link = random.below(12); link >= 0; --link) {
      const Op op = random.pick(ops);
      const int other = random.pick(operands);
      y = op == Op::relu     ? builder.op(op, f32, y)
          : random.one_in(2) ? builder.op(op, f32, y, other)
                             : builder.op(op, f32, other, y);
      if (random.one_in(8)) builder.output(y, DType::f32);
    }
    switch (random.below(4)) {
      case 0: builder.output(builder.reduce(ReduceOp::sum, y), DType::f32); break;
      case 1: builder.output(builder.reduce(ReduceOp::dot, y, y), DType::f32); break;
      case 2: builder.output(builder.reduce(ReduceOp::dot, y, x), DType::f32); break;
      default: builder.output(y, random.one_in(2) ? DType::f32 : DType::f16);
    }
    EXPECT_TRUE(builder.agrees_everywhere()) << i;
  }
}

// where(x > z, x, x * y) becomes one op where nothing else sees its parts.
TEST(Row, LeakyReluKeepsEveryRounding) {
  Random random(14);
  for (int i = 0; i < 40; ++i) {
    ProgramBuilder builder({3}, {random.pick(kSizes)});
    const std::vector<int> others = {dense_input(builder, random), builder.constant(0.0f), builder.constant(1.5f),
                                     builder.constant(FROM_BITS(0x00800001u))};
    const int x = builder.op(Op::add, f32, dense_input(builder, random), random.pick(others));
    const int z = builder.constant(random.one_in(2) ? 0.0f : -0.25f);
    const int y = builder.constant(random.pick(std::vector<float>{0.01f, -1.5f, FROM_BITS(0x00800001u)}));
    const int part = random.one_in(2) ? builder.op(Op::mul, f32, x, y) : builder.op(Op::mul, f32, y, x);
    const int above = builder.op(Op::gt, f32, x, z);
    const auto words = [&](int value) {
      return builder.add(
          {.kind = Instruction::Kind::to_bits, .type = ComputeType::i32, .dtype = DType::f32, .a = value});
    };
    const int whole = words(x);
    const int word = builder.op(Op::where, ComputeType::i32, above, whole, words(part));
    if (random.one_in(3)) {
      builder.output(word, DType::f32, true);
    } else {
      const int number =
          builder.add({.kind = Instruction::Kind::from_bits, .type = f32, .dtype = DType::f32, .a = word});
      builder.output(random.one_in(2) ? builder.op(Op::add, f32, number, y) : number, DType::f32);
    }
    if (random.one_in(4)) builder.output(random.one_in(2) ? x : part, DType::f32);
    EXPECT_TRUE(builder.agrees_everywhere()) << i;
  }
}

TEST(Row, ExpAndGeluOfTinySumsAndDifferences) {
  // Sums and differences of neighbours around the smallest normal are subnormal, which the functions must not see.
  ProgramBuilder builder({3}, {4099});
  Random random(13);
  const int a_slot = builder.add_buffer(random, DType::f32, 3 * 4099, false);
  const int b_slot = builder.add_buffer(random, DType::f32, 3 * 4099, false);
  const View view = View::contiguous(builder.space());
  const int words_a = builder.load(builder.add_input(a_slot, DType::f32, view, true));
  const int words_b = builder.load(builder.add_input(b_slot, DType::f32, view, true));
  const int tiny = builder.constant(FROM_BITS(0x00c00000u));
  const int smaller = builder.constant(FROM_BITS(0x00800001u));
  const int row = builder.reduce(ReduceOp::max, words_a);
  const int a = builder.op(Op::mul, f32, words_a, tiny);
  const int b = builder.op(Op::mul, f32, words_b, smaller);
  for (const auto& [x, y] : std::vector<std::pair<int, int>>{
           {a, b}, {b, a}, {a, tiny}, {smaller, b}, {words_a, words_b}, {words_a, row}, {row, words_b}, {a, smaller}}) {
    builder.output(builder.op(Op::exp, f32, builder.op(Op::sub, f32, x, y)), DType::f32);
    builder.output(builder.op(Op::gelu_erf, f32, builder.op(Op::add, f32, x, y)), DType::f32);
    builder.output(builder.op(Op::gelu_erf, f32, builder.op(Op::sub, f32, x, y)), DType::f32);
  }
  EXPECT_TRUE(builder.agrees_everywhere());
}

TEST(Row, ReductionsOfEveryKindSizeAndLayout) {
  Random random(4);
  for (const bool columns : {false, true}) {
    for (std::int64_t n : kSizes) {
      for (DType dtype : {DType::f32, DType::f64, DType::bf16, DType::i32, DType::i64, DType::boolean, DType::u32}) {
        // Rows enough for several blocks of them, long ones of one length.
        const std::int64_t rows = n < 4000 || n == 4097 ? 70 : 17;
        ProgramBuilder builder({rows}, {n});
        const int slot = builder.add_buffer(random, dtype, rows * n);
        View view = View::contiguous(columns ? Shape{n, rows} : Shape{rows, n});
        if (columns) view = view.permuted({1, 0});
        const int x = builder.load(builder.add_input(slot, dtype, view));
        const bool integer = builder.type_of(x) == ComputeType::i32 || builder.type_of(x) == ComputeType::i64;
        const DType sum_type = integer ? DType::i64 : builder.type_of(x) == ComputeType::f64 ? DType::f64 : DType::f32;
        builder.output(builder.reduce(ReduceOp::sum, x), sum_type);
        builder.output(builder.reduce(ReduceOp::prod, x), sum_type);
        builder.output(builder.reduce(ReduceOp::dot, x, x), sum_type);
        const DType best_type = dtype == DType::bf16 ? DType::f32 : dtype;
        builder.output(builder.reduce(ReduceOp::max, x), best_type);
        builder.output(builder.reduce(ReduceOp::min, x), best_type);
        builder.output(builder.reduce(ReduceOp::argmax, x), DType::i64);
        builder.output(builder.reduce(ReduceOp::argmin, x), DType::i64);
        EXPECT_TRUE(builder.agrees_everywhere()) << n << " " << name_of(dtype) << (columns ? " columns" : " rows");
      }
    }
  }
}

TEST(Row, EmptyRowsGiveZeroSumsAndUnitProducts) {
  Random random(5);
  for (std::int64_t rows : {0, 1, 40}) {
    ProgramBuilder builder({rows}, {0});
    const int x = dense_input(builder, random);
    builder.output(builder.reduce(ReduceOp::sum, x), DType::f32);
    builder.output(builder.reduce(ReduceOp::prod, x), DType::f32);
    builder.output(builder.op(Op::exp, f32, x), DType::f32);
    EXPECT_TRUE(builder.agrees_everywhere()) << rows;
  }
}

TEST(Row, MaximumOfZerosIsTheFirstOne) {
  // Zeros of both signs, none greater: the sign of the first decides.
  for (const std::uint32_t first : {0u, 0x80000000u}) {
    ProgramBuilder builder({2}, {1000});
    Random random(6);
    const int slot = builder.add_buffer(random, DType::f32, 2000);
    const int x = builder.load(builder.add_input(slot, DType::f32, View::contiguous({2, 1000}), false));
    const int zeros = builder.op(Op::mul, f32, builder.op(Op::isnan, f32, x), builder.constant(0.0f));
    (void)zeros;
    const int zero = builder.op(Op::mul, f32, x, builder.constant(first == 0 ? 1e-45f : -0.0f));
    builder.output(builder.reduce(ReduceOp::max, zero), DType::f32);
    builder.output(builder.reduce(ReduceOp::min, zero), DType::f32);
    EXPECT_TRUE(builder.agrees_everywhere());
  }
}

TEST(Row, MaxPoolingThroughAPaddedWindow) {
  Random random(7);
  for (std::int64_t size : {7, 33}) {
    const std::int64_t out = (size + 2 - 3) / 2 + 1;
    ProgramBuilder builder({2, 5, out, out}, {3, 3});
    const int slot = builder.add_buffer(random, DType::f32, 10 * size * size);
    View view = View::contiguous({2, 5, size, size});
    view = *view.padded(2, 1, 1, 0xff800000u);
    view = *view.padded(3, 1, 1, 0xff800000u);
    view = view.windowed(2, 3, out, 2, 1).windowed(3, 3, out, 2, 1);
    const int x = builder.load(builder.add_input(slot, DType::f32, view));
    builder.output(builder.reduce(ReduceOp::max, x), DType::f32);
    builder.output(builder.reduce(ReduceOp::argmax, x), DType::i64);
    EXPECT_TRUE(builder.agrees_everywhere()) << size;
  }
}

TEST(Row, BatchNormOverOuterAndInnerDims) {
  Random random(8);
  for (const Shape& shape : {Shape{4, 6, 10, 10}, Shape{8, 64, 3, 3}}) {
    ProgramBuilder builder({shape[1]}, {shape[0], shape[2], shape[3]});
    const int slot = builder.add_buffer(random, DType::f32, shape.numel(), false);
    const int x =
        builder.load(builder.add_input(slot, DType::f32, View::contiguous(shape).permuted({1, 0, 2, 3}), true));
    const std::int64_t n = shape.numel() / shape[1];
    const int gain = builder.constant(1.5f);
    layer_norm(builder, x, gain, builder.constant(-0.25f), n);
    EXPECT_TRUE(builder.agrees_everywhere());
  }
}

TEST(Row, BiasGradientSumsColumns) {
  Random random(9);
  for (std::int64_t columns : {1, 10, 64, 100, 1000}) {
    for (std::int64_t n : {64, 5000, 9000}) {
      if (columns * n > 600000) continue;
      ProgramBuilder builder({columns}, {n});
      const int slot = builder.add_buffer(random, DType::f32, columns * n, false);
      const int x =
          builder.load(builder.add_input(slot, DType::f32, View::contiguous({n, columns}).permuted({1, 0}), true));
      builder.output(builder.reduce(ReduceOp::sum, x), DType::f32);
      EXPECT_TRUE(builder.agrees_everywhere()) << columns << " " << n;
    }
  }
}

TEST(Row, RandomWordsAndPositions) {
  ProgramBuilder builder({3}, {700});
  const int seed = builder.constant(ComputeType::i64, 0x123456789abcdef0u);
  const int draw = builder.constant(ComputeType::i64, 0x0fedcba987654321u);
  builder.program().positions.push_back({std::int64_t{1} << 33, {700, 1}});
  Instruction iota;
  iota.kind = Instruction::Kind::iota;
  iota.type = ComputeType::i64;
  iota.index = 0;
  const int position = builder.add(iota);
  Instruction word;
  word.kind = Instruction::Kind::random;
  word.type = ComputeType::i32;
  word.a = position;
  word.index = builder.program().code[static_cast<std::size_t>(seed)].index;
  builder.output(builder.add(word), DType::i32);
  builder.output(position, DType::i64);
  (void)draw;
  EXPECT_TRUE(builder.agrees_everywhere());
}

TEST(Row, UnalignedBuffers) {
  Random random(10);
  ProgramBuilder builder({4}, {1000});
  const int x = dense_input(builder, random);
  const int y = dense_input(builder, random, DType::f16);
  builder.output(builder.op(Op::add, f32, x, y), DType::f32);
  builder.output(builder.reduce(ReduceOp::sum, x), DType::f32);
  const ProgramBuilder::Buffers expected = builder.run_reference();
  for (Isa isa : available_isas()) {
    ProgramBuilder::Buffers moved = builder.buffers();
    for (auto& buffer : moved) buffer.insert(buffer.begin(), std::byte{0});
    std::vector<std::byte*> slots;
    for (auto& buffer : moved) slots.push_back(buffer.data() + 1);
    RowProgram(builder.program(), isa).run({slots, {}});
    for (auto& buffer : moved) buffer.erase(buffer.begin());
    EXPECT_TRUE(same_bits(builder.program(), expected, moved)) << name_of(isa);
  }
}

TEST(Row, EpilogueInSegmentsEqualsTheWhole) {
  // gelu(accumulator + bias[column]) * scale[row], once as a program over a stored accumulator.
  Random random(11);
  const Shape rows{2, 9}, inner{3, 50};
  ProgramBuilder builder(rows, inner);
  const Shape space = builder.space();
  const int slot = builder.add_buffer(random, DType::f32, space.numel(), false);
  int x = builder.load(builder.add_input(slot, DType::f32, View::contiguous(space), true));
  const int row_slot = builder.add_buffer(random, DType::f32, 18, false);
  const int scale = builder.load(
      builder.add_input(row_slot, DType::f32, View::contiguous({2, 9, 1, 1}).expanded(space), true), Extent::row);
  const int half = builder.op(Op::mul, f32, scale, builder.constant(0.5f));
  const int biased = builder.op(Op::add, f32, x, per_column(builder, random));
  builder.output(builder.op(Op::mul, f32, builder.op(Op::gelu_erf, f32, biased), half), DType::bf16);
  builder.output(biased, DType::f32);
  const ProgramBuilder::Buffers expected = builder.run_reference();

  Program epilogue = builder.program();
  epilogue.code[static_cast<std::size_t>(x)].kind = Instruction::Kind::accumulator;
  const Scalar parameter{BITS(0.5f)};
  for (Isa isa : available_isas()) {
    const RowProgram program = RowProgram::epilogue(epilogue, isa);
    for (std::int64_t step : {1, 32, 70, 150}) {
      ProgramBuilder::Buffers buffers = builder.buffers();
      std::vector<std::byte*> slots;
      for (auto& buffer : buffers) slots.push_back(buffer.data());
      const Binding binding{slots, {&parameter, 1}};
      Scratch scratch;
      const auto* accumulators = reinterpret_cast<const float*>(slots[static_cast<std::size_t>(slot)]);
      for (std::int64_t begin = 0; begin < 150; begin += step) {
        const std::int64_t count = std::min(step, 150 - begin);
        program.run_segment(binding, 0, begin, count, accumulators + begin, scratch);
        program.run_block(binding, 1, 17, begin, count, accumulators + 150 + begin, 150, scratch);
      }
      EXPECT_TRUE(same_bits(builder.program(), expected, buffers)) << name_of(isa) << " " << step;
    }
  }
}

TEST(Row, RawResultsOfBlocksThroughOneChain) {
  // relu((accumulator - center[row]) * scale[row] + residual): one call of the chain for the parts of several rows.
  Random random(12);
  constexpr std::int64_t kRows = 70, kColumns = 333, kStride = 340;  // of accumulators
  ProgramBuilder builder({kRows}, {kColumns});
  const Shape space = builder.space();
  const int slot = builder.add_buffer(random, DType::f32, kRows * kStride, false);
  const View accumulators = View::contiguous({kRows, kStride});
  const int x = builder.load(builder.add_input(slot, DType::f32, accumulators.sliced(1, 0, 1, kColumns), true));
  const auto per_row = [&] {
    const int values = builder.add_buffer(random, DType::f32, kRows, false);
    return builder.load(builder.add_input(values, DType::f32, View::contiguous({kRows, 1}).expanded(space), true),
                        Extent::row);
  };
  const int residuals = builder.add_buffer(random, DType::f32, space.numel(), false);
  const int centered = builder.op(Op::sub, f32, x, per_row());
  const int scaled = builder.op(Op::mul, f32, centered, per_row());
  const int residual = builder.load(builder.add_input(residuals, DType::f32, View::contiguous(space), true));
  builder.output(builder.op(Op::relu, f32, builder.op(Op::add, f32, scaled, residual)), DType::f32);
  const ProgramBuilder::Buffers expected = builder.run_reference();

  Program epilogue = builder.program();
  epilogue.code[static_cast<std::size_t>(x)].kind = Instruction::Kind::accumulator;
  for (const Isa isa : available_isas()) {
    const RowProgram program = RowProgram::epilogue(epilogue, isa);
    for (const std::int64_t columns : {1, 49, 200, 333}) {
      for (const std::int64_t rows : {1, 3, 70}) {
        ProgramBuilder::Buffers buffers = builder.buffers();
        std::vector<std::byte*> slots;
        for (auto& buffer : buffers) slots.push_back(buffer.data());
        Scratch scratch;
        const auto* const from = reinterpret_cast<const float*>(slots[static_cast<std::size_t>(slot)]);
        for (std::int64_t row = 0; row < kRows; row += rows) {
          for (std::int64_t column = 0; column < kColumns; column += columns) {
            program.run_block({slots, {}}, row, std::min(rows, kRows - row), column,
                              std::min(columns, kColumns - column), from + row * kStride + column, kStride, scratch);
          }
        }
        EXPECT_TRUE(same_bits(builder.program(), expected, buffers)) << name_of(isa) << ' ' << rows << ' ' << columns;
      }
    }
  }
}

}  // namespace
}  // namespace lockstep

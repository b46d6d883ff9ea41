// Long rows that lie in pieces all over memory, as the channels of many pictures do, and gates, as the gradient of relu
// is: both against the reference backend, by equality of bits, and whether plans have them.
#include <gtest/gtest.h>

#include <algorithm>

#include "backends/cpu/row/planner.h"
#include "kernels/scalar.h"
#include "support/program_builder.h"

namespace lockstep {
namespace {

using testing::ProgramBuilder;
using testing::Random;

constexpr auto f32 = ComputeType::f32;

/// Programs over channels: rows [channels], inner [pictures, elements of a picture].
struct Channels {
  std::int64_t pictures, channels, elements;

  ProgramBuilder builder() const { return ProgramBuilder({channels}, {pictures, elements}); }
  View view() const { return View::contiguous({pictures, channels, elements}).permuted({1, 0, 2}); }
  int load(ProgramBuilder& builder, Random& random, DType dtype = DType::f32) const {
    const int slot = builder.add_buffer(random, dtype, pictures * channels * elements, false);
    return builder.load(builder.add_input(slot, dtype, view(), true));
  }
  /// Lines of pictures with a border of one element.
  int load_bordered(ProgramBuilder& builder, Random& random) const {
    const int slot = builder.add_buffer(random, DType::f32, pictures * channels * (elements + 2), false);
    View whole = View::contiguous({pictures, channels, elements + 2});
    return builder.load(builder.add_input(slot, DType::f32, whole.sliced(2, 1, 1, elements).permuted({1, 0, 2}), true));
  }
  /// One element for each of a picture, the same for all pictures and channels.
  int load_shared(ProgramBuilder& builder, Random& random) const {
    const int slot = builder.add_buffer(random, DType::f32, elements, false);
    return builder.load(
        builder.add_input(slot, DType::f32, View::contiguous({elements}).expanded(builder.space()), true));
  }
  /// Written as pictures.
  void output(ProgramBuilder& builder, int value, DType dtype = DType::f32) const {
    builder.output(value, dtype);
    builder.program().outputs.back().strides = view().strides;
  }
};

bool has_pieces(const ProgramBuilder& builder, std::int64_t piece) {
  return make_plan(builder.program(), {.isa = Isa::avx2}).piece == piece;
}

TEST(RowPieces, ReductionsAndResultsOfEverySize) {
  Random random(3);
  for (const Channels& of : {Channels{70, 3, 64}, Channels{40, 3, 256}, Channels{9, 17, 1024}, Channels{3, 2, 4096},
                             Channels{20, 3, 49}, Channels{10, 3, 784}, Channels{5, 3, 100}}) {
    ProgramBuilder builder = of.builder();
    const int x = of.load(builder, random);
    const int mean = builder.reduce(ReduceOp::sum, x);
    const int centered = builder.op(Op::sub, f32, x, mean);
    of.output(builder, centered);
    const int scale = builder.reduce(ReduceOp::dot, centered, centered);
    const int y = builder.op(Op::mul, f32, centered, scale);
    of.output(builder, builder.op(Op::add, f32, y, of.load_bordered(builder, random)));
    of.output(builder, builder.op(Op::exp, f32, y), DType::bf16);
    builder.output(builder.op(Op::neg, f32, y), DType::f32);
    builder.output(builder.reduce(ReduceOp::dot, x, y), DType::f32);
    builder.output(builder.reduce(ReduceOp::prod, x), DType::f32);
    const bool fits = of.elements % 64 == 0 && 4096 % of.elements == 0;
    EXPECT_TRUE(has_pieces(builder, fits ? of.elements : 0)) << of.elements;
    EXPECT_TRUE(builder.agrees_everywhere()) << of.elements;
  }
}

TEST(RowPieces, OtherDTypesAndOperandsThatAreShared) {
  Random random(4);
  const Channels of{36, 5, 256};
  for (const DType dtype : {DType::f16, DType::bf16, DType::i32}) {
    ProgramBuilder builder = of.builder();
    const int wide = builder.add({.kind = Instruction::Kind::cast,
                                  .type = f32,
                                  .dtype = DType::f32,
                                  .from = dtype,
                                  .a = of.load(builder, random, dtype)});
    const int shared = of.load_shared(builder, random);
    const int x = builder.op(Op::mul, f32, of.load(builder, random), shared);
    of.output(builder, builder.op(Op::sub, f32, x, wide));
    of.output(builder, builder.op(Op::tanh, f32, shared));
    const int sum = builder.reduce(ReduceOp::sum, builder.op(Op::mul, f32, x, shared));
    of.output(builder, builder.op(Op::div, f32, x, sum), DType::f16);
    builder.output(builder.reduce(ReduceOp::sum, shared), DType::f32);
    EXPECT_TRUE(has_pieces(builder, of.elements));
    EXPECT_TRUE(builder.agrees_everywhere()) << static_cast<int>(dtype);
  }
}

TEST(RowPieces, OrderedReductionsTakeTheRowAsItIs) {
  Random random(5);
  const Channels of{36, 5, 256};
  ProgramBuilder builder = of.builder();
  const int x = of.load(builder, random);
  builder.output(builder.reduce(ReduceOp::argmax, x), DType::i64);
  of.output(builder, builder.op(Op::sub, f32, x, builder.reduce(ReduceOp::max, x)));
  EXPECT_TRUE(has_pieces(builder, 0));
  EXPECT_TRUE(builder.agrees_everywhere());
}

// where(y > z, x, word) ends a chain where x was computed; the word keeps its bits whatever they are.
TEST(RowGates, KeepEveryBitAndEndAChain) {
  Random random(15);
  const auto is_gate = [](const Step& step) { return !step.links.empty() && step.links.back().op == ChainOp::gate; };
  for (int i = 0; i < 60; ++i) {
    ProgramBuilder builder({3}, {1 + random.below(600)});
    const auto words = [&](int value) {
      return builder.add(
          {.kind = Instruction::Kind::to_bits, .type = ComputeType::i32, .dtype = DType::f32, .a = value});
    };
    const auto input = [&] {
      const int slot = builder.add_buffer(random, DType::f32, builder.space().numel(), false);
      return builder.load(builder.add_input(slot, DType::f32, View::contiguous(builder.space()), true));
    };
    const int y = input();
    const int given = input();
    const int z = builder.constant(random.one_in(2) ? 0.0f : FROM_BITS(0x80800001u));
    const std::uint32_t other = random.pick(std::vector<std::uint32_t>{0, 0x80000000u, 0x3f800000u, 5, 0xffc00001u});
    const int x =
        random.one_in(6) ? given : builder.op(random.pick(std::vector<Op>{Op::add, Op::mul}), f32, given, input());
    const int above = builder.op(Op::gt, f32, y, z);
    const int gated = builder.op(Op::where, ComputeType::i32, above, words(x), words(builder.constant(f32, other)));
    builder.output(gated, DType::f32, true);
    if (random.one_in(2)) {
      const int number =
          builder.add({.kind = Instruction::Kind::from_bits, .type = f32, .dtype = DType::f32, .a = gated});
      builder.output(builder.op(Op::mul, f32, builder.op(Op::neg, f32, number), y), DType::f32);
      builder.output(builder.reduce(ReduceOp::sum, number), DType::f32);
    }
    if (random.one_in(4)) builder.output(x, DType::f32);
    EXPECT_TRUE(builder.agrees_everywhere()) << i;
    const std::vector<Pass> passes = make_plan(builder.program(), {.isa = Isa::avx2}).passes;
    EXPECT_EQ(std::any_of(passes[0].steps.begin(), passes[0].steps.end(), is_gate), x != given) << i;
  }
}

// What is computed twice is one step.
TEST(RowGates, EqualInstructionsAreOne) {
  Random random(16);
  ProgramBuilder builder({3}, {600});
  const int slot = builder.add_buffer(random, DType::f32, builder.space().numel(), false);
  const int x = builder.load(builder.add_input(slot, DType::f32, View::contiguous(builder.space()), true));
  const int y = builder.constant(1.25f);
  const int once = builder.op(Op::mul, f32, x, y), again = builder.op(Op::mul, f32, x, y);
  builder.output(builder.op(Op::add, f32, builder.op(Op::add, f32, x, once), again), DType::f32);
  const RowPlan plan = make_plan(builder.program(), {.isa = Isa::avx2});
  std::size_t products = 0;
  for (const Step& step : plan.passes[0].steps) {
    products += static_cast<std::size_t>(
        std::count_if(step.links.begin(), step.links.end(), [](const Link& link) { return link.op == ChainOp::mul; }));
  }
  EXPECT_EQ(products, 1u);
  EXPECT_TRUE(builder.agrees_everywhere());
}

}  // namespace
}  // namespace lockstep

// The epilogue of a contraction: where it writes and reads, which tiles ask for beforehand.
#include "backends/cpu/contraction/epilogue.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "backends/cpu/contraction/tiling.h"
#include "backends/cpu/contraction_problem.h"
#include "support/long_forms.h"

namespace lockstep {
inline namespace v0 {
namespace testing {
namespace {

using contraction::Block;
using contraction::Destination;
using contraction::Epilogue;
using contraction::Plan;
using contraction::Workspace;

constexpr float kMark = 7;

/// Bytes from the output's beginning to where the epilogue puts result (row, column) of a block.
std::ptrdiff_t written_at(const Epilogue& epilogue, Problem& problem, const Block& block, std::int64_t row,
                          std::int64_t column) {
  Bytes& out = problem.buffers[kSlotOut];
  std::fill(out.begin(), out.end(), std::byte{0});
  std::vector<std::byte*> slots;
  for (Bytes& buffer : problem.buffers) slots.push_back(buffer.data());
  const std::int64_t stride = block.columns + 3;
  std::vector<float> results(static_cast<std::size_t>(block.rows * stride));
  results[static_cast<std::size_t>(row * stride + column)] = kMark;
  epilogue.run({.slots = slots, .parameters = {}}, block, results.data(), stride, Workspace::of_this_thread());
  for (std::size_t at = 0; at + sizeof kMark <= out.size(); at += sizeof kMark) {
    if (std::memcmp(out.data() + at, &kMark, sizeof kMark) == 0) return static_cast<std::ptrdiff_t>(at);
  }
  return -1;
}

void expect_where_results_go(Problem& problem, const Block& block) {
  const contraction::KernelSet& kernels = contraction::kernel_set(ComputeType::f32, selected_isa());
  const Plan plan = contraction::make_plan(problem.kernel, kernels);
  const Epilogue epilogue(problem.kernel.epilogue, plan, sizeof(float), selected_isa());
  std::vector<std::byte*> slots;
  for (Bytes& buffer : problem.buffers) slots.push_back(buffer.data());
  const Destination to = epilogue.destination({.slots = slots, .parameters = {}}, block);
  ASSERT_NE(to.results.data, nullptr) << problem.name;
  for (const std::int64_t row : {std::int64_t{0}, block.rows / 2, block.rows - 1}) {
    for (const std::int64_t column : {std::int64_t{0}, block.columns / 3, block.columns - 1}) {
      const std::int64_t image = to.image_columns == 0 ? 0 : (to.columns_before + column) / to.image_columns;
      const std::byte* const asked_for = to.results.data + row * to.results.row_stride +
                                         column * to.results.column_stride + image * to.results.image_gap;
      EXPECT_EQ(asked_for - problem.buffers[kSlotOut].data(), written_at(epilogue, problem, block, row, column))
          << problem.name << ", result " << row << ", " << column;
    }
  }
}

Plan plan_for(const Problem& problem) {
  return contraction::make_plan(problem.kernel, contraction::kernel_set(ComputeType::f32, selected_isa()));
}

TEST(CpuEpilogue, LinesAskedForAreThoseWritten) {
  Problem matmul = matmul_problem({2}, 30, 70, 40);
  expect_where_results_go(matmul, {.batch = 1, .row = 14, .rows = 16, .column = 32, .columns = 38});
  Problem turned = matmul_problem({}, 30, 70, 40, {.transpose_out = true});
  expect_where_results_go(turned, {.batch = 0, .row = 3, .rows = 20, .column = 5, .columns = 40});
  // Channels are the columns, and results are turned, in several strips.
  Problem many = convolution_problem({.batch = 2, .in = 30, .out = 80, .size = {40, 40}});
  if (plan_for(many).swapped) {
    expect_where_results_go(many, {.batch = 0, .row = 1600 + 14, .rows = 1000, .column = 32, .columns = 48});
  }
  // Channels are the rows.
  Problem few = convolution_problem({.batch = 3, .in = 3, .out = 9, .size = {20, 20}});
  ASSERT_FALSE(plan_for(few).swapped);
  expect_where_results_go(few, {.batch = 0, .row = 0, .rows = 9, .column = 400 + 20, .columns = 60});
  // Of several images.
  expect_where_results_go(few, {.batch = 0, .row = 0, .rows = 9, .column = 390, .columns = 60});
  expect_where_results_go(few, {.batch = 0, .row = 2, .rows = 5, .column = 399, .columns = 801});
}

TEST(CpuEpilogue, OfTurnedImagesOrStridedResultsNoLinesAreKnown) {
  const auto destination = [](Problem& problem, const Block& block) {
    const Plan plan = plan_for(problem);
    const Epilogue epilogue(problem.kernel.epilogue, plan, sizeof(float), selected_isa());
    std::vector<std::byte*> slots;
    for (Bytes& buffer : problem.buffers) slots.push_back(buffer.data());
    return epilogue.destination({.slots = slots, .parameters = {}}, block).results.data;
  };
  Problem many = convolution_problem({.batch = 2, .in = 30, .out = 80, .size = {40, 40}});
  if (plan_for(many).swapped) {
    EXPECT_EQ(destination(many, {.batch = 0, .row = 1500, .rows = 200, .column = 32, .columns = 48}), nullptr);
  }
  Problem strided = matmul_problem({}, 17, 45, 30);
  strided.kernel.epilogue.outputs[0].strides = {200, 3};
  strided.buffers[kSlotOut] = Bytes(200 * 17 * 4);
  EXPECT_EQ(destination(strided, {.batch = 0, .row = 0, .rows = 17, .column = 0, .columns = 45}), nullptr);
}

struct Chain {
  bool is_batch_norm = false, has_residual = false, has_relu = false;
};

/// Bias or batch norm of each channel, a residual and relu behind a convolution of 1 x 1.
Problem chain_problem(const Chain& chain, std::int64_t batch, std::int64_t in, std::int64_t out, const Shape& size) {
  Problem problem =
      convolution_problem({.batch = batch, .in = in, .out = out, .size = size, .kernel = {1, 1}, .padding = 0});
  Program& program = problem.kernel.epilogue;
  const Shape space = concat({program.rows, program.inner});
  std::mt19937_64 random(11);
  using Kind = Instruction::Kind;
  program.code = {{.kind = Kind::accumulator}};
  const auto apply = [&](Op op, int operand) {
    const int last = operand < 0 ? static_cast<int>(program.code.size()) - 1 : operand - 1;
    program.code.push_back({.kind = Kind::elementwise, .op = op, .a = last, .b = operand});
  };
  const auto with = [&](Op op, const View& view, std::int64_t elements, Extent extent) {
    const int input = static_cast<int>(program.inputs.size());
    program.inputs.push_back({.slot = 3 + input, .dtype = DType::f32, .view = view, .canonical = true});
    problem.buffers.push_back(random_bytes(DType::f32, elements, random, false));
    program.code.push_back({.kind = Kind::load, .extent = extent, .index = input});
    apply(op, static_cast<int>(program.code.size()) - 1);
  };
  const View channels = View::contiguous({1, 1, out, 1, 1}).expanded(space);
  if (chain.is_batch_norm) {
    with(Op::sub, channels, out, Extent::row);
    with(Op::mul, channels, out, Extent::row);
  }
  with(Op::add, channels, out, Extent::row);
  if (chain.has_residual) with(Op::add, View::contiguous(space), space.numel(), Extent::vector);
  if (chain.has_relu) apply(Op::relu, -1);
  program.outputs[0].value = static_cast<int>(program.code.size()) - 1;
  problem.name += " with a chain";
  return problem;
}

// A residual lies as the results do, at a place of its own.
TEST(CpuEpilogue, LinesOfAResidualAreAskedForToo) {
  for (const bool has_residual : {false, true}) {
    Problem problem = chain_problem({.has_residual = has_residual}, 3, 3, 9, {20, 20});
    ASSERT_FALSE(plan_for(problem).swapped);
    const Plan plan = plan_for(problem);
    const Epilogue epilogue(problem.kernel.epilogue, plan, sizeof(float), selected_isa());
    std::vector<std::byte*> slots;
    for (Bytes& buffer : problem.buffers) slots.push_back(buffer.data());
    const Block block{.batch = 0, .row = 2, .rows = 7, .column = 390, .columns = 60};
    const Destination to = epilogue.destination({.slots = slots, .parameters = {}}, block);
    ASSERT_NE(to.results.data, nullptr);
    EXPECT_EQ(to.operand.data != nullptr, has_residual);
    if (!has_residual) continue;
    EXPECT_EQ(to.operand.data - slots[4], to.results.data - slots[kSlotOut]);
    EXPECT_EQ(to.operand.row_stride, to.results.row_stride);
    EXPECT_EQ(to.operand.column_stride, to.results.column_stride);
    EXPECT_EQ(to.operand.image_gap, to.results.image_gap);
  }
}

// A tile's lines hold all of its elements, across the end of an image too.
TEST(CpuEpilogue, LinesOfATileHoldItsElements) {
  std::vector<std::byte> memory(std::size_t{1} << 20);
  const auto at = [&](const Destination& to, std::int64_t row, std::int64_t column) {
    const std::int64_t image = to.image_columns == 0 ? 0 : (to.columns_before + column) / to.image_columns;
    return to.results.data + row * to.results.row_stride + column * to.results.column_stride +
           image * to.results.image_gap;
  };
  Destination whole;
  whole.results = {.data = memory.data(), .row_stride = 4096, .column_stride = 4};
  Destination images = whole;
  images.results.image_gap = 4096 * 20;
  images.image_columns = 50;
  images.columns_before = 7;
  Destination turned;
  turned.results = {.data = memory.data(), .row_stride = 4, .column_stride = 4096};
  for (const Destination& to : {whole, images, turned}) {
    std::vector<const std::byte*> lines;
    const auto add = [&](const std::byte* line) { lines.push_back(line); };
    to.for_each_line(3, 14, 32, 32, add, add);
    for (std::int64_t row = 3; row < 17; ++row) {
      for (std::int64_t column = 32; column < 64; ++column) {
        const std::byte* const element = at(to, row, column);
        EXPECT_TRUE(std::any_of(lines.begin(), lines.end(),
                                [&](const std::byte* line) { return element >= line && element < line + 64; }))
            << row << ", " << column;
      }
    }
  }
}

TEST(CpuEpilogue, ChainsOfChannelsAndResidualsHaveReferenceBits) {
  const Chain chains[] = {{}, {.has_relu = true}, {.is_batch_norm = true, .has_residual = true, .has_relu = true}};
  for (const Chain& chain : chains) {
    for (const std::int64_t in : {40, 300}) {
      for (const Shape& size : {Shape{7, 7}, Shape{14, 14}, Shape{in == 40 || long_forms() ? 20 : 5, 40}}) {
        Problem problem = chain_problem(chain, 3, in, 137, size);
        expect_reference_bits(problem);
      }
    }
  }
}

}  // namespace
}  // namespace testing
}  // namespace v0
}  // namespace lockstep

// The epilogue of a contraction: where it writes, which tiles ask for beforehand.
#include "backends/cpu/contraction/epilogue.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "backends/cpu/contraction/tiling.h"
#include "backends/cpu/contraction_problem.h"

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
  ASSERT_NE(to.data, nullptr) << problem.name;
  for (const std::int64_t row : {std::int64_t{0}, block.rows / 2, block.rows - 1}) {
    for (const std::int64_t column : {std::int64_t{0}, block.columns / 3, block.columns - 1}) {
      const std::byte* const asked_for = to.data + row * to.row_stride + column * to.column_stride;
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
}

TEST(CpuEpilogue, OfSeveralImagesOrStridedResultsNoLinesAreKnown) {
  const auto destination = [](Problem& problem, const Block& block) {
    const Plan plan = plan_for(problem);
    const Epilogue epilogue(problem.kernel.epilogue, plan, sizeof(float), selected_isa());
    std::vector<std::byte*> slots;
    for (Bytes& buffer : problem.buffers) slots.push_back(buffer.data());
    return epilogue.destination({.slots = slots, .parameters = {}}, block).data;
  };
  Problem few = convolution_problem({.batch = 3, .in = 3, .out = 9, .size = {20, 20}});
  EXPECT_EQ(destination(few, {.batch = 0, .row = 0, .rows = 9, .column = 390, .columns = 60}), nullptr);
  Problem strided = matmul_problem({}, 17, 45, 30);
  strided.kernel.epilogue.outputs[0].strides = {200, 3};
  strided.buffers[kSlotOut] = Bytes(200 * 17 * 4);
  EXPECT_EQ(destination(strided, {.batch = 0, .row = 0, .rows = 17, .column = 0, .columns = 45}), nullptr);
}

}  // namespace
}  // namespace testing
}  // namespace v0
}  // namespace lockstep

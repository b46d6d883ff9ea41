#include "kernels/traffic.h"

#include <gtest/gtest.h>

#include <vector>

namespace lockstep {
namespace {

Input input_of(int slot, DType dtype, const View& view) {
  Input input;
  input.slot = slot;
  input.dtype = dtype;
  input.view = view;
  return input;
}

std::size_t moved(const Kernel& kernel, const std::vector<std::size_t>& slot_bytes, bool in_place = false) {
  return bytes_moved(kernel, slot_bytes, in_place);
}

RowKernel row_kernel(const Shape& rows, std::vector<Input> inputs, int out) {
  RowKernel kernel;
  kernel.program.rows = rows;
  kernel.program.inputs = std::move(inputs);
  Output output;
  output.slot = out;
  output.strides = View::contiguous(rows).strides;
  kernel.program.outputs = {output};
  return kernel;
}

TEST(BytesMoved, CountsOperandsAndResults) {
  const View dense = View::contiguous({8, 16});
  const RowKernel kernel = row_kernel({8, 16}, {input_of(0, DType::f32, dense), input_of(1, DType::f16, dense)}, 2);
  EXPECT_EQ(moved(kernel, {512, 256, 512}), 512u + 256u + 512u);
}

TEST(BytesMoved, CountsRepeatedElementsOnce) {
  const View row = View::contiguous({16}).expanded({8, 16});
  EXPECT_EQ(moved(row_kernel({8, 16}, {input_of(0, DType::f32, row)}, 1), {64, 512}), 64u + 512u);
  // Windows have elements in common; and one buffer through two views is read once.
  const View windows = View::contiguous({18}).windowed(0, 3, 16, 1, 1);
  EXPECT_EQ(
      moved(row_kernel({16, 3}, {input_of(0, DType::f32, windows), input_of(0, DType::f32, windows)}, 1), {72, 192}),
      72u + 192u);
}

TEST(BytesMoved, CountsOnlyWhatAViewReaches) {
  const View half = View::contiguous({8, 16}).sliced(0, 2, 1, 4);
  EXPECT_EQ(moved(row_kernel({4, 16}, {input_of(0, DType::f32, half)}, 1), {512, 256}), 256u + 256u);
  const View every_second = View::contiguous({64}).sliced(0, 0, 2, 32);
  EXPECT_EQ(moved(row_kernel({32}, {input_of(0, DType::f32, every_second)}, 1), {256, 128}), 128u + 128u);
  const View padded = *View::contiguous({64}).padded(0, 100, 100, 0);
  EXPECT_EQ(moved(row_kernel({264}, {input_of(0, DType::f32, padded)}, 1), {256, 1056}), 256u + 1056u);
}

TEST(BytesMoved, OfAMatrixProductIsItsMatrices) {
  ContractionKernel kernel;
  kernel.m = {64};
  kernel.n = {32};
  kernel.k = {128};
  kernel.a = input_of(0, DType::f32, View::contiguous({64, 128}));
  kernel.b_operand = input_of(1, DType::f32, View::contiguous({128, 32}));
  kernel.epilogue = row_kernel({64, 32}, {}, 2).program;
  EXPECT_EQ(moved(kernel, {32768, 16384, 8192}), 32768u + 16384u + 8192u);
}

TEST(BytesMoved, OfAnUpdateInPlaceIsItsRegion) {
  UpdateKernel kernel;
  kernel.elements = 100;
  kernel.self = 0;
  kernel.region = View::contiguous({100}).sliced(0, 10, 1, 5);
  kernel.values = input_of(1, DType::f32, View::contiguous({5}));
  kernel.out = 2;
  EXPECT_EQ(moved(kernel, {400, 20, 400}), 400u + 20u + 400u);
  EXPECT_EQ(moved(kernel, {400, 20, 400}, true), 20u + 20u);
}

TEST(BytesMoved, OfATransformIsItsLinesAndTheTable) {
  FourierKernel kernel;
  kernel.kind = FourierKind::real;
  kernel.n = 64;
  kernel.lines = {10};
  kernel.input = input_of(0, DType::f32, View::contiguous({10, 64}));
  kernel.table = 1;
  kernel.out = 2;
  const auto table = static_cast<std::size_t>(4 * FourierPlan(kernel.kind, kernel.n).table);
  EXPECT_EQ(moved(kernel, {2560, table, 2640}), 2560u + table + 10 * 33 * 8);
}

TEST(BytesMoved, OfARecurrenceIsItsOperandsAndTheStates) {
  RecurrenceKernel kernel;
  kernel.cell = RecurrentCell::lstm;
  RecurrenceDirection& direction = kernel.directions.emplace_back();
  direction.shares = input_of(0, DType::f32, View::contiguous({10, 2, 32}));
  direction.weight = input_of(1, DType::f32, View::contiguous({32, 8}));
  direction.bias = input_of(2, DType::f32, View::contiguous({32}));
  direction.hidden = input_of(3, DType::f32, View::contiguous({2, 8}));
  direction.memory = input_of(4, DType::f32, View::contiguous({2, 8}));
  kernel.out = 5;
  EXPECT_EQ(moved(kernel, {2560, 1024, 128, 64, 64, 704}), 2560u + 1024 + 128 + 64 + 64 + 704);
}

TEST(BytesMoved, OfNothingIsNothing) {
  EXPECT_EQ(moved(row_kernel({0, 16}, {input_of(0, DType::f32, View::contiguous({0, 16}))}, 1), {64, 64}), 0u);
}

}  // namespace
}  // namespace lockstep

// The CPU's grouped and depthwise convolutions against the reference backend, by equality of bits, and the windows in
// which it computes those of networks.
#include <gtest/gtest.h>

#include "backends/cpu/contraction/kernels.h"
#include "backends/cpu/contraction/planner.h"
#include "backends/cpu/contraction/thin.h"
#include "backends/cpu/contraction_problem.h"

namespace lockstep {
namespace {

using namespace testing;  // of contraction_problem.h

// Those whose channels lie last are not packed.
TEST(CpuContraction, DepthwiseConvolutionsOfChannelsThatLieLastAreNotPacked) {
  using namespace contraction;
  for (const Isa isa : available_isas()) {
    const KernelSet& kernels = kernel_set(ComputeType::f32, isa);
    if (kernels.thin == nullptr) continue;
    const Problem problem =
        convolution_problem({.groups = 16, .in = 1, .out = 1, .size = {30, 30}, .channels_last = true});
    EXPECT_TRUE(make_thin_table(make_plan(problem.kernel, kernels), kernels.lanes, kernels.tile_rows)) << name_of(isa);
  }
}

TEST(CpuContraction, GroupedAndDepthwiseConvolutions) {
  for (const std::int64_t stride : {1, 2, 3}) {
    for (const std::int64_t width : {6, 19, 70}) {
      Problem grouped = convolution_problem(
          {.batch = 2, .groups = 3, .in = 4, .out = 6, .size = {8, width}, .padding = 1, .stride = stride});
      expect_with_and_without_subnormals(grouped);
      Problem depthwise = convolution_problem(
          {.batch = 2, .groups = 13, .in = 1, .out = 1, .size = {8, width}, .padding = 1, .stride = stride});
      expect_with_and_without_subnormals(depthwise, {1, 2, 7});
      Problem many = convolution_problem(
          {.batch = 2, .groups = 150, .in = 1, .out = 1, .size = {5, width}, .padding = 1, .stride = stride});
      expect_with_and_without_subnormals(many, {1, 7});
      Problem last = convolution_problem({.batch = 2,
                                          .groups = 13,
                                          .in = 1,
                                          .out = 1,
                                          .size = {8, width},
                                          .padding = 1,
                                          .stride = stride,
                                          .channels_last = true,
                                          .special = true});
      expect_with_and_without_subnormals(last, {1, 2});
      Problem large = convolution_problem({.groups = 2,
                                           .in = 1,
                                           .out = 1,
                                           .size = {30, width},
                                           .kernel = {17, 17},
                                           .padding = 9,
                                           .stride = stride,
                                           .special = true});
      expect_reference_bits(large);
    }
  }
}

// Those of networks are computed in windows that keep their weights in registers.
TEST(CpuContraction, SquareDepthwiseConvolutionsHaveWindows) {
  using namespace contraction;
  for (const Isa isa : available_isas()) {
    const KernelSet& kernels = kernel_set(ComputeType::f32, isa);
    if (kernels.thin == nullptr) continue;
    const auto window_of = [&](const Convolution& convolution) {
      const Plan plan = make_plan(convolution_problem(convolution).kernel, kernels);
      return make_thin_table(plan, kernels.lanes, kernels.tile_rows).value().window.value_or(ThinWindow{});
    };
    for (const std::int64_t side : {3, 5}) {
      for (const std::int64_t stride : {1, 2}) {
        Convolution convolution{.groups = 9,
                                .in = 1,
                                .out = 1,
                                .size = {28, 28},
                                .kernel = {side, side},
                                .padding = side / 2,
                                .stride = stride};
        EXPECT_EQ(window_of(convolution).side, side) << name_of(isa);
        EXPECT_EQ(window_of(convolution).step, stride) << name_of(isa);
        convolution.dilation = 2;  // with as large a stride, taps are neighbours in the copy
        EXPECT_EQ(window_of(convolution).side, stride == 2 ? side : 0) << name_of(isa);
      }
    }
  }
}

// From padded copies: lines of one to nine vectors, several at a time, three taps in each of three lines and others.
TEST(CpuContraction, DepthwiseConvolutionsOfEveryWidth) {
  for (const std::int64_t width : {3, 7, 14, 16, 17, 28, 33, 40, 56, 63, 70, 90, 112, 128, 143}) {
    for (const std::int64_t height : {1, 2, 7, 13}) {
      for (const std::int64_t stride : {1, 2}) {
        Convolution convolution{
            .groups = 5, .in = 1, .out = 1, .size = {height, width}, .padding = 1, .stride = stride, .special = true};
        Problem problem = convolution_problem(convolution);
        expect_reference_bits(problem);  // subnormals are flushed
        convolution.special = height == 13;
        problem = convolution_problem(convolution);
        problem.kernel.b_operand.canonical = height != 13;
        expect_reference_bits(problem, {1, 2});
        for (const Shape& kernel : {Shape{3, 5}, Shape{5, 5}}) {
          convolution.kernel = kernel;
          convolution.padding = 2;
          problem = convolution_problem(convolution);
          problem.kernel.b_operand.canonical = !convolution.special;
          expect_reference_bits(problem, {1, 2});
        }
      }
    }
  }
}

}  // namespace
}  // namespace lockstep

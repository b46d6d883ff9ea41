// The CPU's convolutions and their gradients against the reference backend, by equality of bits: images of every width,
// terms that walk either way, and which of them are packed.
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "backends/cpu/contraction/direct.h"
#include "backends/cpu/contraction/kernels.h"
#include "backends/cpu/contraction/lines.h"
#include "backends/cpu/contraction/planner.h"
#include "backends/cpu/contraction_problem.h"

namespace lockstep {
namespace {

using namespace testing;  // of contraction_problem.h

TEST(CpuContraction, Convolutions2d) {
  for (const bool channels_last : {false, true}) {
    for (const bool positions_first : {false, true}) {
      for (const std::int64_t stride : {1, 2, 3}) {
        for (const std::int64_t dilation : {1, 2}) {
          for (const std::int64_t width : {7, 20, 40}) {
            Problem problem = convolution_problem({.batch = 2,
                                                   .in = 5,
                                                   .out = 9,
                                                   .size = {9, width},
                                                   .padding = 2,
                                                   .stride = stride,
                                                   .dilation = dilation,
                                                   .channels_last = channels_last,
                                                   .positions_first = positions_first});
            expect_reference_bits(problem, {1, 7});
          }
        }
      }
    }
  }
}

TEST(CpuContraction, ConvolutionsInOneAndThreeDimensions) {
  for (const std::int64_t stride : {1, 2}) {
    Problem line =
        convolution_problem({.in = 6, .out = 8, .size = {150}, .kernel = {7}, .padding = 3, .stride = stride});
    expect_reference_bits(line);
    Problem volume = convolution_problem(
        {.in = 2, .out = 5, .size = {5, 6, 9}, .kernel = {2, 3, 3}, .padding = 1, .stride = stride});
    expect_reference_bits(volume);
    Problem pixels =
        convolution_problem({.in = 30, .out = 20, .size = {8, 8}, .kernel = {1, 1}, .padding = 0, .stride = stride});
    expect_reference_bits(pixels);
  }
}

// Columns read straight from the view: one, two and three lines of the image per vector, terms past one block of k.
TEST(CpuContraction, ConvolutionsOfFewRowsAndWideImages) {
  for (const std::int64_t width : {8, 14, 16, 20, 32, 57}) {
    for (const std::int64_t out : {5, 14, 16, 33}) {
      Problem problem = convolution_problem({.batch = 3, .in = 4, .out = out, .size = {16, width}});
      expect_reference_bits(problem, {1, 2, 7});
    }
    Problem groups = convolution_problem(
        {.batch = 2, .groups = 3, .in = 6, .out = 9, .size = {14, width}, .kernel = {3, 5}, .padding = 2});
    expect_reference_bits(groups, {1, 2, 7});
    Problem deep = convolution_problem({.batch = 2, .in = 40, .out = 30, .size = {16, width}, .special = true});
    expect_reference_bits(deep, {1, 7});
    deep.kernel.b_operand.canonical = true;  // read as they are, then
    deep.buffers[kSlotB] = convolution_problem({.batch = 2, .in = 40, .size = {16, width}}).buffers[kSlotB];
    expect_reference_bits(deep, {1, 7});
  }
  Problem line = convolution_problem({.batch = 2, .in = 60, .out = 24, .size = {128}, .kernel = {9}, .padding = 4});
  expect_reference_bits(line);
  // Long kernels, whose pixels lie far apart in memory.
  for (const std::int64_t stride : {1, 3}) {
    for (const std::int64_t out : {7, 8, 13}) {
      Problem problem = convolution_problem({.batch = 2,
                                             .in = 8,
                                             .out = out,
                                             .size = {9, 86},
                                             .kernel = {3, 39},
                                             .padding = 19,
                                             .stride = stride,
                                             .channels_last = true});
      expect_reference_bits(problem, {1, 3});
    }
  }
}

// Pixels broadcast from where they are, or from the threads' padded copies of the lines that a unit reads.
TEST(CpuContraction, ConvolutionsOfManyChannels) {
  for (const std::int64_t padding : {0, 2}) {
    for (const std::int64_t stride : {1, 2, 3}) {
      for (const std::int64_t out : {9, 17, 40, 70}) {
        Problem problem = convolution_problem({.batch = 3,
                                               .in = 30,
                                               .out = out,
                                               .size = {9, 11},
                                               .padding = padding,
                                               .stride = stride,
                                               .dilation = out == 17 ? 2 : 1});
        expect_reference_bits(problem, {1, 3});  // subnormals of the pixels are flushed
        problem.kernel.b_operand.canonical = true;
        expect_reference_bits(problem, {1, 3});
      }
    }
  }
  for (const Convolution& convolution : std::vector<Convolution>{
           {.in = 40, .out = 70, .size = {7, 7}, .special = true},
           {.batch = 2, .groups = 2, .in = 30, .out = 20},
           {.batch = 5, .in = 40, .out = 20, .size = {60, 60}, .stride = 4},
           {.batch = 2, .in = 24, .out = 72, .size = {40, 37}, .padding = 2, .dilation = 2},  // units of some lines
           {.batch = 2, .in = 60, .out = 70, .size = {90}, .kernel = {9}, .padding = 4},
           {.in = 8, .out = 20, .size = {60, 60}},  // copies of some lines, segment by segment
           {.in = 8, .out = 40, .size = {80, 60}},
           {.in = 1, .out = 32, .size = {40, 61}},
           {.in = 3, .out = 64, .size = {41, 44}, .kernel = {7, 7}, .padding = 3, .stride = 2, .special = true},
           {.in = 12, .out = 40, .size = {5, 6, 9}, .kernel = {2, 3, 5}}}) {
    Problem problem = convolution_problem(convolution);
    expect_reference_bits(problem, {1, 3});
  }
}

// Read as f32 from a padded copy.
TEST(CpuContraction, ConvolutionsOfHalfPrecision) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    for (const std::int64_t out : {8, 40}) {
      for (const std::int64_t stride : {1, 2}) {
        Problem problem = convolution_problem(
            {.batch = 2, .in = 9, .out = out, .size = {9, 32}, .stride = stride, .special = true, .input = dtype});
        expect_reference_bits(problem, {1, 3});
      }
    }
  }
}

// Gradients of inputs: the window's terms walk against the image.
TEST(CpuContraction, ConvolutionsWhoseTermsWalkBackwards) {
  for (const Shape& backwards : {Shape{1, 1}, Shape{0, 1}, Shape{1, 0}}) {
    for (const std::int64_t width : {8, 33}) {
      for (const std::int64_t out : {5, 16, 40}) {
        for (const std::int64_t stride : {1, 2}) {
          Convolution convolution{.batch = 2,
                                  .in = 22,
                                  .out = out,
                                  .size = {7, width},
                                  .kernel = {3, 4},
                                  .padding = 2,
                                  .stride = stride,
                                  .dilation = out == 5 ? 2 : 1,
                                  .positions_first = out == 16 && stride == 1,
                                  .backwards = backwards,
                                  .special = true};
          Problem problem = convolution_problem(convolution);
          expect_reference_bits(problem, {1, 3});
          convolution.special = false;
          problem = convolution_problem(convolution);
          problem.kernel.b_operand.canonical = true;
          expect_reference_bits(problem, {1, 3});
        }
      }
      for (const std::int64_t padding : {0, 1, 3}) {
        Problem depthwise = convolution_problem({.batch = 2,
                                                 .groups = 7,
                                                 .in = 1,
                                                 .out = 1,
                                                 .size = {8, width},
                                                 .padding = padding,
                                                 .backwards = backwards,
                                                 .special = true});
        expect_reference_bits(depthwise, {1, 2});
      }
    }
  }
  for (const Convolution& convolution : std::vector<Convolution>{
           {.in = 8, .out = 20, .size = {60, 60}, .backwards = {1, 1}},  // copies of some lines, segment by segment
           {.in = 30, .out = 40, .size = {80, 60}, .backwards = {1, 1}},
           {.in = 60, .out = 24, .size = {128}, .kernel = {9}, .padding = 4, .backwards = {1}},
           {.in = 12, .out = 40, .size = {5, 6, 9}, .kernel = {2, 3, 5}, .backwards = {1, 0, 1}},
           {.in = 99, .out = 5, .size = {9, 19}, .kernel = {3, 4}, .backwards = {1, 0}},  // runs of k go forwards
           {.in = 40, .out = 40, .size = {9, 32}, .backwards = {1, 1}, .input = DType::bf16}}) {
    Problem problem = convolution_problem(convolution);
    expect_reference_bits(problem, {1, 3});
  }
}

// They go the ways of the others, rather than be packed.
TEST(CpuContraction, TermsThatWalkBackwardsAreNotPacked) {
  using namespace contraction;
  for (const Isa isa : available_isas()) {
    const KernelSet& kernels = kernel_set(ComputeType::f32, isa);
    for (const Shape& backwards : {Shape{}, Shape{1, 1}}) {
      const auto plan_of = [&](std::int64_t out) {
        ContractionKernel kernel =
            convolution_problem({.in = 32, .out = out, .size = {32, 32}, .backwards = backwards}).kernel;
        kernel.a.canonical = kernel.b_operand.canonical = true;
        return make_plan(kernel, kernels);
      };
      if (kernels.lines != nullptr) {
        EXPECT_TRUE(make_line_table(plan_of(12), kernels.lanes, kernels.tile_columns)) << name_of(isa);
      }
      if (kernels.direct != nullptr) {
        EXPECT_TRUE(make_direct_table(plan_of(64), kernels.lanes)) << name_of(isa);
      }
    }
  }
}

// Nor are the first layers of networks, whose few channels make few terms.
TEST(CpuContraction, StemsAreNotPacked) {
  using namespace contraction;
  for (const Isa isa : available_isas()) {
    const KernelSet& kernels = kernel_set(ComputeType::f32, isa);
    if (kernels.direct == nullptr) continue;
    const Problem problem =
        convolution_problem({.in = 3, .out = 64, .size = {41, 44}, .kernel = {7, 7}, .padding = 3, .stride = 2});
    EXPECT_TRUE(make_direct_table(make_plan(problem.kernel, kernels), kernels.lanes)) << name_of(isa);
  }
}

TEST(CpuContraction, FillIsMultiplied) {
  for (const std::int64_t stride : {1, 2}) {
    for (const std::int64_t out : {1, 5}) {
      Problem problem = convolution_problem(
          {.in = 2, .out = out, .padding = 2, .stride = stride, .fill = 0x40200000u, .special = true});
      expect_reference_bits(problem);
    }
  }
}

// k = (N, out...) and n = (c, window...): the window view is read along k, with bounds that change along it.
Problem weight_gradient_problem(const Convolution& c, bool canonical) {
  Problem problem = convolution_problem(c);
  ContractionKernel& kernel = problem.kernel;
  const View window = kernel.b_operand.view;  // [N, 1, c, window..., out...]
  const Shape outputs = kernel.n;
  const int spatial = outputs.rank();
  kernel.b = {};
  kernel.m = {c.out};
  kernel.n = concat({{c.in}, c.kernel});
  kernel.k = concat({{c.batch}, outputs});
  Shape order{1, 0};
  Shape gradient_order{1, 0};
  for (int d = 0; d < spatial; ++d) order.push_back(3 + spatial + d);
  for (int d = 0; d <= spatial; ++d) order.push_back(2 + d);
  for (int d = 0; d < spatial; ++d) gradient_order.push_back(2 + d);
  kernel.b_operand.view = window.permuted(order).reshaped(concat({kernel.k, kernel.n})).value();
  kernel.b_operand.canonical = canonical;
  const Shape gradient = concat({{c.batch, c.out}, outputs});
  kernel.a.view = View::contiguous(gradient).permuted(gradient_order);
  std::mt19937_64 random(5);
  problem.buffers[kSlotA] = random_bytes(DType::f32, gradient.numel(), random, false);
  kernel.epilogue = plain_epilogue(kernel);
  problem.buffers[kSlotOut] = Bytes(static_cast<std::size_t>(kernel.m.numel() * kernel.n.numel()) * 4);
  problem.name = "weight gradient of " + problem.name;
  return problem;
}

TEST(CpuContraction, WeightGradients) {
  const Convolution cases[] = {
      {.batch = 3, .in = 4, .out = 6, .size = {11, 23}},
      {.batch = 5, .in = 3, .out = 16, .size = {16, 16}},
      {.batch = 2, .in = 5, .out = 17, .size = {20, 33}, .padding = 0},
      {.batch = 4, .in = 6, .out = 33, .size = {15, 18}, .kernel = {5, 3}, .padding = 2},
      {.batch = 2, .in = 8, .out = 64, .size = {32, 32}, .stride = 2},
      {.batch = 3, .in = 4, .out = 5, .size = {19, 29}, .padding = 2, .dilation = 2},
      {.batch = 2, .in = 30, .out = 7, .size = {18, 17}, .kernel = {1, 1}, .padding = 0},
      {.batch = 9, .in = 8, .out = 3, .size = {130}, .kernel = {5}, .padding = 2},
      {.batch = 2, .in = 2, .out = 4, .size = {7, 9, 12}, .kernel = {3, 3, 3}, .padding = 1},
  };
  for (const Convolution& c : cases) {
    for (const bool canonical : {false, true}) {
      Problem problem = weight_gradient_problem(c, canonical);
      expect_reference_bits(problem, {1, 2, 7});
    }
  }
}

TEST(CpuContraction, RandomConvolutions) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const auto size = [&](std::int64_t limit) { return random_size(random, limit); };
  for (int i = 0; i < 60; ++i) {
    Convolution c;
    c.batch = size(3);
    c.groups = size(3);
    c.in = size(6);
    c.out = size(20);
    const int rank = 1 + static_cast<int>(random() % 3);
    c.kernel = Shape::filled(rank, 1);
    c.size = Shape::filled(rank, 1);
    c.dilation = 1 + static_cast<std::int64_t>(random() % 2);
    c.padding = static_cast<std::int64_t>(random() % 3);
    c.stride = 1 + static_cast<std::int64_t>(random() % 3);
    for (int d = 0; d < rank; ++d) {
      c.kernel[d] = 1 + static_cast<std::int64_t>(random() % 4);
      c.size[d] = (c.kernel[d] - 1) * c.dilation + size(rank == 3 ? 6 : 24);
    }
    c.channels_last = random() % 2 == 0;
    c.positions_first = random() % 2 == 0;
    c.special = random() % 3 == 0;
    Problem problem = convolution_problem(c);
    expect_reference_bits(problem);
  }
}

}  // namespace
}  // namespace lockstep

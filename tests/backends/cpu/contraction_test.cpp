// The CPU's contractions against the reference backend, by equality of bits: every instruction set, several thread
// counts, and the shapes at which blocked code goes wrong.
#include "backends/cpu/contraction/contraction.h"

#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "backends/cpu/contraction/direct.h"
#include "backends/cpu/contraction/kernels.h"
#include "backends/cpu/contraction/lines.h"
#include "backends/cpu/contraction/planner.h"
#include "backends/cpu/contraction/thin.h"
#include "backends/cpu/contraction_problem.h"

namespace lockstep {
namespace {

using namespace testing;  // of contraction_problem.h

TEST(CpuContraction, SizesAroundTileEdges) {
  for (const std::int64_t m : {1, 2, 5, 6, 7, 13, 14, 15, 29}) {
    for (const std::int64_t n : {1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 65}) {
      for (const std::int64_t k : {1, 5, 17}) {
        Problem problem = matmul_problem({}, m, n, k);
        expect_reference_bits(problem, {1});
      }
    }
  }
}

TEST(CpuContraction, BlocksOfK) {
  for (const std::int64_t k : {0, 1, 2, 3, 255, 256, 257, 511, 512, 513, 1000}) {
    for (const bool transpose : {false, true}) {
      Problem square = matmul_problem({}, 19, 37, k, {.transpose_a = transpose, .transpose_b = transpose});
      expect_reference_bits(square);
      Problem row = matmul_problem({}, 1, 70, k, {.transpose_a = transpose, .transpose_b = transpose});
      expect_reference_bits(row, {1});
      Problem column = matmul_problem({}, 70, 1, k, {.transpose_a = transpose, .transpose_b = transpose});
      expect_reference_bits(column, {1});
      Problem dot = matmul_problem({3}, 1, 1, k, {.transpose_a = transpose, .transpose_b = transpose});
      expect_reference_bits(dot, {1});
    }
  }
}

TEST(CpuContraction, EmptySizes) {
  for (const Shape& sizes :
       {Shape{0, 3, 4, 5}, Shape{2, 0, 4, 5}, Shape{2, 3, 0, 5}, Shape{2, 3, 4, 0}, Shape{0, 0, 0, 0}}) {
    Problem problem = matmul_problem({sizes[0]}, sizes[1], sizes[2], sizes[3]);
    expect_reference_bits(problem);
  }
}

TEST(CpuContraction, GroupsWithoutDimensions) {
  Problem problem;
  std::mt19937_64 random(3);
  ContractionKernel& kernel = problem.kernel;
  kernel.k = {};
  kernel.a = {.slot = kSlotA, .dtype = DType::f32, .view = View::contiguous({}), .canonical = false};
  kernel.b_operand = {.slot = kSlotB, .dtype = DType::f32, .view = View::contiguous({}), .canonical = false};
  kernel.epilogue = plain_epilogue(kernel);
  problem.buffers = {random_bytes(DType::f32, 1, random, false), random_bytes(DType::f32, 1, random, false), Bytes(4)};
  problem.name = "scalar times scalar";
  expect_reference_bits(problem);
}

TEST(CpuContraction, Layouts) {
  for (int bits = 0; bits < 32; ++bits) {
    const MatmulOptions options{.transpose_a = (bits & 1) != 0,
                                .transpose_b = (bits & 2) != 0,
                                .transpose_out = (bits & 4) != 0,
                                .flip_a = (bits & 8) != 0,
                                .flip_b = (bits & 16) != 0};
    Problem wide = matmul_problem({}, 33, 75, 300, options);
    expect_reference_bits(wide);
    Problem tall = matmul_problem({2}, 75, 9, 45, options);
    expect_reference_bits(tall);
  }
}

TEST(CpuContraction, FewRowsOfEitherLayout) {
  for (std::int64_t m = 1; m <= 17; ++m) {
    for (const bool transpose_b : {false, true}) {
      for (const std::int64_t n : {112, 115}) {
        Problem problem = matmul_problem({2}, m, n, 300, {.transpose_b = transpose_b});
        expect_with_and_without_subnormals(problem, {1, 7});
      }
    }
  }
}

// A large weight and a few vectors: read where it is, with one to three vectors of results for each of its rows.
TEST(CpuContraction, LargeWeightsAndFewColumns) {
  for (const std::int64_t m : {3, 9, 20, 30}) {
    Problem problem = matmul_problem({}, m, 531, 520, {.transpose_b = true});
    problem.kernel.a.canonical = problem.kernel.b_operand.canonical = true;
    expect_reference_bits(problem, {1, 3});
  }
}

// Columns side by side in stretches that are longer than what registers hold the sums of, in one or several parts.
TEST(CpuContraction, FewRowsTimesLongRows) {
  for (const std::int64_t m : {1, 2, 3, 4}) {
    for (const std::int64_t k : {31, 32, 45, 300, 520}) {
      Problem problem = matmul_problem({}, m, 1040, k, {.special = k == 45});
      expect_reference_bits(problem, {1, 2});
      problem.kernel.a.canonical = problem.kernel.b_operand.canonical = true;
      if (k != 45) expect_reference_bits(problem, {1});
    }
    Problem parts = matmul_problem({}, m, 5136, 270);
    expect_reference_bits(parts, {1});
  }
}

TEST(CpuContraction, BatchesAndBroadcasts) {
  for (const bool a : {false, true}) {
    for (const bool b : {false, true}) {
      Problem problem = matmul_problem({3, 2}, 10, 21, 40, {.broadcast_a = a, .broadcast_b = b});
      expect_reference_bits(problem, {1, 2, 7});
      Problem vectors = matmul_problem({5}, 1, 21, 40, {.transpose_b = true, .broadcast_a = a, .broadcast_b = b});
      expect_reference_bits(vectors, {1, 7});
    }
  }
}

TEST(CpuContraction, BroadcastInOneOfTwoBatchDimensions) {
  // a changes with the first batch dimension only, b with the second only: one joins m, the other n.
  Problem problem = matmul_problem({3, 4}, 10, 21, 40);
  problem.kernel.a.view.strides[1] = 0;
  problem.kernel.b_operand.view.strides[0] = 0;
  problem.name = "crossed broadcast";
  expect_reference_bits(problem, {1, 2, 7});
}

void expect_blocks_on_threads(const Shape& sizes) {
  for (const bool transpose_out : {false, true}) {
    Problem problem = matmul_problem({}, sizes[0], sizes[1], sizes[2], {.transpose_out = transpose_out});
    expect_reference_bits(problem, {1, 2, 3, 7});
  }
}

TEST(CpuContraction, ThreadsAndBlocks) {
  for (const Shape& sizes : {Shape{130, 1100, 30}, Shape{1100, 130, 70}, Shape{500, 530, 40}, Shape{40, 50, 2000}}) {
    expect_blocks_on_threads(sizes);
  }
}

// Without threads in its name, by which ThreadSanitizer's stage selects: long products take minutes there.
TEST(CpuContraction, ManyLongBlocks) {
  expect_blocks_on_threads({130, 1100, 300});
}

TEST(CpuContraction, SpecialValues) {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    for (const bool transpose : {false, true}) {
      const MatmulOptions options{.transpose_a = transpose, .transpose_b = transpose, .special = true, .seed = seed};
      Problem problem = matmul_problem({}, 30, 50, 20, options);
      expect_reference_bits(problem, {1});
      Problem row = matmul_problem({}, 1, 50, 20, options);
      expect_reference_bits(row, {1});
    }
  }
}

MatmulOptions in_blocked_numerics(DType dtype, bool transpose, std::uint64_t seed = 1) {
  return {.a = dtype,
          .b = dtype,
          .transpose_a = transpose,
          .transpose_b = !transpose,
          .seed = seed,
          .numerics = Numerics::blocked};
}

TEST(CpuContraction, BlockedAroundTileEdges) {
  std::uint64_t seed = 0;
  for (const std::int64_t m : {1, 3, 4, 6, 7, 8, 14, 15, 29}) {
    for (const std::int64_t n : {1, 2, 8, 15, 16, 17, 33, 65}) {
      for (const std::int64_t k : {1, 6, 129}) {
        const DType dtype = ++seed % 3 == 0 ? DType::f16 : seed % 3 == 1 ? DType::bf16 : DType::f32;
        Problem problem = matmul_problem({}, m, n, k, in_blocked_numerics(dtype, seed % 2 == 0));
        expect_reference_bits(problem, {1});
      }
    }
  }
}

TEST(CpuContraction, BlockedBlocksOfK) {
  for (const std::int64_t k : {0, 1, 2, 3, 4, 127, 128, 129, 130, 255, 256, 257, 384, 513, 1000}) {
    for (const bool transpose : {false, true}) {
      Problem square = matmul_problem({2}, 19, 37, k, in_blocked_numerics(DType::bf16, transpose));
      expect_reference_bits(square, {1, 2, 7});
      Problem row = matmul_problem({}, 1, 70, k, in_blocked_numerics(DType::f16, transpose));
      expect_reference_bits(row, {1});
    }
  }
}

TEST(CpuContraction, BlockedThreadsLayoutsAndSpecialValues) {
  for (const bool transpose : {false, true}) {
    Problem wide = matmul_problem({}, 60, 530, 260, in_blocked_numerics(DType::bf16, transpose));
    expect_reference_bits(wide, {1, 2, 7});
    MatmulOptions options = in_blocked_numerics(DType::bf16, transpose);
    options.transpose_out = options.flip_a = options.broadcast_b = true;
    Problem turned = matmul_problem({3}, 40, 50, 200, options);
    expect_reference_bits(turned, {1, 2, 7});
    for (const DType dtype : {DType::bf16, DType::f16, DType::f32}) {
      MatmulOptions special = in_blocked_numerics(dtype, transpose, 5);
      special.special = true;
      Problem any = matmul_problem({}, 60, 70, 2, special);
      expect_reference_bits(any, {1});
      Problem longer = matmul_problem({}, 60, 70, 9, special);
      expect_reference_bits(longer, {1});
    }
  }
}

TEST(CpuContraction, ResultsAtTheEdgeOfTheNormalRange) {
  // Products around 2^-126: sums keep subnormals, results do not.
  Problem problem = matmul_problem({}, 20, 40, 9);
  for (const int slot : {kSlotA, kSlotB}) {
    Bytes& bytes = problem.buffers[static_cast<std::size_t>(slot)];
    for (std::size_t i = 0; i + 4 <= bytes.size(); i += 4) {
      float value;
      std::memcpy(&value, bytes.data() + i, 4);
      value *= slot == kSlotA ? 0x1p-64f : 0x1p-63f;
      std::memcpy(bytes.data() + i, &value, 4);
    }
  }
  problem.name = "tiny products";
  expect_reference_bits(problem, {1});
}

TEST(CpuContraction, EveryDType) {
  struct Types {
    DType a, b;
    ComputeType type;
  };
  const Types types[] = {{DType::f16, DType::f16, ComputeType::f32},    {DType::bf16, DType::bf16, ComputeType::f32},
                         {DType::f16, DType::f32, ComputeType::f32},    {DType::f64, DType::f64, ComputeType::f64},
                         {DType::i8, DType::i8, ComputeType::i32},      {DType::u8, DType::i8, ComputeType::i32},
                         {DType::i16, DType::i16, ComputeType::i32},    {DType::i32, DType::i32, ComputeType::i32},
                         {DType::boolean, DType::u8, ComputeType::i32}, {DType::i64, DType::i64, ComputeType::i64},
                         {DType::u32, DType::i64, ComputeType::i64}};
  for (const Types& t : types) {
    for (int bits = 0; bits < 8; ++bits) {
      const MatmulOptions options{.a = t.a,
                                  .b = t.b,
                                  .type = t.type,
                                  .transpose_a = (bits & 1) != 0,
                                  .transpose_b = (bits & 2) != 0,
                                  .special = (bits & 4) != 0};
      Problem problem = matmul_problem({2}, 21, 43, 270, options);
      problem.name += std::string(" ") + std::string(name_of(t.a)) + " x " + std::string(name_of(t.b));
      expect_reference_bits(problem);
      Problem row = matmul_problem({}, 1, 43, 27, options);
      expect_reference_bits(row, {1});
    }
  }
}

// Tiles of these are compiled for some heights alone, and others are put together.
TEST(CpuContraction, EveryHeightOfOtherTypes) {
  struct Types {
    DType dtype;
    ComputeType type;
  };
  for (const Types& t :
       {Types{DType::f64, ComputeType::f64}, Types{DType::i32, ComputeType::i32}, Types{DType::i64, ComputeType::i64}}) {
    for (std::int64_t m = 1; m <= 29; ++m) {
      for (const std::int64_t n : {5, 16, 33}) {
        Problem problem = matmul_problem({}, m, n, 260, {.a = t.dtype, .b = t.dtype, .type = t.type});
        expect_reference_bits(problem, {1});
      }
    }
  }
}

// --- convolutions
// -------------------------------------------------------------------------------------------------------

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
    Problem deep = convolution_problem({.batch = 2, .in = 40, .out = 30, .size = {16, width}, .special = true});
    expect_reference_bits(deep, {1, 7});
    deep.kernel.b_operand.canonical = true;  // read as they are, then
    deep.buffers[kSlotB] = convolution_problem({.batch = 2, .in = 40, .size = {16, width}}).buffers[kSlotB];
    expect_reference_bits(deep, {1, 7});
    Problem groups = convolution_problem(
        {.batch = 2, .groups = 3, .in = 6, .out = 9, .size = {14, width}, .kernel = {3, 5}, .padding = 2});
    expect_reference_bits(groups, {1, 2, 7});
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

// Nor are depthwise ones whose channels lie last.
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

TEST(CpuContraction, ViewsWithInsertedZeros) {
  for (const bool swap : {false, true}) {
    Problem problem = matmul_problem({}, 20, 40, 31);
    ContractionKernel& kernel = problem.kernel;
    View stored = View::contiguous({16, 40});
    kernel.b_operand.view = stored.dilated(0, 2, 0).value();
    if (swap) {
      stored = View::contiguous({31, 20});
      kernel.b_operand.view = stored.dilated(1, 2, 0).value().padded(1, 0, 1, 0).value();
    }
    problem.name = "dilated operand";
    expect_reference_bits(problem);
  }
}

// --- epilogues
// ----------------------------------------------------------------------------------------------------------

TEST(CpuContraction, EpilogueWithBiasGeluAndResidual) {
  for (const bool transpose_out : {false, true}) {
    for (const Shape& sizes :
         {Shape{30, 70, 300}, Shape{70, 5, 33}, Shape{1, 90, 40}, Shape{200, 600, 20}, Shape{90, 1, 40}}) {
      Problem problem = matmul_problem({2}, sizes[0], sizes[1], sizes[2],
                                       {.transpose_b = true, .transpose_out = transpose_out, .broadcast_b = true});
      Program& program = problem.kernel.epilogue;
      const Shape space = concat({program.rows, program.inner});
      View bias = View::contiguous({sizes[1]}).expanded(space);
      program.inputs = {{.slot = 3, .dtype = DType::f32, .view = bias, .canonical = false},
                        {.slot = 4, .dtype = DType::f32, .view = View::contiguous(space), .canonical = false}};
      using Kind = Instruction::Kind;
      program.code = {{.kind = Kind::accumulator},
                      {.kind = Kind::load, .index = 0},
                      {.kind = Kind::elementwise, .op = Op::add, .a = 0, .b = 1},
                      {.kind = Kind::elementwise, .op = Op::gelu_erf, .a = 2},
                      {.kind = Kind::load, .index = 1},
                      {.kind = Kind::elementwise, .op = Op::add, .a = 3, .b = 4}};
      program.outputs[0].value = 5;
      std::mt19937_64 random(11);
      problem.buffers.push_back(random_bytes(DType::f32, sizes[1], random, false));
      problem.buffers.push_back(random_bytes(DType::f32, space.numel(), random, true));
      problem.name += " with epilogue";
      expect_reference_bits(problem, {1, 2, 7});
    }
  }
}

TEST(CpuContraction, StridedOutput) {
  for (const std::int64_t gap : {1, 2, 3}) {
    Problem problem = matmul_problem({2}, 17, 45, 300);
    Shape& strides = problem.kernel.epilogue.outputs[0].strides;
    strides = {5000, gap * 50, gap};
    problem.buffers[kSlotOut] = Bytes(static_cast<std::size_t>(output_elements(problem.kernel.epilogue)) * 4 + 16);
    problem.name += " strided output";
    expect_reference_bits(problem);
  }
}

TEST(CpuContraction, RandomShapes) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const auto size = [&](std::int64_t limit) {
    const std::int64_t small = static_cast<std::int64_t>(random() % 4);
    return 1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(small == 0 ? 4 : limit));
  };
  for (int i = 0; i < 60; ++i) {
    const auto flag = [&] { return random() % 2 == 0; };
    const MatmulOptions options{.transpose_a = flag(),
                                .transpose_b = flag(),
                                .transpose_out = flag(),
                                .flip_a = random() % 5 == 0,
                                .flip_b = random() % 5 == 0,
                                .broadcast_a = flag(),
                                .broadcast_b = flag(),
                                .special = random() % 3 == 0,
                                .seed = seed + static_cast<std::uint64_t>(i)};
    Problem problem = matmul_problem({size(4), size(3)}, size(60), size(90), size(400), options);
    expect_reference_bits(problem);
  }
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

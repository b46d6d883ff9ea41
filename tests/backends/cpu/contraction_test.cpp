// The CPU's matrix products against the reference backend, by equality of bits: every instruction set, several thread
// counts, and the shapes at which blocked code goes wrong. Convolutions stand in convolution_test.cpp and
// depthwise_test.cpp.
#include "backends/cpu/contraction/contraction.h"

#include <cstring>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "backends/cpu/contraction_problem.h"
#include "support/long_forms.h"

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
  const bool is_long = long_forms();  // threads divide rows, columns or blocks of k however long k is
  for (const Shape& sizes : {Shape{130, 1100, is_long ? 30 : 10}, Shape{1100, 130, is_long ? 70 : 20},
                             Shape{500, 530, is_long ? 40 : 10}, Shape{40, 50, is_long ? 2000 : 600}}) {
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
    Problem wide = matmul_problem({}, 60, 530, long_forms() ? 260 : 132, in_blocked_numerics(DType::bf16, transpose));
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
  const auto size = [&](std::int64_t limit) { return random_size(random, limit); };
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
}

}  // namespace
}  // namespace lockstep

// Launches of products that run together, without a device: how many there are, and that NVRTC takes their texts.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "backends/gpu/cuda/nvrtc.h"
#include "backends/gpu/dialect.h"
#include "backends/gpu/nvrtc_tried.h"
#include "backends/gpu/source.h"

namespace lockstep {
inline namespace v0 {
namespace {

using namespace gpu;

struct Weights {
  std::int64_t columns;
  Encoding encoding;
};

// Slots: x, weights, results. Each may scale its results by those of the one before.
std::vector<Kernel> products_of(std::int64_t rows, std::int64_t length, const std::vector<Weights>& all, DType dtype,
                                bool chained = false) {
  std::vector<Kernel> kernels;
  const auto count = static_cast<int>(all.size());
  for (int i = 0; i < count; ++i) {
    const auto& [columns, encoding] = all[static_cast<std::size_t>(i)];
    ContractionKernel kernel;
    kernel.m = {rows};
    kernel.n = {columns};
    kernel.k = {length};
    kernel.numerics = encoding == Encoding::dense ? Numerics::exact : Numerics::q8;
    kernel.a = {0, DType::f32, View::contiguous({rows, length}), true};
    kernel.b_operand = {1 + i, dtype, View{.shape = {length, columns}, .strides = {1, length}}, true, encoding};
    Instruction value;
    value.kind = Instruction::Kind::accumulator;
    kernel.epilogue.rows = {rows};
    kernel.epilogue.inner = {columns};
    kernel.epilogue.code = {value};
    if (chained && i > 0) {
      kernel.epilogue.inputs = {{count + i, DType::f32, View::contiguous({rows, columns}), true}};
      value.kind = Instruction::Kind::load;
      value.index = 0;
      kernel.epilogue.code.push_back(value);
      value.kind = Instruction::Kind::elementwise;
      value.op = Op::mul;
      value.a = 0;
      value.b = 1;
      kernel.epilogue.code.push_back(value);
    }
    const int last = static_cast<int>(kernel.epilogue.code.size()) - 1;
    kernel.epilogue.outputs = {{1 + count + i, DType::f32, last, false, {columns, 1}}};
    kernels.emplace_back(kernel);
  }
  return kernels;
}

constexpr Encoding k4 = Encoding::q4_k, k6 = Encoding::q6_k, kPlain = Encoding::q4_0, kDense = Encoding::dense;
const RenderLimits kHopper{
    .units = 132, .shared_bytes = 227 << 10, .copies_to_shared = true, .integer_tiles = true, .byte_products = true};

// How many launches they are, 0 where they do not run together.
std::size_t launches_of(const std::vector<Kernel>& kernels, const RenderLimits& limits = kHopper) {
  std::vector<const Kernel*> list;
  for (const Kernel& kernel : kernels) list.push_back(&kernel);
  if (!runs_together(list, limits)) return 0;
  const Rendered rendered = render_together(list, limits);
  for (const Launch& launch : rendered.launches) {
    EXPECT_EQ(launch.text.words, static_cast<int>(launch.words.size()));
    EXPECT_LE(shared_bytes_of(launch.text), limits.shared_bytes);
    for (const Patch& patch : launch.patches) EXPECT_LT(patch.word + 1, launch.text.words);
    if (nvrtc_is_tried() && limits.copies_to_shared) {
      EXPECT_FALSE(nvrtc().compile(cuda_source(launch.text), "sm_90a").empty());
    }
  }
  return rendered.launches.size();
}

TEST(SiblingLaunches, AreOneOfAFewRows) {
  EXPECT_EQ(launches_of(products_of(1, 4096, {{4096, kPlain}, {1024, kPlain}, {1024, kPlain}}, DType::f32)), 1U);
  EXPECT_EQ(launches_of(products_of(8, 512, {{96, k4}, {24, k6}}, DType::f32)), 1U);
  EXPECT_EQ(launches_of(products_of(1, 4096, {{4096, kPlain}, {1024, kPlain}}, DType::f32), {}), 1U);
  EXPECT_EQ(launches_of(products_of(1, 4096, {{4096, kDense}, {1024, kDense}, {1024, kDense}}, DType::bf16)), 1U);
  // One needs the other: there is nothing to share.
  EXPECT_EQ(launches_of(products_of(1, 512, {{64, kPlain}, {64, kPlain}}, DType::f32, true)), 0U);
}

// Rows are rounded once. Small products share the device; one that needs another one, and large ones, have it alone.
TEST(SiblingLaunches, ShareTheRoundingOfManyRows) {
  EXPECT_EQ(launches_of(products_of(64, 4096, {{4096, kPlain}, {1024, kPlain}, {1024, kPlain}}, DType::f32)), 2U);
  EXPECT_EQ(launches_of(products_of(64, 4096, {{14336, kPlain}, {14336, kPlain}}, DType::f32, true)), 3U);
  EXPECT_EQ(launches_of(products_of(2048, 4096, {{4096, k4}, {4096, k4}}, DType::f32)), 3U);
  EXPECT_EQ(launches_of(products_of(40, 256, {{96, kPlain}, {33, Encoding::q8_0}}, DType::f32), {}), 2U);
  // Rounded rows lie otherwise for tiles of other kinds.
  EXPECT_EQ(launches_of(products_of(64, 4096, {{4096, k4}, {4096, k6}}, DType::f32)), 0U);
}

TEST(SiblingLaunches, AreNotOfOtherNumerics) {
  EXPECT_EQ(launches_of(products_of(1, 512, {{64, kDense}, {64, kDense}}, DType::f32)), 0U);
  std::vector<Kernel> exact = products_of(1, 512, {{64, kPlain}, {64, kPlain}}, DType::f32);
  for (Kernel& kernel : exact) std::get<ContractionKernel>(kernel).numerics = Numerics::exact;
  EXPECT_EQ(launches_of(exact), 0U);
}

}  // namespace
}  // namespace v0
}  // namespace lockstep

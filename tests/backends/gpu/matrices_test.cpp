// Products by cooperative matrices of bytes: which they are, and that shaderc takes both extensions' texts where it
// knows the extension. That their results are right, blocked_forms_test.cpp and q8_forms_test.cpp show.
#include "backends/gpu/vulkan/matrices.h"

#include <gtest/gtest.h>

#include "backends/gpu/dialect.h"
#include "backends/gpu/source.h"
#include "backends/gpu/vulkan/shaderc.h"

namespace lockstep::gpu {
namespace {

Kernel blocked_product(std::int64_t m, std::int64_t n, std::int64_t k) {
  ContractionKernel kernel;
  kernel.numerics = Numerics::blocked;
  kernel.m = {m};
  kernel.n = {n};
  kernel.k = {k};
  kernel.a = {.slot = 0, .dtype = DType::bf16, .view = View::contiguous({m, k})};
  kernel.b_operand = {.slot = 1, .dtype = DType::bf16, .view = View::contiguous({k, n})};
  Instruction accumulator;
  accumulator.kind = Instruction::Kind::accumulator;
  kernel.epilogue.rows = {m};
  kernel.epilogue.inner = {n};
  kernel.epilogue.code = {accumulator};
  kernel.epilogue.outputs = {{2, DType::bf16, 0, false, {n, 1}}};
  return kernel;
}

Kernel q8_product(std::int64_t m, std::int64_t n, std::int64_t k, Encoding encoding) {
  ContractionKernel kernel = std::get<ContractionKernel>(blocked_product(m, n, k));
  kernel.numerics = Numerics::q8;
  kernel.a.dtype = DType::f32;
  kernel.b_operand = {.slot = 1, .dtype = DType::f32, .view = View::contiguous({n, k}).permuted({1, 0})};
  kernel.b_operand.encoding = encoding;
  kernel.epilogue.outputs[0].dtype = DType::f32;
  return kernel;
}

RenderLimits with_matrices(std::size_t shared_bytes) {
  RenderLimits limits{.units = 96, .shared_bytes = shared_bytes};
  limits.arithmetic.fma_keeps_subnormals = false;
  limits.arithmetic.byte_dots = limits.arithmetic.byte_matrices = true;
  return limits;
}

TEST(Matrices, MultiplyTilesWhereThereAreEnough) {
  for (const std::size_t shared : {std::size_t{32} << 10, std::size_t{48} << 10}) {
    const Rendered rendered = render(blocked_product(300, 200, 1000), with_matrices(shared));
    ASSERT_EQ(rendered.launches.size(), 3U);  // digits of both operands come first
    const Launch& launch = rendered.launches[2];
    EXPECT_TRUE(launch.text.byte_matrices);
    EXPECT_EQ(launch.groups, 3U * 4U);
    EXPECT_LE(shared_bytes_of(launch.text), shared);
  }
  // Few outputs of a long k are shared among workgroups, by dot products.
  EXPECT_FALSE(render(blocked_product(9, 70, 6000), with_matrices(48 << 10)).launches[2].text.byte_matrices);
  EXPECT_FALSE(render(blocked_product(300, 200, 1000), with_matrices(16 << 10)).launches.back().text.byte_matrices);
}

TEST(Matrices, MultiplyManyRowsByPackedWeights) {
  for (const Encoding encoding : {Encoding::q4_0, Encoding::q6_k, Encoding::q2_k, Encoding::q8_0, Encoding::q4_k}) {
    for (const std::int64_t rows : {9, 33, 64, 65, 1000}) {
      const Rendered rendered = render(q8_product(rows, 3000, 512, encoding), with_matrices(48 << 10));
      ASSERT_EQ(rendered.launches.size(), 2U);  // activations are rounded first
      EXPECT_TRUE(rendered.launches[1].text.byte_matrices);
      EXPECT_LE(shared_bytes_of(rendered.launches[1].text), std::size_t{48} << 10);
    }
    for (const auto& [rows, k] : {std::pair<std::int64_t, std::int64_t>{8, 512}, {64, 768 + 32}}) {
      if (info_of(encoding).elements == 256 && k % 256 != 0) continue;
      const Rendered other = render(q8_product(rows, 3000, k, encoding), with_matrices(48 << 10));
      EXPECT_FALSE(other.launches.back().text.byte_matrices) << rows;
    }
  }
}

TEST(Matrices, TextsCompileInBothLanguages) {
  if (!shaderc().is_usable()) GTEST_SKIP() << shaderc().problem();
  for (const auto& [matrices, extension] : {std::pair{vulkan::Matrices::nv, "GL_NV_integer_cooperative_matrix"},
                                            {vulkan::Matrices::khr, "GL_KHR_cooperative_matrix"}}) {
    if (!shaderc().knows(extension)) continue;  // Debian 12's knows the first alone
    for (const std::size_t shared : {std::size_t{32} << 10, std::size_t{48} << 10}) {
      const RenderLimits limits = with_matrices(shared);
      for (const Kernel& kernel : {blocked_product(300, 200, 1000), q8_product(40, 200, 512, Encoding::q4_k),
                                   q8_product(300, 4000, 512, Encoding::q6_k)}) {
        for (const Launch& launch : render(kernel, limits).launches) {
          const std::string source = vulkan_source(launch.text, limits.arithmetic, 32, vulkan::matrices_text(matrices));
          EXPECT_NO_THROW(shaderc().compile(source)) << extension << "\n" << source;
        }
      }
    }
  }
}

TEST(Shaderc, KnowsExtensions) {
  if (!shaderc().is_usable()) GTEST_SKIP() << shaderc().problem();
  EXPECT_TRUE(shaderc().knows("GL_EXT_buffer_reference"));
  EXPECT_FALSE(shaderc().knows("GL_LOCKSTEP_that_nobody_has"));
}

}  // namespace
}  // namespace lockstep::gpu

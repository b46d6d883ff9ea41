// What the renderer makes of blocked and of q8 products: integer tiles, digits and codes, where a device has units for
// them.
#include <string>

#include <gtest/gtest.h>

#include "backends/gpu/render_kernels.h"

namespace lockstep {
inline namespace v0 {
namespace {

using namespace gpu;
using namespace testing;

// Digits of both operands, however they lie, and their products.
TEST(GpuRender, BlockedProductsUseIntegerTilesWhereTheDeviceHasThem) {
  RenderLimits limits{.units = 132, .shared_bytes = 227 << 10, .integer_tiles = true};
  View padded = View::contiguous({300, 200});
  padded.bounds.push_back({.offset = -3, .m = {0, 1}, .lo = 0, .hi = 190});
  View turned{.shape = {200, 256}, .strides = {1, 200}};
  View odd{.shape = {200, 256}, .strides = {513, 2}, .offset = 1};
  struct Case {
    DType dtype;
    View a, b;
  };
  for (const Case& c :
       {Case{DType::bf16, View::contiguous({300, 200}), View::contiguous({200, 256})}, Case{DType::f16, padded, turned},
        Case{DType::f32, View{.shape = {300, 200}, .strides = {1, 300}}, odd}}) {
    const Rendered rendered = render(blocked_matmul(300, 256, 200, c.dtype, c.a, c.b), limits);
    ASSERT_EQ(rendered.launches.size(), 3U);
    EXPECT_EQ(rendered.scratch_bytes, (3U + 2U) * 2U * (32768U + 512U));
    EXPECT_TRUE(rendered.launches[2].text.integer_tiles);
    EXPECT_EQ(rendered.launches[2].groups, 6U);
    for (const Launch& launch : rendered.launches) {
      EXPECT_LE(shared_bytes_of(launch.text), limits.shared_bytes);
      if (!nvrtc_is_tried()) continue;
      const std::string source = cuda_source(launch.text);
      try {
        EXPECT_FALSE(nvrtc().compile(source, "sm_90a").empty());
      } catch (const std::exception& error) {
        FAIL() << error.what() << source;
      }
    }
  }
  limits.integer_tiles = false;
  const Kernel plain = blocked_matmul(300, 256, 200, DType::bf16, View::contiguous({300, 200}), turned);
  for (const Launch& launch : render(plain, limits).launches) EXPECT_FALSE(launch.text.integer_tiles);
}

// The same digits and one text for what comes after, with the instruction that the device has.
TEST(GpuRender, BlockedProductsUseTheProductsOfBytesThatTheDeviceHas) {
  struct Case {
    const char* name;
    const char* architecture;
    RenderLimits limits;
    const char* instruction;
  };
  Arithmetic dots;
  dots.byte_dots = true;
  const Case cases[] = {
      {"Ampere",
       "sm_80",
       {.units = 108, .shared_bytes = 163 << 10, .copies_to_shared = true, .byte_fragments = true, .arithmetic = dots},
       "MULTIPLY_32_BYTES"},
      {"Turing",
       "sm_75",
       {.units = 68, .shared_bytes = 64 << 10, .byte_fragments = true, .arithmetic = dots},
       "MULTIPLY_32_BYTES"},
      {"before", "sm_75", {.units = 20, .shared_bytes = 48 << 10, .arithmetic = dots}, "DOT4"},
      {"the smallest", "sm_75", {.units = 2, .shared_bytes = 32 << 10, .arithmetic = dots}, "DOT4"},
  };
  View padded = View::contiguous({300, 2000});
  padded.bounds.push_back({.offset = -3, .m = {0, 1}, .lo = 0, .hi = 1990});
  const View turned{.shape = {2000, 40}, .strides = {1, 2000}};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    for (const std::int64_t rows : {300, 20}) {
      padded.shape[0] = rows;
      const Rendered rendered = render(blocked_matmul(rows, 40, 2000, DType::bf16, padded, turned), c.limits);
      // Few tiles share k, as far as there are units.
      const bool shares = c.limits.units >= 2 * (rows == 300 ? 3 : 1);
      ASSERT_EQ(rendered.launches.size(), shares ? 4U : 3U);
      EXPECT_NE(rendered.launches[2].text.body.find(c.instruction), std::string::npos);
      EXPECT_EQ(rendered.launches[2].groups, rows == 300 ? (shares ? 6U : 3U) : (shares ? 2U : 1U));
      EXPECT_EQ(rendered.forms.size(), 2U);
      for (const Launch& launch : rendered.launches) {
        EXPECT_LE(shared_bytes_of(launch.text), c.limits.shared_bytes);
        EXPECT_EQ(launch.text.copies, &launch == &rendered.launches[2] && c.limits.copies_to_shared);
        if (!nvrtc_is_tried()) continue;
        const std::string source = cuda_source(launch.text);
        try {
          EXPECT_FALSE(nvrtc().compile(source, c.architecture).empty());
        } catch (const std::exception& error) {
          FAIL() << error.what() << source;
        }
      }
    }
  }
  const RenderLimits without{.units = 20, .shared_bytes = 48 << 10};
  for (const Launch& launch : render(blocked_matmul(300, 40, 2000, DType::bf16, padded, turned), without).launches) {
    EXPECT_EQ(launch.text.body.find("DOT4"), std::string::npos);
  }
}

// Digits of each operand, and a launch for the result or for each gradient; what lies otherwise is copied before.
TEST(GpuRender, BlockedAttentionKeepsNoScores) {
  AttentionKernel kernel{.numerics = Numerics::blocked,
                         .sizes = attention_sizes({2, 6, 300, 64}, {2, 3, 200, 64}, Numerics::blocked),
                         .causal = true};
  kernel.query = {.slot = 0, .dtype = DType::bf16, .view = View::contiguous({2, 6, 300, 64})};
  kernel.key = {.slot = 1, .dtype = DType::bf16, .view = View::contiguous({2, 3, 200, 64})};
  kernel.value = kernel.key;
  kernel.out = 2;
  const RenderLimits limits{.units = 132};
  const Rendered forward = render(kernel, limits);
  ASSERT_EQ(forward.launches.size(), 4U);
  EXPECT_EQ(forward.launches[3].groups, 12U * 5U);
  // Two bytes for each element of an operand that is filled up to 128 positions, and scales.
  const std::size_t digits = 2 * 64 * 128 * (12 * 3 + 2 * 6 * 2);
  EXPECT_GT(forward.scratch_bytes, digits);
  EXPECT_LT(forward.scratch_bytes, digits + digits / 8);

  kernel.gradients = true;
  kernel.made = 3;
  kernel.upstream = kernel.query;
  kernel.value.view = View{.shape = {2, 3, 200, 64}, .strides = {38400, 12800, 1, 200}};
  const Rendered backward = render(kernel, limits);
  ASSERT_EQ(backward.launches.size(), 8U);
  for (const Launch& launch : backward.launches) {
    EXPECT_LE(shared_bytes_of(launch.text), std::size_t{48} << 10);
    EXPECT_LE(launch.text.words, 1000);
  }
  EXPECT_FALSE(backward.launches[0].text.attention_tiles);
  EXPECT_TRUE(backward.launches[7].text.attention_tiles);
  if (nvrtc_is_tried()) {
    EXPECT_FALSE(nvrtc().compile(cuda_source(forward.launches[0].text), "sm_80").empty());
  }
}

Kernel q8_product(std::int64_t rows, std::int64_t columns, std::int64_t length, Encoding encoding) {
  Kernel kernel = matmul(rows, columns, length, DType::f32);
  auto& contraction = std::get<ContractionKernel>(kernel);
  contraction.numerics = Numerics::q8;
  contraction.b_operand.view = View{.shape = {length, columns}, .strides = {1, length}};
  contraction.b_operand.encoding = encoding;
  return kernel;
}

// Tiles that keep all units busy; no more workgroups than run at once.
TEST(GpuRender, CodesOfManyRowsAreMultipliedByTensorCoresWhereTheDeviceHasThem) {
  RenderLimits limits{.units = 132, .shared_bytes = 227 << 10, .copies_to_shared = true, .byte_products = true};
  struct Case {
    std::int64_t rows, columns;
  };
  for (const Encoding encoding : {Encoding::q8_0, Encoding::q4_k, Encoding::q6_k, Encoding::q2_k}) {
    for (const Case& c : {Case{9, 4096}, Case{30, 4096}, Case{64, 14336}, Case{64, 1024}, Case{100, 8192},
                          Case{2000, 1024}, Case{2000, 4096}}) {
      SCOPED_TRACE(std::string(info_of(encoding).name) + " " + std::to_string(c.rows));
      const Rendered rendered = render(q8_product(c.rows, c.columns, 2048, encoding), limits);
      ASSERT_EQ(rendered.launches.size(), 2U);
      const Launch& launch = rendered.launches[1];
      EXPECT_TRUE(launch.text.byte_products);
      EXPECT_GE(launch.groups, 120U);
      EXPECT_LE(launch.groups, 132U);
      EXPECT_LE(shared_bytes_of(launch.text), limits.shared_bytes);
    }
  }
  const auto is_plain = [&](const Kernel& kernel) {
    return !render(kernel, limits).launches.back().text.byte_products;
  };
  EXPECT_TRUE(is_plain(q8_product(64, 4096, 288, Encoding::q8_0)));
  EXPECT_TRUE(is_plain(q8_product(8, 4096, 512, Encoding::q8_0)));
  limits.shared_bytes = 99 << 10;
  for (const Encoding encoding : {Encoding::q4_0, Encoding::q8_0, Encoding::q6_k, Encoding::q2_k}) {
    EXPECT_FALSE(is_plain(q8_product(64, 4096, 512, encoding)));
  }
  limits.byte_products = false;
  EXPECT_TRUE(is_plain(q8_product(64, 4096, 512, Encoding::q8_0)));
}

// Hopper's warpgroups multiply what keeps its units busy, of encodings that threads take apart where they lie.
TEST(GpuRender, CodesOfManyRowsAreMultipliedByWarpgroupsWhereTheDeviceHasThem) {
  RenderLimits limits{
      .units = 132, .shared_bytes = 227 << 10, .copies_to_shared = true, .integer_tiles = true, .byte_products = true};
  const auto launch_of = [&](std::int64_t rows, std::int64_t columns, std::int64_t length, Encoding encoding) {
    return render(q8_product(rows, columns, length, encoding), limits).launches.back();
  };
  struct Case {
    std::int64_t rows, columns, length;
  };
  constexpr Case kCases[] = {{64, 4096, 4096}, {33, 14336, 256}, {2048, 4096, 14336}, {2048, 14336, 256}};
  for (const Encoding encoding : {Encoding::q4_0, Encoding::q4_1, Encoding::q8_0, Encoding::q4_k, Encoding::q5_k}) {
    for (const Case& c : kCases) {
      SCOPED_TRACE(std::string(info_of(encoding).name) + " " + std::to_string(c.rows));
      const Launch launch = launch_of(c.rows, c.columns, c.length, encoding);
      EXPECT_TRUE(launch.text.warpgroup_bytes);
      EXPECT_GE(launch.groups, 66U);
      EXPECT_LE(launch.groups, 132U);
      EXPECT_LE(shared_bytes_of(launch.text), limits.shared_bytes);
      // The texts of encodings differ in how threads take codes apart, not in their tiles.
      if (nvrtc_is_tried() && (encoding == Encoding::q4_0 || c.rows == 64 || long_forms())) {
        EXPECT_FALSE(nvrtc().compile(cuda_source(launch.text), "sm_90a").empty());
      }
    }
  }
  EXPECT_FALSE(launch_of(64, 4096, 4096, Encoding::q6_k).text.warpgroup_bytes);
  EXPECT_FALSE(launch_of(32, 4096, 4096, Encoding::q4_0).text.warpgroup_bytes);
  EXPECT_FALSE(launch_of(64, 1024, 4096, Encoding::q4_0).text.warpgroup_bytes);
  EXPECT_FALSE(launch_of(64, 4096, 288, Encoding::q4_0).text.warpgroup_bytes);
  // With a share of the units, beside products of the same rows: 64 tiles for 88 units, in one round.
  limits.units = 88;
  const Launch shared = launch_of(64, 4096, 4096, Encoding::q4_k);
  EXPECT_TRUE(shared.text.warpgroup_halves);
  EXPECT_EQ(shared.groups, 64U);
  if (nvrtc_is_tried()) {
    EXPECT_FALSE(nvrtc().compile(cuda_source(shared.text), "sm_90a").empty());
  }
  limits.integer_tiles = false;
  EXPECT_FALSE(launch_of(64, 4096, 4096, Encoding::q4_0).text.warpgroup_bytes);
}

// Two matrices of which each tile has columns of both: units have equally much to do, where one round of tiles is not
// enough, and hand on what they have begun.
TEST(GpuRender, PairsOfManyRowsAreOneProductOfWarpgroups) {
  RenderLimits limits{
      .units = 132, .shared_bytes = 227 << 10, .copies_to_shared = true, .integer_tiles = true, .byte_products = true};
  const auto pair_of = [](std::int64_t rows, std::int64_t columns, Encoding encoding) {
    auto kernel = std::get<ContractionKernel>(q8_product(rows, columns, 4096, encoding));
    kernel.paired = true;
    kernel.second = kernel.b_operand;
    kernel.second.slot = 3;
    Instruction step = kernel.epilogue.code[0];
    step.index = 1;
    kernel.epilogue.code.push_back(step);
    step.kind = Instruction::Kind::elementwise;
    step.op = Op::mul;
    step.a = 0;
    step.b = 1;
    kernel.epilogue.code.push_back(step);
    kernel.epilogue.outputs[0].value = 2;
    return kernel;
  };
  for (const Encoding encoding : {Encoding::q8_0, Encoding::q4_0, Encoding::q4_k}) {
    SCOPED_TRACE(info_of(encoding).name);
    const ContractionKernel kernel = pair_of(64, 14336, encoding);
    ASSERT_TRUE(is_packed_pair(kernel, limits));
    const Rendered rendered = render(kernel, limits);
    ASSERT_EQ(rendered.launches.size(), 2U);
    EXPECT_EQ(rendered.launches[1].groups, 132U);
    EXPECT_TRUE(rendered.launches[1].text.warpgroup_bytes);
    EXPECT_NE(rendered.launches[1].text.body.find("take_totals"), std::string::npos);
    for (const Launch& launch : rendered.launches) {
      EXPECT_LE(shared_bytes_of(launch.text), limits.shared_bytes);
      if (nvrtc_is_tried()) {
        EXPECT_FALSE(nvrtc().compile(cuda_source(launch.text), "sm_90a").empty());
      }
    }
  }
  // Many rounds, of whole tiles, unless each matrix alone has a better form; what few rows and other devices do.
  const Rendered many = render(pair_of(2048, 14336, Encoding::q8_0), limits);
  EXPECT_EQ(many.launches[1].text.body.find("take_totals"), std::string::npos);
  EXPECT_EQ(many.launches[1].groups, 132U);
  EXPECT_FALSE(is_packed_pair(pair_of(2048, 14336, Encoding::q4_k), limits));
  EXPECT_FALSE(is_packed_pair(pair_of(32, 14336, Encoding::q8_0), limits));
  EXPECT_TRUE(is_packed_pair(pair_of(8, 14336, Encoding::q8_0), limits));
  limits.integer_tiles = false;
  EXPECT_FALSE(is_packed_pair(pair_of(64, 14336, Encoding::q8_0), limits));
}

// Few outputs of a long k: units take parts of it, and a last launch adds its blocks.
TEST(GpuRender, IntegerTilesShareALongK) {
  const RenderLimits limits{.units = 132, .shared_bytes = 227 << 10, .integer_tiles = true};
  const Kernel kernel =
      blocked_matmul(64, 576, 20000, DType::bf16, View::contiguous({64, 20000}), View::contiguous({20000, 576}));
  const Rendered rendered = render(kernel, limits);
  ASSERT_EQ(rendered.launches.size(), 4U);
  constexpr std::size_t kBlocks = 157;
  EXPECT_EQ(rendered.scratch_bytes, kBlocks * ((1 + 5) * (32768U + 512U) + 5 * 65536U));
  EXPECT_EQ(rendered.launches[2].groups, 5U * 18U);  // 9 blocks each
  if (!nvrtc_is_tried()) return;
  for (const std::size_t i : {2U, 3U}) {
    EXPECT_FALSE(nvrtc().compile(cuda_source(rendered.launches[i].text), "sm_90a").empty());
  }
}

}  // namespace
}  // namespace v0
}  // namespace lockstep

// metal_stdlib: its functions give the bits that Metal's specification fixes, and what Metal lacks does not compile.
#include <bit>
#include <cmath>

#include <gtest/gtest.h>

#include <lockstep/dtype.h>

#include "metal_emulator/metal_client.h"

namespace emulator_test {
namespace {

class MetalHeader : public testing::Test {
 protected:
  /// One value of an expression of type T.
  template <class T> T value(const char* type, const std::string& expression) {
    return metal_.values<T>(kernel_filling(type, "out[i] = " + expression + ";"), 1)[0];
  }
  std::uint32_t word(const std::string& expression) { return value<std::uint32_t>("uint", expression); }
  std::uint32_t bits(const std::string& expression) { return word("as_type<uint>(" + expression + ")"); }
  std::string error_of(const std::string& body) {
    std::string error;
    const Owned library = metal_.library(kernel_filling("float", body), &error);
    EXPECT_EQ(library == nullptr, !error.empty());
    return error;
  }
  Metal metal_;
};

TEST_F(MetalHeader, FmaRoundsOnce) {
  EXPECT_EQ(bits("fma(as_type<float>(0x3f800001u), as_type<float>(0x3f800001u), -as_type<float>(0x3f800002u))"),
            0x28800000u);
  EXPECT_EQ(bits("as_type<float>(0x3f800001u) * as_type<float>(0x3f800001u) - as_type<float>(0x3f800002u)"), 0u);
}

TEST_F(MetalHeader, DivisionAndSquareRootAreCorrectlyRounded) {
  EXPECT_EQ(bits("1.0f / 3.0f"), std::bit_cast<std::uint32_t>(1.0f / 3.0f));
  EXPECT_EQ(bits("precise::divide(2.0f, 3.0f)"), std::bit_cast<std::uint32_t>(2.0f / 3.0f));
  EXPECT_EQ(bits("precise::sqrt(2.0f)"), std::bit_cast<std::uint32_t>(std::sqrt(2.0f)));
}

TEST_F(MetalHeader, LiteralsWithoutASuffixAreFloats) {
  EXPECT_EQ(word("uint(sizeof(1.0))"), 4u);
}

TEST_F(MetalHeader, RoundingFunctions) {
  EXPECT_EQ(value<float>("float", "rint(2.5f)"), 2.0f);
  EXPECT_EQ(value<float>("float", "round(2.5f)"), 3.0f);
  EXPECT_EQ(value<float>("float", "floor(-0.5f)"), -1.0f);
  EXPECT_EQ(value<float>("float", "ceil(-0.5f)"), -0.0f);
  EXPECT_EQ(value<float>("float", "trunc(-1.5f)"), -1.0f);
}

TEST_F(MetalHeader, MinAndMaxIgnoreOneNan) {
  EXPECT_EQ(value<float>("float", "min(as_type<float>(0x7fc00000u), 2.0f)"), 2.0f);
  EXPECT_EQ(value<float>("float", "max(3.0f, as_type<float>(0x7fc00000u))"), 3.0f);
  EXPECT_EQ(word("isnan(as_type<float>(0x7fc00000u)) ? 1u : 0u"), 1u);
}

TEST_F(MetalHeader, HalvesAreRoundedAfterEveryOperation) {
  // 2048 + 1 is not a half; f32 in between would keep the 1.
  EXPECT_EQ(value<float>("float", "float((half(2048.0f) + half(1.0f)) - half(2048.0f))"), 0.0f);
  EXPECT_EQ(word("as_type<ushort>(half(65520.0f))"), 0x7c00u);
  EXPECT_EQ(word("as_type<ushort>(half(5.9604645e-8f))"), 0x0001u);
}

TEST_F(MetalHeader, EveryHalfBecomesItsFloatAndBack) {
  const Owned memory = metal_.buffer(65536 * 4);
  const std::string text =
      "kernel void k(device uint* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {\n"
      "  half h = as_type<half>(ushort(i));\n"
      "  out[i] = as_type<uint>(float(h)) ^ (h == h ? uint(as_type<ushort>(half(float(h))) ^ ushort(i)) : 0u);\n}\n";
  ASSERT_EQ(metal_.run(text, {memory}, 256, 256), "");
  const auto* out = contents<std::uint32_t>(memory);
  for (std::uint32_t i = 0; i < 65536; ++i) {
    const float expected = lockstep::to_f32(lockstep::Float16{static_cast<std::uint16_t>(i)});
    if (std::isnan(expected)) continue;
    ASSERT_EQ(out[i], std::bit_cast<std::uint32_t>(expected)) << i;
  }
}

TEST_F(MetalHeader, FmaOfHalvesRoundsOnce) {
  // The sum lies just below the middle of two halves, by less than an f32 can show.
  EXPECT_EQ(word("as_type<ushort>(fma(as_type<half>(ushort(0x1001)), as_type<half>(ushort(0x3bfe)), "
                 "as_type<half>(ushort(0x3c01))))"),
            0x3c01u);
  EXPECT_EQ(word("as_type<ushort>(fma(half(3.0f), half(5.0f), half(-7.0f)))"), 0x4800u);
}

TEST_F(MetalHeader, ConversionsSaturateNothingTheyNeedNot) {
  EXPECT_EQ(value<std::int32_t>("int", "int(-1.75f)"), -1);
  EXPECT_EQ(word("uint(3000000000.0f)"), 3000000000u);
  EXPECT_EQ(value<float>("float", "float(16777217)"), 16777216.0f);
  EXPECT_EQ(value<float>("float", "float(0xffffffffffffffffUL)"), 18446744073709551616.0f);
}

TEST_F(MetalHeader, BitCastsKeepBits) {
  EXPECT_EQ(word("as_type<uint>(as_type<float>(0x7f800001u))"), 0x7f800001u);
  EXPECT_EQ(value<std::uint64_t>("ulong", "as_type<ulong>(uint2(1u, 2u))"), 0x200000001u);
  EXPECT_NE(error_of("out[i] = as_type<float>(1UL);").find("as_type keeps the size"), std::string::npos);
}

TEST_F(MetalHeader, IntegerFunctions) {
  EXPECT_EQ(word("mulhi(0xffffffffu, 0xffffffffu)"), 0xfffffffeu);
  EXPECT_EQ(value<std::int32_t>("int", "mulhi(-2, 3)"), -1);
  EXPECT_EQ(value<std::uint64_t>("ulong", "mulhi(0xffffffffffffffffUL, 2UL)"), 1u);
  EXPECT_EQ(word("clz(1u) * 100u + clz(0u)"), 3132u);
  EXPECT_EQ(word("ctz(8u) * 100u + ctz(0u)"), 332u);
  EXPECT_EQ(word("popcount(0xf0f0u)"), 8u);
  EXPECT_EQ(word("rotate(0x80000001u, 4u)"), 0x00000018u);
  EXPECT_EQ(word("abs(-2147483647 - 1)"), 0x80000000u);
  EXPECT_EQ(word("clz(ushort(1))"), 15u);
}

TEST_F(MetalHeader, Vectors) {
  EXPECT_EQ(word("uint4(1u, uint2(2u, 3u), 4u).z"), 3u);
  EXPECT_EQ(value<float>("float", "float4(2.0f).w + float2(uint2(3u, 4u)).y"), 6.0f);
  EXPECT_EQ(word("uint(sizeof(float3))"), 16u);
  EXPECT_EQ(word("uint4(1u, 2u, 3u, 4u).wzyx.x"), 4u);
  const std::vector<float> loaded = metal_.values<float>(
      kernel_filling("float", "if (i == 0u) *(device float4*)(out) = float4(float(i), 1.0f, 2.0f, 3.0f);"), 4);
  EXPECT_EQ(loaded, (std::vector<float>{0, 1, 2, 3}));
}

TEST_F(MetalHeader, AtomicsCountEveryThread) {
  const Owned memory = metal_.buffer(8);
  contents<std::uint32_t>(memory)[0] = 0;
  contents<std::uint32_t>(memory)[1] = 7;
  const std::string text =
      "kernel void k(device atomic_uint* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {\n"
      "  atomic_fetch_add_explicit(&out[0], i, memory_order_relaxed);\n"
      "  atomic_fetch_max_explicit(&out[1], i, memory_order_relaxed);\n}\n";
  ASSERT_EQ(metal_.run(text, {memory}, 400, 100), "");
  EXPECT_EQ(contents<std::uint32_t>(memory)[0], 39999u * 20000u);
  EXPECT_EQ(contents<std::uint32_t>(memory)[1], 39999u);
}

TEST_F(MetalHeader, SimdgroupsExchangeValues) {
  for (const char* schedule : {"ascending", "descending", "7"}) {
    const Setting order("LOCKSTEP_METAL_SCHEDULE", schedule);
    const std::vector<std::uint32_t> values = metal_.values<std::uint32_t>(
        kernel_filling("uint",
                       "uint x = i * 10u;\n"
                       "uint a = simd_shuffle_xor(x, ushort(1)), b = simd_shuffle_down(x, ushort(2));\n"
                       "uint c = simd_shuffle_up(x, ushort(2)), d = simd_broadcast(x, ushort(3));\n"
                       "out[i] = a + 1000u * b + 1000000u * c + (simd_any(i == 5u) ? 1u : 0u) + "
                       "(simd_all(i < 64u) ? 2u : 0u) + d;"),
        64);
    for (std::uint32_t i = 0; i < 64; ++i) {
      const std::uint32_t lane = i % 32, base = i - lane;
      const std::uint32_t a = (i ^ 1) * 10, b = lane + 2 < 32 ? (i + 2) * 10 : i * 10,
                          c = lane >= 2 ? (i - 2) * 10 : i * 10;
      const std::uint32_t d = (base + 3) * 10;
      ASSERT_EQ(values[i], a + 1000 * b + 1000000 * c + (base == 0 ? 1 : 0) + 2 + d) << schedule << ' ' << i;
    }
  }
}

TEST_F(MetalHeader, SubnormalsAreFlushedAsOnAppleUnlessKept) {
  const std::string tiny = "as_type<float>(as_type<uint>(float(i)) | 1u)";  // 2^-149, unknown to the compiler
  {
    const Setting flush("LOCKSTEP_METAL_SUBNORMALS", "flush");
    EXPECT_EQ(word(tiny + " > 0.0f ? 1u : 0u"), 0u);
    EXPECT_EQ(bits(tiny + " * 2.0f"), 0u);
    EXPECT_EQ(bits(tiny), 1u);  // loads, stores and casts keep the bits
    EXPECT_EQ(word("as_type<ushort>(half(as_type<half>(ushort(i + 1)) + as_type<half>(ushort(i + 1))))"), 2u);
  }
  const Setting keep("LOCKSTEP_METAL_SUBNORMALS", "keep");
  EXPECT_EQ(word(tiny + " > 0.0f ? 1u : 0u"), 1u);
  EXPECT_EQ(bits(tiny + " * 2.0f"), 2u);
}

TEST_F(MetalHeader, WhatMetalLacksDoesNotCompile) {
  for (const char* body :
       {"double x = 1.0; out[i] = x;", "long long x = 1; out[i] = x;", "out[i] = exp(1.0f);",
        "out[i] = std::max(1, 2);", "out[i] = __builtin_fmaf(1.0f, 1.0f, 1.0f);", "out[i] = fma(1, 2, 3);",
        "out[i] = sqrt(2);", "goto end; end:;", "out[i] = min(1, 2u);", "atomic_float x;", "out[i] = new float;"}) {
    EXPECT_NE(error_of(body).find("program_source:"), std::string::npos) << body;
  }
}

TEST_F(MetalHeader, ErrorsNameTheLine) {
  EXPECT_NE(error_of("out[i] = 1.0f;\nout[i] = nothing;").find("program_source:6:"), std::string::npos)
      << error_of("out[i] = 1.0f;\nout[i] = nothing;");
}

TEST_F(MetalHeader, NumbersOfThreadsInThreeDimensions) {
  const Owned memory = metal_.buffer(4 * 3 * 5 * 2 * 4);
  const Owned pipeline = metal_.pipeline(
      "kernel void k(device uint* out [[buffer(0)]], uint3 at [[thread_position_in_grid]],\n"
      "              uint3 size [[threads_per_grid]], ushort3 group [[threadgroup_position_in_grid]],\n"
      "              uint2 in [[thread_position_in_threadgroup]], uint2 own [[threads_per_threadgroup]],\n"
      "              uint3 groups [[threadgroups_per_grid]]) {\n"
      "  out[(at.z * size.y + at.y) * size.x + at.x] = group.x + 10u * group.y + 100u * group.z + 1000u * in.x + "
      "10000u * in.y\n"
      "      + 100000u * own.x + 1000000u * own.y + 10000000u * groups.x;\n}\n");
  const Pool pool;
  const id commands = send(metal_.queue(), "commandBuffer"), encoder = send(commands, "computeCommandEncoder");
  send<void>(encoder, "setComputePipelineState:", id(pipeline));
  send<void>(encoder, "setBuffer:offset:atIndex:", id(memory), 0ul, 0ul);
  send<void>(encoder, "dispatchThreads:threadsPerThreadgroup:", Size{3, 5, 2}, Size{2, 2, 1});
  send<void>(encoder, "endEncoding");
  send<void>(commands, "commit");
  send<void>(commands, "waitUntilCompleted");
  EXPECT_EQ(send<unsigned long>(commands, "status"), 4ul);
  for (std::uint32_t z = 0; z < 2; ++z) {
    for (std::uint32_t y = 0; y < 5; ++y) {
      for (std::uint32_t x = 0; x < 3; ++x) {
        const std::uint32_t own_x = x < 2 ? 2 : 1, own_y = y < 4 ? 2 : 1;
        EXPECT_EQ(contents<std::uint32_t>(memory)[(z * 5 + y) * 3 + x],
                  x / 2 + 10 * (y / 2) + 100 * z + 1000 * (x % 2) + 10000 * (y % 2) + 100000 * own_x + 1000000 * own_y +
                      10000000 * 2);
      }
    }
  }
}

}  // namespace
}  // namespace emulator_test

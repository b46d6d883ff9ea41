// Mistakes in kernels that a Mac often forgives, and that the emulator reports: each is planted here, and caught.
#include <bit>
#include <cstring>
#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "metal_emulator/metal_client.h"

namespace emulator_test {
namespace {

using testing::HasSubstr;

class KernelMistakes : public testing::Test {
 protected:
  /// Runs kernel k with one threadgroup of 64 and 64 floats.
  std::string run(const std::string& text) {
    const Owned memory = metal_.buffer(64 * 4);
    return metal_.run(text, {memory}, 1, 64);
  }
  std::string compile_error(const std::string& text) {
    std::string error;
    const Owned library = metal_.library(text, &error);
    EXPECT_EQ(library == nullptr, !error.empty());
    return error;
  }
  /// The results of 64 threads under a schedule.
  std::vector<float> under(const char* schedule, const std::string& body) {
    const Setting order("LOCKSTEP_METAL_SCHEDULE", schedule);
    return metal_.values<float>(kernel_filling("float", body), 64);
  }
  Metal metal_;
};

std::string reversal(const char* barrier) {
  return std::string("threadgroup float s[64];\ns[i] = float(i);\n") + barrier + "\nout[i] = s[63u - i];";
}

TEST_F(KernelMistakes, AMissingBarrierGivesOtherBitsUnderOtherSchedules) {
  const std::string good = reversal("threadgroup_barrier(mem_flags::mem_threadgroup);"),
                    bad = reversal("simd_any(true);");
  const std::vector<float> expected = under("ascending", good);
  for (int i = 0; i < 64; ++i) EXPECT_EQ(expected[static_cast<std::size_t>(i)], static_cast<float>(63 - i));
  for (const char* schedule : {"descending", "1"}) {
    EXPECT_EQ(under(schedule, good), expected) << schedule;
    // Comparing bytes: poison is NaN.
    const std::vector<float> a = under("ascending", bad), b = under(schedule, bad);
    EXPECT_NE(std::memcmp(a.data(), b.data(), 64 * sizeof(float)), 0) << schedule;
  }
}

TEST_F(KernelMistakes, RacesOfKernelsWithoutBarriersShowToo) {
  const std::string text =
      "kernel void k(device uint* out [[buffer(0)]], uint i [[thread_position_in_grid]]) { out[0] = i; }\n";
  const auto last = [&](const char* schedule) {
    const Setting order("LOCKSTEP_METAL_SCHEDULE", schedule), one("LOCKSTEP_METAL_WORKERS", "1");
    const Owned memory = metal_.buffer(4);
    EXPECT_EQ(metal_.run(text, {memory}, 4, 64), "");
    return contents<std::uint32_t>(memory)[0];
  };
  EXPECT_EQ(last("ascending"), 255u);
  EXPECT_EQ(last("descending"), 0u);
  EXPECT_NE(last("3"), last("4"));
}

TEST_F(KernelMistakes, AThreadThatReturnsBeforeABarrier) {
  const std::string error = run(kernel_filling("float",
                                               "threadgroup float s[64];\nif (i >= 60u) return;\ns[i] = 1.0f;\n"
                                               "threadgroup_barrier(mem_flags::mem_threadgroup);\nout[i] = s[i];"));
  EXPECT_THAT(error, HasSubstr("thread 0 in line 8 waits, but 4 of 64 threads have returned"));
}

TEST_F(KernelMistakes, ThreadsThatWaitAtDifferentBarriers) {
  const std::string error =
      run(kernel_filling("float",
                         "if (i < 32u) {\n  threadgroup_barrier(mem_flags::mem_threadgroup);\n  out[i] = 1.0f;\n"
                         "} else {\n  threadgroup_barrier(mem_flags::mem_threadgroup);\n  out[i] = 2.0f;\n}"));
  EXPECT_THAT(error, HasSubstr("divergent threadgroup_barrier: thread 0 in line 6 and thread 32 in line 9"));
}

TEST_F(KernelMistakes, DivergenceInsideASimdgroup) {
  EXPECT_THAT(run(kernel_filling("float",
                                 "float x = 1.0f;\nif (i < 8u) x = simd_shuffle_xor(x, ushort(1));\n"
                                 "else x = simd_shuffle_xor(x, ushort(2));\nout[i] = x;")),
              HasSubstr("divergent simdgroup function"));
  EXPECT_THAT(run(kernel_filling("float",
                                 "if (i < 8u) simdgroup_barrier(mem_flags::mem_threadgroup);\n"
                                 "else threadgroup_barrier(mem_flags::mem_threadgroup);\nout[i] = 1.0f;")),
              HasSubstr("divergent simdgroup function"));
  EXPECT_THAT(run(kernel_filling(
                  "float", "if (i == 3u) return;\nsimdgroup_barrier(mem_flags::mem_threadgroup);\nout[i] = 1.0f;")),
              HasSubstr("other threads of its simdgroup have returned"));
}

TEST_F(KernelMistakes, ABarrierInALoopOfDifferentLengths) {
  EXPECT_THAT(run(kernel_filling("float",
                                 "for (uint j = 0; j <= i / 32u; ++j) threadgroup_barrier(mem_flags::mem_none);\n"
                                 "out[i] = 1.0f;")),
              HasSubstr("32 of 64 threads have returned"));
}

TEST_F(KernelMistakes, ThreadgroupMemoryThatNobodyWroteIsNan) {
  const std::vector<float> values =
      under("ascending",
            "threadgroup float s[64];\nif (i < 10u) s[i] = 1.0f;\nthreadgroup_barrier(mem_flags::mem_threadgroup);\n"
            "out[i] = s[i];");
  EXPECT_EQ(values[9], 1.0f);
  EXPECT_NE(values[10], values[10]);
}

TEST_F(KernelMistakes, WritingPastAThreadgroupVariable) {
  EXPECT_THAT(run(kernel_filling("float",
                                 "threadgroup float first[64];\nthreadgroup float second[64];\n"
                                 "first[i + 1u] = 1.0f; second[i] = 2.0f;\n"
                                 "threadgroup_barrier(mem_flags::mem_threadgroup);\nout[i] = first[i] + second[i];")),
              HasSubstr("kernel 'k' writes past first"));
}

TEST_F(KernelMistakes, WritingPastABuffer) {
  const std::string text = kernel_filling("float", "out[i + 64u * 1024u] = 1.0f;");
  EXPECT_DEATH(run(text), "kernel 'k' touches byte [0-9]* of buffer #[0-9]*, which has 256 bytes");
  EXPECT_DEATH(run(kernel_filling("float", "out[i] = out[i + 1u];")), "kernel 'k' touches byte 256 of buffer");
  EXPECT_DEATH(run(kernel_filling("float", "out[int(i) - 100000] = 1.0f;")),
               "kernel 'k' touches byte -[0-9]* of buffer");
  // Between the end and the next multiple of 16 there is no page to guard it.
  const Owned memory = metal_.buffer(12);
  EXPECT_THAT(metal_.run(kernel_filling("float", "out[i] = 1.0f;"), {memory}, 1, 4),
              HasSubstr("kernel 'k' wrote past the end of buffer"));
  contents<float>(memory)[3] = std::bit_cast<float>(0xffffffffu);  // or its release would say so again
}

TEST_F(KernelMistakes, MoreThreadgroupMemoryThanThereIs) {
  EXPECT_THROW(metal_.pipeline(kernel_filling("float", "threadgroup float s[8193];\ns[i] = 1.0f;\nout[i] = s[i];")),
               std::runtime_error);
  EXPECT_NO_THROW(metal_.pipeline(kernel_filling("float", "threadgroup float s[8192];\ns[i] = 1.0f;\nout[i] = s[i];")));
}

TEST_F(KernelMistakes, Doubles) {
  EXPECT_THAT(compile_error(kernel_filling("float", "double x = out[i];\nout[i] = float(x);")),
              HasSubstr("'double' is not supported in Metal"));
  EXPECT_THAT(compile_error("#define REAL double\n" + kernel_filling("float", "REAL x = out[i];")),
              HasSubstr("'REAL' is not supported in Metal"));
}

TEST_F(KernelMistakes, WrongAddressSpaces) {
  const Setting check("LOCKSTEP_METAL_ADDRESS_SPACES", "check");
  const std::string helper = "static inline float first(thread float* p) { return p[0]; }\n";
  for (const char* body : {"float* p = out;", "threadgroup float s[4];\ndevice float* p = s;", "out[i] = first(out);",
                           "threadgroup float s[4];\nout[i] = first(s);", "constant float* p = out;"}) {
    EXPECT_THAT(compile_error(helper + kernel_filling("float", body)), HasSubstr("program_source:")) << body;
  }
  EXPECT_THAT(compile_error("kernel void k(constant uint& n [[buffer(0)]]) { n = 1u; }"),
              HasSubstr("program_source:4"));
  EXPECT_EQ(compile_error(
                helper + "constant float table[2] = {1.0f, 2.0f};\n" +
                kernel_filling("float",
                               "threadgroup float s[64];\nthreadgroup float* p = s;\nfloat own[2] = {out[i], 2.0f};\n"
                               "p[i] = first(own) + table[i & 1u];\nout[i] = p[i];")),
            "");
}

TEST_F(KernelMistakes, AddressSpacesThatWouldConvertInCppRunUnchecked) {
  const Setting check("LOCKSTEP_METAL_ADDRESS_SPACES", "ignore");
  EXPECT_EQ(compile_error(kernel_filling("float", "float* p = out; p[i] = 1.0f;")), "");
}

TEST_F(KernelMistakes, BindingsThatDoNotFit) {
  EXPECT_THAT(compile_error("kernel void k(device float* a) { a[0] = 1.0f; }"), HasSubstr("needs an attribute"));
  EXPECT_THAT(compile_error("kernel void k(device float* a [[buffer(31)]]) { a[0] = 1.0f; }"),
              HasSubstr("must be between 0 and 30"));
  EXPECT_THAT(
      compile_error("kernel void k(device float* a [[buffer(1)]], device float* b [[buffer(1)]]) { a[0] = b[0]; }"),
      HasSubstr("index 1 is used twice"));
  EXPECT_THAT(compile_error("kernel void k(float* a [[buffer(1)]]) { a[0] = 1.0f; }"),
              HasSubstr("wrong address space"));
  EXPECT_THAT(compile_error("kernel void k(uint i [[thread_number]]) {}"), HasSubstr("'thread_number' is not known"));
  EXPECT_THAT(compile_error("kernel void k(uint4 i [[thread_position_in_grid]]) {}"), HasSubstr("error"));
}

TEST_F(KernelMistakes, ThreadgroupVariablesWhereMetalHasNone) {
  EXPECT_THAT(compile_error(kernel_filling("float", "if (i == 0u) {\n  threadgroup float s[4];\n  s[0] = 1.0f;\n}")),
              HasSubstr("program_source:6: error: a threadgroup variable can only be declared in the outermost scope"));
  EXPECT_THAT(compile_error("static inline float f() { threadgroup float s[4]; return s[0]; }\n"),
              HasSubstr("outermost scope of a kernel"));
  EXPECT_THAT(compile_error(kernel_filling("float", "threadgroup float s = 1.0f;")), HasSubstr("without a value"));
}

TEST_F(KernelMistakes, AProductAndASumAreFusedUnlessThePragmaForbidsIt) {
  const std::string body =
      "float x = as_type<float>(0x3f800001u + i);\nout[i] = x * x - as_type<float>(0x3f800002u + i);";
  EXPECT_EQ(metal_.values<float>(kernel_filling("float", body), 1)[0], 0.0f);
  const Pool pool;
  const Owned options(send(class_named("MTLCompileOptions"), "new"));
  send<void>(options, "setFastMathEnabled:", false);
  send<void>(options, "setLanguageVersion:", 3ul << 16);
  const std::string text = "#include <metal_stdlib>\nusing namespace metal;\n" + kernel_filling("float", body);
  id failure = nullptr;
  const Owned library(
      send(metal_.device(), "newLibraryWithSource:options:error:", string(text.c_str()), id(options), &failure));
  ASSERT_EQ(failure, nullptr);
  const Owned function(send(library, "newFunctionWithName:", string("k")));
  const Owned pipeline(send(metal_.device(), "newComputePipelineStateWithFunction:error:", id(function), &failure));
  const Owned memory = metal_.buffer(4);
  const id commands = send(metal_.queue(), "commandBuffer"), encoder = send(commands, "computeCommandEncoder");
  send<void>(encoder, "setComputePipelineState:", id(pipeline));
  send<void>(encoder, "setBuffer:offset:atIndex:", id(memory), 0ul, 0ul);
  send<void>(encoder, "dispatchThreads:threadsPerThreadgroup:", Size{1, 1, 1}, Size{1, 1, 1});
  send<void>(encoder, "endEncoding");
  send<void>(commands, "commit");
  send<void>(commands, "waitUntilCompleted");
  EXPECT_NE(contents<float>(memory)[0], 0.0f);
}

}  // namespace
}  // namespace emulator_test

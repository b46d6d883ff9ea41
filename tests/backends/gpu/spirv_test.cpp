// What is added to the SPIR-V of kernels, so that devices compute as the text says.
#include "backends/gpu/vulkan/spirv.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>

#include "backends/gpu/vulkan/shaderc.h"

namespace lockstep::gpu {
namespace {

// Conversions to halves round as their own type does, though the module has no type of 16 bits.
TEST(Spirv, PackedHalvesRoundToTheNearest) {
  if (!shaderc().is_usable()) GTEST_SKIP() << shaderc().problem();
  const auto rounds_16 = [](const std::string& expression) {
    const std::string text =
        "#version 460\nlayout(local_size_x = 1) in;\nlayout(binding = 0) buffer Out { uint word; float value; };\n"
        "void main() { word = " +
        expression + "; }\n";
    const std::vector<std::uint32_t> words =
        with_exact_arithmetic(shaderc().compile(text), {.nearest_16 = true, .nearest_32 = true});
    constexpr std::array<std::uint32_t, 2> kNearest16 = {4462, 16};  // OpExecutionMode ... RoundingModeRTE 16
    return std::search(words.begin(), words.end(), kNearest16.begin(), kNearest16.end()) != words.end();
  };
  EXPECT_TRUE(rounds_16("packHalf2x16(vec2(value, 0.0))"));
  EXPECT_TRUE(rounds_16("floatBitsToUint(unpackHalf2x16(word).x)"));
  EXPECT_FALSE(rounds_16("floatBitsToUint(value + 1.0)"));
}

}  // namespace
}  // namespace lockstep::gpu

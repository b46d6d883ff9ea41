// The start-up probe on devices that flush subnormals: what it chooses gives exact results there. Runs where Vulkan has
// a device; that it flushes is written into the text of the kernels.
#include <gtest/gtest.h>

#include <regex>
#include <string>

#include <lockstep/error.h>

#include "backends/gpu/driver.h"
#include "backends/gpu/kernel_cache.h"
#include "backends/gpu/memory.h"
#include "backends/gpu/probe.h"
#include "backends/gpu/replay.h"

namespace lockstep {
namespace {

using namespace gpu;

/// Computes as NVIDIA's Vulkan: f32 is flushed in sums, products, fma and conversions from and to f64.
class FlushingDriver : public ReplayingDriver {
 public:
  using ReplayingDriver::ReplayingDriver;

  std::string source(const KernelText& kernel, const Arithmetic& arithmetic) const override {
    std::string text = ReplayingDriver::source(kernel, arithmetic);
    const auto replace = [&](const char* from, const char* to) {
      text = std::regex_replace(text, std::regex(from), to);
    };
    replace(R"(\bdouble\(([abcxyz])\))", "double(flushed($1))");
    replace(R"(\bfloat\((x|packDouble2x32\(bits\))\))", "flushed(float($1))");
    replace(R"(\b([abxy]) ([+*]) ([abxy])\b)", "flushed(flushed($1) $2 flushed($3))");
    replace(R"(\b(FMA(_EXACT)?\(x, y, z\)) fma\(x, y, z\))", "$1 flushing_fma(x, y, z)");
    const std::string functions = R"(float flushed(float x) {
  uint bits = floatBitsToUint(x);
  return (bits & 0x7f800000u) == 0u ? uintBitsToFloat(bits & 0x80000000u) : x;
}
float flushing_fma(float x, float y, float z) {
  double product = double(flushed(x)) * double(flushed(y));
  double addend = double(flushed(z));
  double sum = product + addend;
  double b = sum - product;
  double error = (product - (sum - b)) + (addend - b);
  uvec2 bits = unpackDouble2x32(sum);
  uvec2 low = unpackDouble2x32(error);
  if (((low.y << 1) | low.x) != 0u && (bits.x & 1u) == 0u && (bits.y & 0x7ff00000u) != 0x7ff00000u) {
    bool down = ((bits.y ^ low.y) & 0x80000000u) != 0u;
    bits.y = down && bits.x == 0u ? bits.y - 1u : bits.y;
    bits.x = down ? bits.x - 1u : bits.x + 1u;
  }
  return flushed(float(packDouble2x32(bits)));
}
)";
    const std::size_t first_function = text.find("uint mul_high(");
    EXPECT_NE(first_function, std::string::npos);
    return text.insert(first_function, functions);
  }
};

TEST(Probe, ChoosesWhatIsExactWhereSubnormalsAreFlushed) {
  if (find_vulkan().devices.empty()) GTEST_SKIP() << find_vulkan().reason;
  FlushingDriver driver(open_vulkan(0));
  if (!driver.info().doubles) GTEST_SKIP() << "without doubles there is nothing to convert";
  Memory memory(driver);
  KernelCache kernels(driver, "");
  const Arithmetic arithmetic = probe(driver, memory, kernels);  // throws if what it chooses is not exact
  EXPECT_TRUE(arithmetic.fused_fma);
  EXPECT_FALSE(arithmetic.fma_keeps_subnormals);
  EXPECT_FALSE(arithmetic.sums_keep_subnormals);
  EXPECT_FALSE(arithmetic.widening_keeps_subnormals);
  EXPECT_FALSE(arithmetic.narrowing_keeps_subnormals);
}

}  // namespace
}  // namespace lockstep

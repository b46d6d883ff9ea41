// The start-up probe on devices that flush subnormals: what it chooses gives exact results there. Runs where Vulkan has
// a device; that it flushes is written into the text of the kernels.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/error.h>
#include <lockstep/ops.h>
#include <lockstep/random.h>

#include "backends/backend.h"
#include "backends/gpu/backend.h"
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

/// With another text in place of one of GLSL.
class ChangedDriver : public ReplayingDriver {
 public:
  ChangedDriver(std::unique_ptr<Driver> driver, std::string from, std::string to)
      : ReplayingDriver(std::move(driver)), from_(std::move(from)), to_(std::move(to)) {}
  std::string source(const KernelText& kernel, const Arithmetic& arithmetic) const override {
    std::string text = ReplayingDriver::source(kernel, arithmetic);
    const std::size_t at = from_.empty() ? std::string::npos : text.find(from_);
    return at == std::string::npos ? text : text.replace(at, from_.size(), to_);
  }

 private:
  std::string from_, to_;
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

TEST(Probe, TakesQuickFormsOnlyWhereTheyAreRight) {
  if (find_vulkan().devices.empty()) GTEST_SKIP() << find_vulkan().reason;
  // As it is; with a sign lost; with another NaN; with halves to the larger number.
  const auto found = [](const char* from, const char* to) {
    ChangedDriver driver(open_vulkan(0), from, to);
    Memory memory(driver);
    KernelCache kernels(driver, "");
    return probe(driver, memory, kernels);
  };
  EXPECT_TRUE(found("", "").quick_floats);
  EXPECT_FALSE(
      found("return x * flush_factor(x, least);", "return abs(x) > uintBitsToFloat(least) ? x : 0.0;").quick_floats);
  EXPECT_FALSE(
      found("result == result ? result : uintBitsToFloat(0x7fc00000u);\n}\nfloat nearest", "result;\n}\nfloat nearest")
          .quick_floats);
  EXPECT_FALSE(found("y > x || y != y ? y : x", "y > x ? y : x").quick_floats);
  EXPECT_FALSE(found("word = (word + 0x7fffu + ((word >> 16) & 1u))", "word = (word + 0x8000u)").quick_floats);
  EXPECT_TRUE(found("", "").near_estimates);
  EXPECT_FALSE(found("return inversesqrt(x * x);", "return inversesqrt(x * x) * 1.001;").near_estimates);
  EXPECT_FALSE(found("near_gelu_to_bf16(x, MAGNITUDE(x))", "GELU_TO_BF16(x)").near_estimates) << "takes infinity";
  // Without the language's conversions of f16 there are sums.
  const Arithmetic halves = found("vec2(x, 0.0)", "vec2(uintBitsToFloat(floatBitsToUint(x) & ~0x1fffu), 0.0)");
  EXPECT_TRUE(halves.quick_floats);
  EXPECT_FALSE(halves.quick_halves);
  EXPECT_TRUE(halves.float_halves);
  // A rounding that is left out, as compilers do, and one of what is rounded already.
  EXPECT_TRUE(found("", "").quick_halves);
  EXPECT_FALSE(
      found("#define ANY_ROUND_F16(x) FIRST_HALF(opaque_half(x))", "#define ANY_ROUND_F16(x) (x)").quick_halves);
  EXPECT_FALSE(found("words & ~nan", "words").quick_halves);
  EXPECT_TRUE(found("", "").hasty_bf16);
  EXPECT_FALSE(found("float far = x * 65536.0;", "float far = x * 32768.0;").hasty_bf16);
  EXPECT_FALSE(found("return far - (far - x);", "return far + (x - far);").hasty_bf16) << "loses the sign of zeros";
  EXPECT_FALSE(found("return far - (far - x);", "return nearest_value(x);").hasty_bf16) << "takes what is too large";
  EXPECT_FALSE(found("fma(x, -65535.0, 0.0)", "fma(x, -65534.0, 0.0)").hasty_bf16);
  EXPECT_FALSE(found("fma(x, 65536.0, fma(x, -65535.0, 0.0))", "nearest_value(x)").hasty_bf16);
  EXPECT_FALSE(found("abs(x) < uintBitsToFloat(0x7f800000u) ?", "true ?").hasty_bf16) << "takes infinity";
}

// Numbers from 2^112 on, infinities and NaN, in single elements of groups that are rounded in haste; zeros' signs.
TEST(Probe, RoundingsInHasteAreTheReferences) {
  if (find_vulkan().devices.empty()) GTEST_SKIP() << find_vulkan().reason;
  const Device device{DeviceKind::vulkan, 923};
  auto backend = std::make_unique<GpuBackend>(device, open_vulkan(0), "");
  ASSERT_TRUE(backend->arithmetic().hasty_bf16);
  register_backend(std::move(backend));
  const Device without_estimates{DeviceKind::vulkan, 924};
  auto driver = std::make_unique<ChangedDriver>(open_vulkan(0), "return inversesqrt(x * x);", "return 0.0;");
  auto other = std::make_unique<GpuBackend>(without_estimates, std::move(driver), "");
  ASSERT_TRUE(other->arithmetic().hasty_bf16 && !other->arithmetic().near_estimates);
  register_backend(std::move(other));
  const auto computed = [](Device where) {
    constexpr std::int64_t kRows = 64, kColumns = 1024;
    std::vector<std::int16_t> words(kRows * kColumns);
    // Ordinary numbers, and in some rows a word of all 65,536 here and there; some rows are zeros, some small.
    for (std::size_t i = 0; i < words.size(); ++i) {
      const std::size_t row = i / kColumns;
      const std::size_t ordinary = 0x3f00 + (i * 37 % 256) + (i % 3 == 0 ? 0x8000 : 0);
      const bool any = row % 2 == 1 && i % (row + 2) == 0;
      const std::size_t small = (i * 40503 >> 3) & (row % 8 == 3 ? 0x92ff : 0x81ff);
      const bool is_small = row == 12 || row == 20 || row == 43 || row == 51;
      words[i] = static_cast<std::int16_t>(is_small ? small : row % 16 == 4 ? 0x8000 : any ? i * 40503 : ordinary);
    }
    const Tensor x = Tensor::from(words, {kRows, kColumns}, where).bitcast(DType::bf16);
    const std::vector<std::int16_t> first(words.begin(), words.begin() + kColumns);
    const Tensor b = Tensor::from(first, {kColumns}, where).bitcast(DType::bf16);
    const std::vector<std::int16_t> tiny(words.begin() + 12 * kColumns, words.begin() + 13 * kColumns);
    const Tensor t = Tensor::from(tiny, {kColumns}, where).bitcast(DType::bf16);
    const Tensor r = fliplr(flipud(x));
    const Tensor chain = gelu(x + b) + r;
    return std::vector{(gelu(x + b) * r).hash(),
                       chain.hash(),
                       layer_norm(chain, {kColumns}, b, b).hash(),
                       layer_norm(gelu(x + t) + r, {kColumns}, b, t).hash(),
                       layer_norm(gelu(x) + r, {kColumns}, t, t).hash(),
                       sum(gelu(x + t) + r, {1}).hash(),
                       (gelu(x * r + t) + t).hash(),
                       softmax(x, -1).hash(),
                       softmax(x.reshape({kRows * 16, 64}), -1).hash(),
                       ((x * 3.0 + r) * r + b).hash()};
  };
  const std::vector<std::uint64_t> expected = computed(Device::parse("ref"));
  EXPECT_EQ(computed(device), expected);
  EXPECT_EQ(computed(without_estimates), expected);
}

/// Compares what computes with every half on `device` with the reference.
void expect_halves_of_reference(Device device) {
  const auto computed = [](Device where) {
    std::vector<std::int16_t> words(65536);
    for (std::size_t i = 0; i < words.size(); ++i) words[i] = static_cast<std::int16_t>(i);
    const Tensor halves = Tensor::from(words, {65536}, where).bitcast(DType::f16);
    // Every half, products that round, and what lies between two halves, at the borders too.
    const Tensor wide = halves.to(DType::f32);
    const std::vector<float> factors{0.99951172F, 0.99975586F, 1.00024414F, 1.00048828F, 1.00073242F};
    const Tensor steps = Tensor::from(factors, {5, 1}, where);
    return std::vector{wide.hash(), (halves * 1.37).hash(), (halves + 0.3).hash(), (wide * steps).to(DType::f16).hash(),
                       softmax(halves.reshape({256, 256}), -1).hash()};
  };
  EXPECT_EQ(computed(device), computed(Device::parse("ref")));
}

TEST(Probe, HalvesBySumsAreTheReferences) {
  if (find_vulkan().devices.empty()) GTEST_SKIP() << find_vulkan().reason;
  const Device device{DeviceKind::vulkan, 921};
  auto driver = std::make_unique<ChangedDriver>(open_vulkan(0), "vec2(x, 0.0)", "vec2(x * 1.5, 0.0)");
  auto backend = std::make_unique<GpuBackend>(device, std::move(driver), "");
  ASSERT_TRUE(backend->arithmetic().float_halves);
  register_backend(std::move(backend));
  expect_halves_of_reference(device);
}

TEST(Probe, HalvesByTheirTypeAreTheReferences) {
  if (find_vulkan().devices.empty()) GTEST_SKIP() << find_vulkan().reason;
  auto driver =
      std::make_unique<ChangedDriver>(open_vulkan(0), "packHalf2x16(floats2)", "(packHalf2x16(floats2) ^ 1u)");
  if (!driver->info().has_halves) GTEST_SKIP() << "the device has no type of 16 bits";
  const Device device{DeviceKind::vulkan, 922};
  auto backend = std::make_unique<GpuBackend>(device, std::move(driver), "");
  ASSERT_FALSE(backend->arithmetic().quick_halves);
  if (!backend->arithmetic().native_halves) GTEST_SKIP() << "the device's conversions to it are not right";
  register_backend(std::move(backend));
  expect_halves_of_reference(device);
}

// Multiplications keep subnormals where elements are small: in blocks of k, in one operand or both, in sums that
// cancel.
TEST(Probe, ProductsOfSmallElementsAreExactWhereSubnormalsAreFlushed) {
  if (find_vulkan().devices.empty()) GTEST_SKIP() << find_vulkan().reason;
  auto driver = std::make_unique<FlushingDriver>(open_vulkan(0));
  if (!driver->info().doubles) GTEST_SKIP() << "without doubles there is nothing to convert";
  const Device device{DeviceKind::vulkan, 920};
  register_backend(std::make_unique<GpuBackend>(device, std::move(driver), ""));
  constexpr std::int64_t kRows = 40, kColumns = 36, kLength = 1100;  // five blocks, the last one not whole
  // By block: the smallest exponents of both operands; most elements are near 1.
  constexpr int kLeast[5][2] = {{-20, -50}, {-60, -50}, {-20, -20}, {-126, -10}, {-38, -40}};
  Generator generator(5);
  const auto elements = [&](std::int64_t lines, int operand) {
    std::vector<float> values = randn({lines, kLength}, {}, &generator).to_vector<float>();
    for (std::int64_t i = 0; i < lines; ++i) {
      for (std::int64_t k = 0; k < kLength; k += 1 + i % 3) {
        float& value = values[static_cast<std::size_t>(i * kLength + k)];
        if (i % 4 == 1 || k % 16 == 3) value = std::ldexp(value, kLeast[k / 256][operand]);
      }
    }
    return Tensor::from(values, {lines, kLength});
  };
  const Tensor a = elements(kRows, 0);
  const Tensor b = elements(kColumns, 1);
  const Tensor expected = matmul(a.to(Device::parse("ref")), b.to(Device::parse("ref")).transpose(0, 1));
  EXPECT_EQ(matmul(a.to(device), b.to(device).transpose(0, 1)).hash(), expected.hash());
  // Of small elements alone.
  const Tensor small = (a * 0x1p-70).eval();
  const Tensor all_small = matmul(small.to(Device::parse("ref")), b.to(Device::parse("ref")).transpose(0, 1));
  EXPECT_EQ(matmul(small.to(device), b.to(device).transpose(0, 1)).hash(), all_small.hash());
}

}  // namespace
}  // namespace lockstep

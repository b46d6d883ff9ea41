// The CUDA texts that ops turn into are accepted by NVRTC for several generations of GPUs, where NVRTC is installed: no
// GPU is needed. A sample of every kind of kernel here; every text of `lockstep check --full` in `make soak`.
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/lockstep.h>

#include "backends/backend.h"
#include "backends/gpu/backend.h"
#include "backends/gpu/cuda/nvrtc.h"
#include "backends/gpu/dialect.h"
#include "cli/check/check.h"
#include "support/fake_driver.h"
#include "support/tensors.h"

namespace lockstep {
namespace {

// A GPU that compiles for several, or, with pairs of bf16, for those that have them, has libraries, and runs nothing.
class CompilingDriver : public test::FakeDriver {
 public:
  explicit CompilingDriver(bool pairs = false) : FakeDriver(std::make_shared<test::FakeDevice>()) {
    info_.bf16_pairs = pairs;
    info_.shared_bytes = 160 << 10;
    info_.copies_to_shared = true;
    info_.byte_products = true;
  }
  static std::atomic<int> texts;
  static inline std::vector<std::string> architectures = {"sm_80", "sm_90", "sm_120"};

  std::string source(const gpu::KernelText& kernel, const gpu::Arithmetic&) const override {
    return gpu::cuda_source(kernel);
  }
  std::vector<std::byte> compile(const std::string& source) const override {
    for (const std::string& architecture : architectures) {
      if (info_.bf16_pairs && architecture == "sm_80") continue;
      if (gpu::nvrtc().compile(source, architecture).empty()) throw BackendError("NVRTC gave nothing");
    }
    ++texts;
    return std::vector<std::byte>(1);
  }
  std::string missing_for_products() const override { return ""; }
  std::unique_ptr<gpu::Module> load_call(const gpu::LibraryCall&) override { return load({}, {}); }
  std::unique_ptr<gpu::Module> load(std::span<const std::byte>, const gpu::KernelText& kernel) override {
    const std::string text = kernel.functions + kernel.body;
    return FakeDriver::load(std::as_bytes(std::span(text)), kernel);
  }
};
std::atomic<int> CompilingDriver::texts = 0;

class CudaTexts : public ::testing::Test {
 protected:
  static constexpr Device kDevice{DeviceKind::cuda, 950}, kPairs{DeviceKind::cuda, 951};
  void SetUp() override {
    if (!gpu::nvrtc().is_usable()) GTEST_SKIP() << gpu::nvrtc().problem();
    static const bool once = [] {
      register_backend(std::make_unique<gpu::GpuBackend>(kDevice, std::make_unique<CompilingDriver>(), ""));
      register_backend(std::make_unique<gpu::GpuBackend>(kPairs, std::make_unique<CompilingDriver>(true), ""));
      return true;
    }();
    (void)once;
  }
};

TEST_F(CudaTexts, OfRowsOfPairsCompile) {
  const auto bf16 = [](const Shape& shape) { return zeros(shape, {.dtype = DType::bf16, .device = kPairs}).eval(); };
  for (const std::int64_t n : {1024, 1568, 4096}) {
    const Tensor x = bf16({8, n}), y = bf16({8, n}), w = bf16({n});
    const int before = CompilingDriver::texts;
    EXPECT_NO_THROW(softmax(x, -1).eval());
    EXPECT_NO_THROW(layer_norm(gelu(x + w) + y, {n}, w, w).eval());
    // Roundings in every phase, of what is held and of what is loaded again.
    const Tensor means = mean(x + y, {1}, true);
    const Tensor d = (x + y) - means;
    EXPECT_NO_THROW((sum(where(d + x > 0.0, y, 0.0), {1}, true) + sum((d + y) * x, {1}, true)).eval());
    EXPECT_NO_THROW((d * rsqrt(mean(d * d, {1}, true) + 1e-5) + x + amin(x, {1}, true)).eval());
    EXPECT_GE(CompilingDriver::texts - before, 4);
  }
}

TEST_F(CudaTexts, OfEveryKindOfKernelCompile) {
  const TensorOptions options{.device = kDevice};
  const Tensor x = zeros({5, 300}, options).eval();
  const Tensor index = zeros({5, 300}, {.dtype = DType::i64, .device = kDevice}).eval();
  const Tensor packed = random_packed({70, 64}, Encoding::q8_0, 1, kDevice);
  const int before = CompilingDriver::texts;
  const std::vector<std::pair<const char*, std::function<Tensor()>>> calls = {
      {"random", [&] { return randn({64}, options); }},
      {"rows", [&] { return softmax(x, -1); }},
      {"rows that are copied to shared memory",
       [&] {
         const Tensor bytes = zeros({3, 2000}, {.dtype = DType::u8, .device = kDevice}).eval();
         const Tensor half = zeros({3, 2000}, {.dtype = DType::f16, .device = kDevice}).eval();
         const Tensor float32 = zeros({3, 2000}, options).eval();
         const Tensor other = zeros({3, 2000}, options).eval();
         return softmax(float32 * half.to(DType::f32) + bytes.to(DType::f32) + other + sum(float32), -1);
       }},
      {"columns", [&] { return sum(x, {0}); }},
      {"long rows",
       [&] {
         return layer_norm(zeros({2, 9000}, options).eval() + 1.0, {9000});
       }},
      {"gather", [&] { return gather(x, 0, index) * 2.0; }},
      {"scatter", [&] { return scatter_add(x, 1, index, x); }},
      {"scatter", [&] { return scatter_reduce(x, 0, index, x, ReduceMode::amax); }},
      {"scan", [&] { return cumsum(x, 1); }},
      {"positions of a scan", [&] { return cummax(x, 0).indices; }},
      {"sort", [&] { return argsort(x, 1); }},
      {"update",
       [&] {
         return cat({x, x}, 1);
       }},
      {"contraction", [&] { return relu(matmul(x, x.transpose(0, 1))); }},
      {"contraction of packed weights",
       [&] {
         return linear(zeros({40, 64}, options).eval(), packed);
       }},
      {"rows times floats of 8 bits, read one by one and in pieces",
       [&] {
         const Tensor floats = random_packed({70, 384}, Encoding::e4m3, 1, kDevice);
         const Tensor others = random_packed({70, 384}, Encoding::e5m2, 1, kDevice);
         return linear(zeros({40, 384}, options).eval(), floats) + linear(zeros({1, 384}, options).eval(), others) +
                linear(zeros({1, 384}, options).eval(), floats);
       }},
      {"product of a packed row", [&] { return matmul(zeros({64}, options).eval(), packed.transpose(0, 1)); }},
      {"products of codes of many rows",
       [&] {
         const NumericsScope scope(Numerics::q8);
         return linear(zeros({40, 256}, options).eval(), random_packed({70, 256}, Encoding::q2_k, 1, kDevice));
       }},
      {"the same in large tiles",
       [&] {
         const NumericsScope scope(Numerics::q8);
         return linear(zeros({600, 256}, options).eval(), random_packed({700, 256}, Encoding::q4_0, 1, kDevice));
       }},
      {"attention of a step",
       [&] {
         const Tensor keys = zeros({1, 2, 256, 64}, options).eval();
         const Tensor mask = zeros({256}, {.dtype = DType::boolean, .device = kDevice}).eval();
         return scaled_dot_product_attention(zeros({1, 2, 1, 64}, options).eval(), keys, keys, {.mask = mask});
       }},
      {"two products of codes at once",
       [&] {
         const NumericsScope scope(Numerics::q8);
         const Tensor row = zeros({1, 256}, options).eval();
         return relu(linear(row, random_packed({70, 256}, Encoding::q4_0, 1, kDevice))) *
                linear(row, random_packed({70, 256}, Encoding::q4_0, 2, kDevice));
       }},
      {"gather of packed elements", [&] { return dequantize(packed); }},
      {"convolution",
       [&] {
         return conv2d(zeros({1, 8, 20, 20}, options).eval(), zeros({8, 8, 3, 3}, options).eval());
       }},
  };
  for (const auto& [kind, call] : calls) EXPECT_NO_THROW(call().eval()) << kind;
  EXPECT_GE(CompilingDriver::texts - before, static_cast<int>(calls.size()));
}

// What fast products of 8-bit floats give to the library is made by Hopper's instructions.
TEST_F(CudaTexts, OfFloatsForTensorCores) {
  const std::vector<std::string> all = std::exchange(CompilingDriver::architectures, {"sm_90"});
  const NumericsScope scope(Numerics::fast);
  for (const Encoding encoding : {Encoding::e4m3, Encoding::e4m3_rows, Encoding::e4m3_squares}) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      const Tensor x = zeros({70, 384}, {.dtype = dtype, .device = kDevice}).eval();
      const Tensor weight = random_packed({128, 384}, encoding, 1, kDevice);
      EXPECT_NO_THROW(relu(linear(x, weight)).eval()) << name_of(encoding);
      EXPECT_NO_THROW(linear(x.narrow(0, 3, 64), weight.narrow(0, 16, 112)).eval()) << name_of(encoding);
    }
  }
  CompilingDriver::architectures = all;
}

// Hours of one core.
TEST_F(CudaTexts, DISABLED_OfTheWholeCheckCompile) {
  const std::vector<cli::Cell> cells =
      cli::check_device({.reference = kDevice, .device = kDevice, .extent = cli::Extent::full}, cli::all_check_ops());
  for (const cli::Cell& cell : cells) {
    // Values are garbage; what a call throws is not.
    EXPECT_EQ(cell.detail.find("compile"), std::string::npos) << cell.op << " " << name_of(cell.dtype) << cell.detail;
  }
  EXPECT_GT(CompilingDriver::texts, 1000);
}

}  // namespace
}  // namespace lockstep

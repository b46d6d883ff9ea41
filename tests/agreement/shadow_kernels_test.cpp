// Shadows of kernels that only one device has: products and attention in fast numerics are held to their bounds,
// attention in blocked numerics as one kernel to the bits of its composition. Both run on the CPU here, as a device
// that says it has them.
#include <bit>
#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <lockstep/lockstep.h>
#include <lockstep/shadow.h>

#include "agreement/planted_bit.h"
#include "backends/backend.h"
#include "graph/shadow_kernels.h"
#include "support/tensors.h"

namespace lockstep {
inline namespace v0 {
namespace {

const Device kShadowDevice{DeviceKind::ref, 0};
const Device kSpecial{DeviceKind::cpu, 21};

class SpecialBackend : public Backend {
 public:
  Device device() const override { return kSpecial; }
  std::string missing_for_fast() const override { return ""; }
  bool has_blocked_attention() const override { return true; }
  bool has_fast_attention() const override { return true; }
  BufferRef allocate(std::size_t bytes) override { return cpu().allocate(bytes); }
  void upload(Buffer& to, const void* from, std::size_t bytes) override { cpu().upload(to, from, bytes); }
  void download(void* to, const Buffer& from, std::size_t bytes, std::size_t offset) override {
    cpu().download(to, from, bytes, offset);
  }
  std::string description() const override { return "the CPU with more kernels"; }
  std::unique_ptr<Executable> compile(const Kernel& kernel) override {
    if (const auto* attention = std::get_if<AttentionKernel>(&kernel)) return std::make_unique<Composed>(*attention);
    const auto* product = std::get_if<ContractionKernel>(&kernel);
    if (product == nullptr || product->numerics != Numerics::fast) return cpu().compile(kernel);
    ContractionKernel exact = *product;
    exact.numerics = Numerics::exact;
    return cpu().compile(exact);
  }

 private:
  static Backend& cpu() { return backend_of({DeviceKind::cpu, 0}); }

  // Of operands that are as large as their views.
  struct Composed : Executable {
    explicit Composed(const AttentionKernel& of) : kernel(of) {}
    void run(const Binding& binding) const override {
      std::vector<graph::Bytes> operands;
      for (const Input* input : {&kernel.query, &kernel.key, &kernel.value, &kernel.upstream}) {
        if (input == &kernel.upstream && !kernel.gradients) continue;
        const std::byte* from = binding.slots[static_cast<std::size_t>(input->slot)];
        operands.emplace_back(from, from + input->view.shape.numel() * 2);
      }
      const std::uint64_t scale = binding.parameters[static_cast<std::size_t>(kernel.scale)].bits;
      const graph::Bytes made = graph::composed_attention({DeviceKind::cpu, 0}, kernel, operands,
                                                          std::bit_cast<float>(static_cast<std::uint32_t>(scale)))
                                    .results;
      std::memcpy(binding.slots[static_cast<std::size_t>(kernel.out)], made.data(), made.size());
    }
    AttentionKernel kernel;
  };
};

Device special_device() {
  static const bool registered = [] {
    register_backend(std::make_unique<SpecialBackend>());
    return true;
  }();
  static_cast<void>(registered);
  return kSpecial;
}

/// What a shadow finds of `compute`, of whose last value bit `bit` of an element is flipped; -1: of none.
Shadow::Counts found(const std::function<void()>& compute, int bit) {
  const Device device = special_device();
  std::uint64_t last = 0;
  {
    const test::PlantedBit count(device, ~std::uint64_t{0}, 0, 0);
    compute();
    last = count.values() - 1;
  }
  const test::PlantedBit plant(device, bit < 0 ? ~std::uint64_t{0} : last, 5, std::max(bit, 0));
  const Shadow shadow(kShadowDevice,
                      {.policy = ShadowPolicy::report, .cases = "", .on_difference = [](const auto&) {}});
  compute();
  return shadow.counts();
}

TEST(ShadowOfFastProducts, HoldsThemToTheirBound) {
  const Device device = special_device();
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const Tensor a = random_tensor({40, 300}, dtype, 1, device).eval();
    const Tensor b = random_tensor({300, 50}, dtype, 2, device).eval();
    const Tensor bias = random_tensor({50}, dtype, 3, device).eval();
    const std::vector<std::function<void()>> computations = {
        [&] {
          const NumericsScope scope(Numerics::fast);
          matmul(a, b).eval();
        },
        [&] {
          const NumericsScope scope(Numerics::fast);
          (gelu(matmul(a, b) + bias) * 2).eval();
        },
    };
    for (const auto& compute : computations) {
      SCOPED_TRACE(name_of(dtype));
      const Shadow::Counts right = found(compute, -1);
      EXPECT_GE(right.compared, 1u);
      EXPECT_EQ(right.different, 0u);
      EXPECT_EQ(right.passed_over, 0u);
      EXPECT_EQ(found(compute, 14).different, 1u) << "another power of two";
    }
    EXPECT_EQ(found(computations[0], 0).different, 0u) << "the last bit is within the bound";
  }
}

TEST(ShadowOfFastProducts, ConvolutionsAndTheirGradientsToo) {
  const Device device = special_device();
  const Tensor x = random_tensor({2, 8, 9, 7}, DType::bf16, 1, device).eval();
  const Tensor w = random_tensor({16, 8, 3, 3}, DType::bf16, 2, device).eval();
  const auto compute = [&] {
    const NumericsScope scope(Numerics::fast);
    const Tensor input = requires_grad(x);
    const Tensor weight = requires_grad(w);
    const Tensor y = relu(conv2d(input, weight, std::nullopt, {.padding = {1, 1}}));
    for (const Tensor& one : gradients(sum(y.to(DType::f32)), {input, weight})) one.eval();
  };
  const Shadow::Counts right = found(compute, -1);
  EXPECT_GE(right.compared, 3u);
  EXPECT_EQ(right.different, 0u);
  EXPECT_EQ(right.passed_over, 0u);
}

TEST(ShadowOfBlockedAttention, ComparesItsComposition) {
  const Device device = special_device();
  const Tensor q = random_tensor({2, 4, 70, 64}, DType::bf16, 1, device).eval();
  const Tensor k = random_tensor({2, 4, 140, 64}, DType::bf16, 2, device).eval();
  const Tensor v = random_tensor({2, 4, 140, 64}, DType::bf16, 3, device).eval();
  const auto forward = [&] {
    const NumericsScope scope(Numerics::blocked);
    scaled_dot_product_attention(q, k, v, {.causal = true, .alignment = CausalAlignment::bottom_right}).eval();
  };
  const Shadow::Counts right = found(forward, -1);
  EXPECT_GE(right.compared, 1u);
  EXPECT_EQ(right.different, 0u);
  EXPECT_EQ(right.passed_over, 0u);
  EXPECT_EQ(found(forward, 0).different, 1u);

  const auto backward = [&] {
    const NumericsScope scope(Numerics::blocked);
    const std::vector<Tensor> x{requires_grad(q), requires_grad(k), requires_grad(v)};
    const Tensor y = scaled_dot_product_attention(x[0], x[1], x[2], {.scale = 0.25});
    for (const Tensor& one : gradients(y, x, {.seed = random_tensor({2, 4, 70, 64}, DType::bf16, 4, device)}))
      one.eval();
  };
  const Shadow::Counts of_gradients = found(backward, -1);
  EXPECT_GE(of_gradients.compared, 2u);
  EXPECT_EQ(of_gradients.different, 0u);
  EXPECT_EQ(of_gradients.passed_over, 0u);
}

TEST(ShadowOfFastAttention, HoldsItToItsBound) {
  const Device device = special_device();
  for (const DType dtype : {DType::bf16, DType::f16}) {
    SCOPED_TRACE(name_of(dtype));
    const Tensor q = random_tensor({2, 4, 40, 32}, dtype, 1, device).eval();
    const Tensor k = random_tensor({2, 2, 70, 32}, dtype, 2, device).eval();
    const Tensor v = random_tensor({2, 2, 70, 32}, dtype, 3, device).eval();
    const Tensor seed = random_tensor({2, 4, 40, 32}, dtype, 4, device).eval();
    for (const bool causal : {false, true}) {
      const AttentionOptions options{
          .causal = causal, .alignment = CausalAlignment::bottom_right, .enable_gqa = true, .scale = 0.25};
      const auto forward = [&] {
        const NumericsScope scope(Numerics::fast);
        scaled_dot_product_attention(q, k, v, options).eval();
      };
      const auto backward = [&] {
        const NumericsScope scope(Numerics::fast);
        const std::vector<Tensor> x{requires_grad(q), requires_grad(k), requires_grad(v)};
        for (const Tensor& one : gradients(scaled_dot_product_attention(x[0], x[1], x[2], options), x, {.seed = seed}))
          one.eval();
      };
      for (const std::function<void()>& compute : {std::function<void()>(forward), std::function<void()>(backward)}) {
        const Shadow::Counts right = found(compute, -1);
        EXPECT_GE(right.compared, 1u);
        EXPECT_EQ(right.different, 0u);
        EXPECT_EQ(right.passed_over, 0u);
      }
      EXPECT_EQ(found(forward, 0).different, 0u) << "the last bit is within the bound";
      EXPECT_EQ(found(forward, 14).different, 1u) << "another power of two";
    }
  }
}

// On an NVIDIA GPU; elsewhere skipped.
TEST(ShadowOfFastAttention, HoldsTheLibrarysToItsBound) {
  for (const Device device : Device::all()) {
    if (device.kind != DeviceKind::cuda || !backend_of(device).has_fast_attention()) continue;
    for (const DType dtype : {DType::bf16, DType::f16}) {
      const auto random = [&](std::int64_t heads, std::int64_t positions, std::uint64_t seed) {
        return random_tensor({2, heads, positions, 64}, dtype, seed, device).eval();
      };
      const std::vector<Tensor> x{requires_grad(random(4, 150, 1)), requires_grad(random(2, 200, 2)),
                                  requires_grad(random(2, 200, 3))};
      const Shadow shadow({DeviceKind::cpu, 0}, {.policy = ShadowPolicy::report, .cases = ""});
      const NumericsScope scope(Numerics::fast);
      for (const bool causal : {false, true}) {
        const Tensor y = scaled_dot_product_attention(
            x[0], x[1], x[2], {.causal = causal, .alignment = CausalAlignment::bottom_right, .enable_gqa = true});
        for (const Tensor& one : gradients(y, x, {.seed = random(4, 150, 4)})) one.eval();
      }
      EXPECT_GE(shadow.counts().compared, 4u);
      EXPECT_EQ(shadow.counts().different, 0u);
    }
    return;
  }
  GTEST_SKIP() << "no device whose library has attention";
}

}  // namespace
}  // namespace v0
}  // namespace lockstep

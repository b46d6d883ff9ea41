// How many kernels things take: the promise of the scheduler, counted without running anything.
#include "graph/fusion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <lockstep/lockstep.h>

#include "support/tensors.h"

namespace lockstep {
namespace {

Tensor given(const Shape& shape, DType dtype = DType::f32) { return random_tensor(shape, dtype, 7).eval(); }

std::string text(const std::vector<std::string>& lines) {
  std::string all;
  for (const std::string& line : lines) all += line + "\n";
  return all;
}

#define EXPECT_KERNELS(count, ...)                                             \
  do {                                                                         \
    const std::vector<std::string> kernels = plan({__VA_ARGS__});              \
    EXPECT_EQ(kernels.size(), static_cast<std::size_t>(count)) << text(kernels); \
  } while (false)

TEST(Fusion, SoftmaxIsOneKernel) {
  EXPECT_KERNELS(1, softmax(given({64, 96}), -1));
  EXPECT_KERNELS(1, softmax(given({64, 96}), 0));
  EXPECT_KERNELS(1, log_softmax(given({4, 5, 6}), 1));
  EXPECT_KERNELS(1, softmax(given({64, 96}, DType::f16), -1));
}

TEST(Fusion, NormsAreOneKernel) {
  const Tensor x = given({8, 32});
  EXPECT_KERNELS(1, layer_norm(x, {32}, given({32}), given({32})));
  EXPECT_KERNELS(1, rms_norm(x, {32}, given({32})));
  EXPECT_KERNELS(1, group_norm(given({2, 8, 5, 5}), 4, given({8}), given({8})));
  EXPECT_KERNELS(1, var(given({6, 7}), {0}));
}

TEST(Fusion, AdamStepIsOneKernel) {
  const Tensor parameter = given({1000});
  const Tensor gradient = given({1000});
  const Tensor m = given({1000}) * 0.9 + gradient * 0.1;
  const Tensor v = given({1000}) * 0.999 + gradient * gradient * 0.001;
  EXPECT_KERNELS(1, parameter - m / (sqrt(v) + 1e-8) * 0.001, m, v);
}

TEST(Fusion, MatmulWithBiasGeluAndResidualIsOneKernel) {
  EXPECT_KERNELS(1, gelu(matmul(given({32, 64}), given({64, 48})) + given({48})) + given({32, 48}));
  EXPECT_KERNELS(1, gelu(linear(given({2, 16, 64}), given({48, 64}), given({48}))) + given({2, 16, 48}));
  EXPECT_KERNELS(1, linear(given({2, 64}, DType::f16), given({48, 64}, DType::f16), given({48}, DType::f16)));
}

TEST(Fusion, ConvolutionWithBatchNormReluAndAddIsOneKernel) {
  const Tensor x = given({2, 8, 14, 14});
  const Tensor y = batch_norm(conv2d(x, given({16, 8, 3, 3}), std::nullopt, {.padding = {1}}), given({16}),
                              abs(given({16})).eval(), given({16}), given({16}));
  EXPECT_KERNELS(1, relu(y + given({2, 16, 14, 14})));
}

TEST(Fusion, AHeldScaleIsComputedOnceAndLoaded) {
  const Tensor scale = rsqrt(given({16, 1, 1}) + 1e-5);
  const Tensor y = conv2d(given({2, 8, 14, 14}), given({16, 8, 3, 3})) * scale;
  EXPECT_KERNELS(2, y, scale);
}

TEST(Fusion, ExpensiveBroadcastAlongRowsIsNotRepeated) {
  // exp of [96] would be evaluated 64 times as often inside the consumer.
  const Tensor repeated = given({64, 96}) * exp(given({96}) * 2.0);
  EXPECT_KERNELS(2, repeated);
  const Tensor cheap = given({64, 96}) * (given({96}) * 2.0);
  EXPECT_KERNELS(1, cheap);
}

TEST(Fusion, PoolReadsItsWindowsInPlace) {
  EXPECT_KERNELS(1, max_pool2d(given({1, 4, 9, 9}), 3, {.stride = {2}, .padding = {1}}));
  EXPECT_KERNELS(2, max_pool2d(relu(given({1, 4, 9, 9})), 3));
}

TEST(Fusion, FlippedOperandIsStoredFirst) {
  const Tensor x = given({4, 6}) + 1.0;
  EXPECT_KERNELS(2, x + x.flip({1}));
}

TEST(Fusion, ReductionThenFullUseNeedsNoCycle) {
  // total reads x, and the result reads both: x, total and the result must not wait for each other.
  const Tensor x = given({32, 32}) * 2.0;
  const Tensor total = sum(x);
  const Tensor y = x / total;
  EXPECT_KERNELS(1, y);
  EXPECT_BITS_EQ(y, (given({32, 32}) * 2.0) / sum((given({32, 32}) * 2.0).eval()).eval());
}

TEST(Fusion, RowsOfDifferentKindsAreSeparate) {
  const Tensor x = given({8, 8});
  const Tensor y = sum(x, {0}) + sum(x, {1});
  EXPECT_KERNELS(2, y);
}

// What is widened is stored as narrow as it was: two kernels read the product, in f32.
TEST(Fusion, WidenedValuesAreWidenedWhereTheyAreRead) {
  const Tensor a = given({64, 64}, DType::bf16);
  const auto widened = [&] { return matmul(a, given({64, 96}, DType::bf16)).to(DType::f32); };
  const auto sums = [](const Tensor& of) { return std::vector<Tensor>{sum(of, {0}), sum(of * of, {1})}; };
  const std::vector<Tensor> both = sums(widened());
  const std::vector<std::string> kernels = plan({both[0], both[1]});
  ASSERT_EQ(kernels.size(), 3u) << text(kernels);
  EXPECT_THAT(kernels[0], testing::EndsWith("+ to_bf16")) << text(kernels);
  // A value that somebody holds is stored as it is, and what is as wide as what it is made of is not computed again.
  const Tensor x = widened();
  EXPECT_THAT(plan({x, sum(x, {0})})[0], testing::EndsWith("to_f32"));
  const std::vector<Tensor> wide = sums(matmul(given({64, 64}), given({64, 96})) + 1.0);
  EXPECT_THAT(plan({wide[0], wide[1]})[0], testing::HasSubstr("add"));
}

// Gradients of slices are laid side by side: nothing is filled with zeros, and one kernel joins what three compute.
TEST(Fusion, GradientsOfSlicesAreJoinedInOneKernel) {
  const WithWindow window(kUnbounded);
  const Tensor x = requires_grad(given({4, 6, 30}));
  const Tensor parts = x.reshape({4, 6, 3, 10});
  const Tensor y = sum(parts.select(2, 0) * given({4, 6, 10}) + parts.select(2, 1) * given({4, 6, 10}) +
                       parts.select(2, 2) * given({4, 6, 10}));
  const Tensor joined = gradients(y, {x})[0];
  const std::vector<std::string> kernels = plan({joined});
  ASSERT_EQ(kernels.size(), 4u) << text(kernels);
  EXPECT_THAT(kernels[3], testing::HasSubstr("merge merge add")) << text(kernels);
  EXPECT_THAT(text(kernels), testing::Not(testing::HasSubstr("update")));

  // Some overlap: those are added, as before.
  const Tensor narrow = sum(x.narrow(2, 0, 20) * given({4, 6, 20}) + x.narrow(2, 10, 20) * given({4, 6, 20}));
  EXPECT_THAT(text(plan({gradients(narrow, {x})[0]})), testing::HasSubstr("update"));
}

TEST(Fusion, LongChainsAreCutIntoBoundedKernels) {
  const WithWindow window(kUnbounded);
  Tensor x = given({100});
  for (int i = 0; i < 200; ++i) x = relu(x + 1.0);
  const std::vector<std::string> kernels = plan({x});
  EXPECT_GT(kernels.size(), 4u);
  EXPECT_LT(kernels.size(), 20u) << text(kernels);
}

TEST(Fusion, KernelsReadAtMostTwelveBuffers) {
  Tensor x = given({64});
  for (int i = 0; i < 30; ++i) x = x + random_tensor({64}, DType::f32, static_cast<std::uint64_t>(i)).eval();
  EXPECT_KERNELS(3, x);
}

}  // namespace
}  // namespace lockstep

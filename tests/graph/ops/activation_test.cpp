// Activations: equal bits everywhere; values are in the recorded cases, here what they leave open.
#include <gtest/gtest.h>

#include <cmath>

#include "graph/values.h"
#include "support/tensors.h"

namespace lockstep {
namespace {

class Activations : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(DTypes, Activations, ::testing::Values(DType::f16, DType::bf16, DType::f32, DType::f64),
                         [](const auto& tested) { return std::string(name_of(tested.param)); });

TEST_P(Activations, SameEverywhere) {
  const auto check = [&](auto op) {
    same_everywhere([&](Device device) { return op(random_tensor({4, 202}, GetParam(), 3, device, true)); });
  };
  using Plain = Tensor (*)(const Operand&);
  for (const Plain op : {&relu6, &hardsigmoid, &hardswish, &tanhshrink, &softsign, &mish, &selu, &logsigmoid})
    check(op);
  check([](const Tensor& x) { return elu(x, 0.5); });
  check([](const Tensor& x) { return celu(x, 2); });
  check([](const Tensor& x) { return softplus(x, 2, 5); });
  check([](const Tensor& x) { return hardtanh(x, -0.5, 2); });
  check([](const Tensor& x) { return hardshrink(x, 0.25); });
  check([](const Tensor& x) { return softshrink(x, 0.25); });
  check([](const Tensor& x) { return threshold(x, 0.5, 7); });
  check([](const Tensor& x) { return rrelu(x); });
  check([](const Tensor& x) { return logit(x, 0.01); });
  check([](const Tensor& x) { return glu(x, 0); });
  check([](const Tensor& x) { return softmin(x, 1); });
  check([](const Tensor& x) { return swiglu(x, x.flip({1})); });
  check([](const Tensor& x) { return geglu(x, 2.0); });
  check([](const Tensor& x) { return reglu(x, x); });
  check([](const Tensor& x) { return prelu(x, full({1}, 0.25, {.dtype = x.dtype(), .device = x.device()})); });
}

TEST(Activation, GatesRoundOnce) {
  const Tensor x = random_tensor({64}, DType::f16, 1);
  const Tensor y = random_tensor({64}, DType::f16, 2);
  const Tensor wide = silu(x.to(DType::f32)) * y.to(DType::f32);
  EXPECT_BITS_EQ(swiglu(x, y), wide.to(DType::f16));
}

TEST(Activation, NaNStaysNaN) {
  const Tensor nan = full({1}, kNaN);
  for (const auto op : {&relu6, &hardsigmoid, &hardswish, &tanhshrink, &softsign}) EXPECT_BITS_EQ(op(nan), nan);
  EXPECT_BITS_EQ(softshrink(nan), nan);
  EXPECT_BITS_EQ(hardshrink(nan), nan);
  EXPECT_BITS_EQ(threshold(nan, 0, 1), nan);
  EXPECT_BITS_EQ(hardtanh(nan), nan);
}

TEST(Activation, Errors) {
  const Tensor x = ones({3, 5});
  expect_error<ShapeError>([&] { glu(x, 1); }, {"glu", "size 5", "even"});
  expect_error<IndexError>([&] { glu(x, 2); }, {"glu", "dimension 2"});
  expect_error<ShapeError>([&] { prelu(x, ones({4})); }, {"prelu", "1 or 5 values"});
  expect_error<ValueError>([&] { softshrink(x, -1); }, {"softshrink", "lambda"});
  expect_error<ValueError>([&] { celu(x, 0); }, {"celu", "alpha"});
  expect_error<ValueError>([&] { hardtanh(x, 1, -1); }, {"hardtanh", "above"});
  expect_error<ValueError>([&] { softsign(1.0); }, {"softsign", "tensor"});
  for (const auto op : {&hardsigmoid, &softsign, &tanhshrink}) {
    expect_error<DTypeError>([&] { op(arange(3)); }, {"must be a float tensor", "activation_test.cpp"});
  }
}

}  // namespace
}  // namespace lockstep

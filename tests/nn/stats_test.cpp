#include <lockstep/nn/stats.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include <lockstep/lockstep.h>

namespace lockstep {
inline namespace v0 {
namespace {

TEST(Stats, OfParametersBuffersAndGradients) {
  struct SmallNet : nn::Module {
    nn::Linear layer{*this, "layer", 2, 2};
    nn::BatchNorm1d norm{*this, "norm", 2};
  } net;
  const float infinity = std::numeric_limits<float>::infinity();
  {
    const NoGrad no_grad;
    net.layer.weight = Tensor::from<float>({1, 3, 0, infinity}, {2, 2});
  }
  backward(sum(net.layer.bias * 3.0));
  const ModelStats found = stats(net);
  const TensorStats& weight = found.tensors.at(0);
  EXPECT_EQ(weight.name, "layer.weight");
  EXPECT_DOUBLE_EQ(weight.mean, 4.0 / 3);
  EXPECT_DOUBLE_EQ(weight.deviation, std::sqrt((1.0 + 9) / 3 - 16.0 / 9));
  EXPECT_EQ(weight.least, 0);
  EXPECT_EQ(weight.most, 3);
  EXPECT_EQ(weight.zeros, 1);
  EXPECT_EQ(weight.not_finite, 1);
  EXPECT_EQ(weight.gradient, -1);
  EXPECT_EQ(found.tensors.at(1).gradient, 3);
  EXPECT_THAT(found.to_string(), ::testing::HasSubstr("norm.running_var"));
}

}  // namespace
}  // namespace v0
}  // namespace lockstep

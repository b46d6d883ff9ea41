#include <lockstep/check_finite.h>

#include <gtest/gtest.h>

#include <limits>

#include <lockstep/lockstep.h>

#include "graph/values.h"
#include "support/files.h"
#include "support/tensors.h"

namespace lockstep::test {
namespace {

TEST(CheckFinite, NamesTheOpThatMadeTheFirstNaN) {
  const Tensor x = Tensor::from<float>({1, -2}, {2}).named("weights");
  const CheckFinite scope;
  const std::string message = message_of<ValueError>([&] { exp(log(x * 2.0) + 1.0); });
  EXPECT_NE(message.find("log: the result holds NaN"), std::string::npos) << message;
  EXPECT_NE(message.find("finite_test.cpp"), std::string::npos) << message;
}

TEST(CheckFinite, NamesTheOpThatMadeTheFirstInfinity) {
  const CheckFinite scope;
  const std::string message = message_of<ValueError>([] { ones({3}) / zeros({3}); });
  EXPECT_NE(message.find("div: the result holds an infinity"), std::string::npos) << message;
}

TEST(CheckFinite, NamesTheModuleAndTheRangesOfItsOperands) {
  struct Net : nn::Module {
    struct Root : nn::Layer {
      using Layer::Layer;
      Tensor forward(const Operand& x) const override { return sqrt(x.tensor() - 3.0); }
    };
    Root root{*this, "root"};
  } const net;
  const Tensor x = Tensor::from<float>({4, 1.5, 7}, {3});
  const CheckFinite scope;
  const std::string message = message_of<ValueError>([&] { net.root(x); });
  EXPECT_NE(message.find("the result holds NaN, the operands hold none, in module root: operand 0 in [-1.5, 4]"),
            std::string::npos)
      << message;
}

TEST(CheckFinite, LooksAtGradients) {
  const Tensor x = requires_grad(zeros({2}));
  const CheckFinite scope;
  const Tensor y = sum(sqrt(x));
  EXPECT_THROW(backward(y), ValueError);
}

TEST(CheckFinite, InfinitiesThatSomebodyWroteAreNoMistake) {
  const CheckFinite scope;
  const Tensor x = random_tensor({2, 5, 4}, DType::f32, 1);
  const Tensor masked = where(gt(x, 0.0), x, -kInfinity);
  EXPECT_NO_THROW(softmax(where(gt(x, 9.0), -kInfinity, masked * 1.0), -1));
  EXPECT_NO_THROW(scaled_dot_product_attention(x, x, x, {.causal = true}));
  EXPECT_NO_THROW(max_pool1d(x, 2, {.padding = {1}}));
}

TEST(CheckFinite, EndsWithItsScope) {
  { const CheckFinite scope; }
  EXPECT_NO_THROW(log(full({2}, -1.0)).eval());
}

}  // namespace
}  // namespace lockstep::test

#include "io/onnx/derived.h"

#include <gtest/gtest.h>

#include <lockstep/ops.h>

namespace lockstep::io::onnx {
namespace {

TEST(DerivedWeights, AreMadeOnceWhileTheirSourcesAreTheSameValues) {
  DerivedWeights derived;
  Tensor weight = Tensor::from(std::vector<float>{1, 2}, {2}, Device{});
  int made = 0;
  const auto twice = [&] {
    return derived.of({weight}, [&]() -> std::vector<Tensor> { return ++made, std::vector<Tensor>{weight * 2}; })[0]
        .to_vector<float>();
  };
  for (int run = 0; run < 5; ++run) EXPECT_EQ(twice(), (std::vector<float>{2, 4}));
  EXPECT_EQ(made, 2);  // the first values might not come again
  weight += 1;
  for (int run = 0; run < 5; ++run) EXPECT_EQ(twice(), (std::vector<float>{4, 6}));
  EXPECT_EQ(made, 4);
}

TEST(DerivedWeights, AreThoseOfAllSources) {
  DerivedWeights derived;
  const Tensor a = full({}, 1), b = full({}, 2);
  int made = 0;
  const auto make = [&] { return ++made, std::vector<Tensor>{full({}, made)}; };
  for (int run = 0; run < 3; ++run) derived.of({a, b}, make);
  EXPECT_EQ(derived.of({a}, make)[0].item<float>(), 3);
  EXPECT_EQ(derived.of({b, a}, make)[0].item<float>(), 4);
  EXPECT_EQ(derived.of({b, a}, make)[0].item<float>(), 5);
  EXPECT_EQ(derived.of({b, a}, make)[0].item<float>(), 5);
}

}  // namespace
}  // namespace lockstep::io::onnx

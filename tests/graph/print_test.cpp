#include <gtest/gtest.h>

#include <cmath>

#include "graph/print_expectations.h"
#include "support/tensors.h"

namespace lockstep {
namespace {

TEST(Print, AsPyTorchDoes) {
  EXPECT_EQ(Tensor::from<float>({1.5f, -2.25f, 0.125f, 100.0f, 3.14159f, -0.001f}, {2, 3}).to_string(), kFractions);
  EXPECT_EQ(Tensor::from<float>({1, -20, 300}, {3}).to_string(), kWhole);
  EXPECT_EQ(Tensor::from<float>({1e-5f, 1.0f, -3e7f}, {3}).to_string(), kScientific);
  EXPECT_EQ(Tensor::from<float>({NAN, INFINITY, -INFINITY, 1.0f, -0.0f}, {5}).to_string(), kSpecial);
  EXPECT_EQ(Tensor::from<float>({NAN, INFINITY, 0.5f, 0.0f}, {4}).to_string(), kSpecialFractions);
  EXPECT_EQ(zeros({40}).to_string(), kZeros);
  EXPECT_EQ(full({}, 2.5).to_string(), kScalar);
  EXPECT_EQ(Tensor::from<std::int64_t>({1, -200, 30, 4}, {2, 2}).to_string(), kIntegers);
  EXPECT_EQ(Tensor::from<bool>({true, false}, {2}).to_string(), kBools);
  EXPECT_EQ(arange(60).to_string(), kLongRow);
  EXPECT_EQ((arange(24, {.dtype = DType::f32}).reshape({2, 3, 4}) / 8).to_string(), kCube);
}

TEST(Print, SummarizesBeyondAThousandElements) {
  EXPECT_EQ(arange(2000).reshape({4, 500}).to_string(), kSummary);
  EXPECT_EQ((arange(1331, {.dtype = DType::f32}).reshape({11, 11, 11}) / 4).to_string(), kSummaryFloats);
}

TEST(Print, EmptyTensorsShowTheirSize) {
  EXPECT_EQ(zeros({0}).to_string(), kEmpty);
  EXPECT_EQ(zeros({2, 0}).to_string(), kEmptyMatrix);
  EXPECT_EQ(zeros({0}, {.dtype = DType::i64}).to_string(), kEmptyIntegers);
}

TEST(Print, OtherDTypesAndDevicesAreNamed) {
  EXPECT_EQ(ones({2}, {.dtype = DType::f16}).to_string(), "tensor([1., 1.], dtype=f16)");
  EXPECT_EQ(ones({2}, {.dtype = DType::u8, .device = Device::parse("ref")}).to_string(),
            "tensor([1, 1], device=ref, dtype=u8)");
  EXPECT_EQ(Tensor().to_string(), "tensor(undefined)");
}

TEST(Print, SubnormalsShow) {
  EXPECT_EQ(Tensor::from<float>({1e-40f}, {1}).to_string(), "tensor([9.9999e-41])");
}

}  // namespace
}  // namespace lockstep

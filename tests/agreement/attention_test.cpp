// Attention as one kernel on the CPU (AttentionKernel in exact numerics) has the bits of its composition, which the
// reference runs: with each set of instructions, for numbers of queries and keys that fill vectors and tiles and that
// do not, and for the values that arithmetic treats as no others.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <lockstep/autograd.h>
#include <lockstep/ops.h>
#include <lockstep/shadow.h>

#include "agreement/isa_backend.h"
#include "support/tensors.h"

namespace lockstep::test {
namespace {

struct HeadSizes {
  std::int64_t batches, heads, key_heads, rows, keys, width;
};

// Numbers, among them every `every`-th (0: none) one of those that are special.
Tensor elements(const Shape& shape, std::uint64_t seed, std::size_t every, const std::vector<float>& specials) {
  const Tensor plain = random_tensor(shape, DType::f32, seed);
  if (every == 0) return plain;
  std::vector<float> values = plain.to_vector<float>();
  for (std::size_t i = seed % every; i < values.size(); i += every) values[i] = specials[i / every % specials.size()];
  return Tensor::from(values, shape);
}

struct HeadOperands {
  Tensor query, key, value;
  Tensor attend(Device device, const AttentionOptions& options) const {
    return scaled_dot_product_attention(query.to(device), key.to(device), value.to(device), options).to(Device());
  }
};

HeadOperands head_operands(const HeadSizes& s, std::size_t every = 0, const std::vector<float>& specials = {}) {
  return {elements({s.batches, s.heads, s.rows, s.width}, 1, every, specials),
          elements({s.batches, s.key_heads, s.keys, s.width}, 2, every, specials),
          elements({s.batches, s.key_heads, s.keys, s.width}, 3, every, specials)};
}

void expect_attention(const HeadOperands& given, const AttentionOptions& options) {
  const NoGrad no_gradients;
  const Tensor expected = given.attend({DeviceKind::ref}, options);
  for (const Device device : isa_devices()) EXPECT_BITS_EQ(given.attend(device, options), expected);
}

void expect_attention(const HeadSizes& s, const AttentionOptions& options = {}, std::size_t every = 0,
                      const std::vector<float>& specials = {}) {
  SCOPED_TRACE(testing::Message() << s.batches << " x " << s.heads << " (" << s.key_heads << ") x " << s.rows << " x "
                                  << s.keys << " x " << s.width << (options.causal ? " causal" : ""));
  AttentionOptions all = options;
  all.enable_gqa = s.heads != s.key_heads;
  expect_attention(head_operands(s, every, specials), all);
}

std::int64_t attention_kernels(const Tensor& result) {
  const std::vector<std::string> kernels = plan({result});
  return std::count_if(kernels.begin(), kernels.end(),
                       [](const std::string& k) { return k.starts_with("attention["); });
}

TEST(ExactAttention, RowsAndKeysOfAllLengths) {
  for (const std::int64_t rows : {17, 31, 33, 48, 49, 65, 97, 130}) expect_attention({1, 1, 1, rows, 21, 8});
  for (const std::int64_t keys : {8, 9, 12, 15, 63, 64, 66, 255, 256, 257, 515}) {
    expect_attention({1, 1, 1, 20, keys, 16});
  }
  for (const std::int64_t width : {8, 24, 64, 72, 128}) expect_attention({1, 1, 1, 40, 70, width});
}

TEST(ExactAttention, HeadsAndBatches) {
  expect_attention({2, 3, 3, 50, 40, 16});
  expect_attention({2, 6, 2, 50, 40, 16});
  expect_attention({1, 5, 1, 197, 197, 8});
}

// Sums of exponentials in two chunks, and then fewer queries together.
TEST(ExactAttention, ManyKeys) {
  expect_attention({1, 1, 1, 50, 4095, 8});
  expect_attention({1, 1, 1, 50, 4099, 8});
  expect_attention({1, 1, 1, 17, 8192, 8}, {.causal = true, .alignment = CausalAlignment::bottom_right});
}

TEST(ExactAttention, KeysThatAreHidden) {
  for (const std::int64_t rows : {17, 60, 130, 300}) {
    for (const std::int64_t keys : {12L, 130L, 300L, 310L}) {
      expect_attention({1, 2, 1, rows, keys, 8}, {.causal = true});
      expect_attention({1, 2, 1, rows, keys, 8}, {.causal = true, .alignment = CausalAlignment::bottom_right});
    }
  }
  expect_attention({1, 1, 1, 140, 300, 8}, {.causal = true, .first_query = 33});
  expect_attention({1, 1, 1, 140, 300, 8}, {.window_right = 5});
}

TEST(ExactAttention, OperandsAsLayersGiveThem) {
  const auto turned = [](std::uint64_t seed) {
    return random_tensor({2, 40, 3, 16}, DType::f32, seed).transpose(1, 2);
  };
  expect_attention(HeadOperands{turned(1), turned(2), turned(3)}, {});
  expect_attention(HeadOperands{random_tensor({30, 8}, DType::f32, 1), random_tensor({3, 20, 8}, DType::f32, 2),
                                random_tensor({20, 8}, DType::f32, 3)},
                   {});
}

TEST(ExactAttention, ScalesAndScores) {
  for (const double scale : {1.0, -0.5, 0.0, 1e-30, 3.0}) expect_attention({1, 1, 1, 40, 50, 16}, {.scale = scale});
  // Weights down to the smallest numbers, and sums that hold but one.
  const HeadOperands large{random_tensor({1, 1, 40, 16}, DType::f32, 1) * 40.0,
                           random_tensor({1, 1, 70, 16}, DType::f32, 2), random_tensor({1, 1, 70, 16}, DType::f32, 3)};
  expect_attention(large, {.scale = 1.0});
  const HeadOperands tiny{random_tensor({1, 1, 40, 16}, DType::f32, 1) * 1e-19,
                          random_tensor({1, 1, 70, 16}, DType::f32, 2) * 1e-19,
                          random_tensor({1, 1, 70, 16}, DType::f32, 3) * 1e-38};
  expect_attention(tiny, {});
}

TEST(ExactAttention, SpecialValues) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::vector<float> finite{1e-40f, -1e-40f, -0.0f, 1e19f, -1e19f, 3e38f, 0x1p-126f};
  const std::vector<float> all{kInfinity, -kInfinity, std::nanf(""), 1e-40f, -0.0f};
  for (const bool causal : {false, true}) {
    for (const std::size_t every : {7u, 61u, 397u}) {
      expect_attention({1, 2, 2, 130, 140, 8}, {.causal = causal}, every, finite);
      expect_attention({1, 2, 2, 130, 140, 8}, {.causal = causal}, every, all);
    }
  }
}

TEST(ExactAttention, IsOneKernelUnlessKernelsAreWatched) {
  const Device device = isa_devices().back();
  const HeadOperands some = head_operands({1, 2, 2, 40, 40, 8});
  const auto attend = [&](const AttentionOptions& options) {
    return scaled_dot_product_attention(some.query.to(device), some.key.to(device), some.value.to(device), options);
  };
  EXPECT_EQ(attention_kernels(attend({})), 1);
  EXPECT_EQ(attention_kernels(attend({.causal = true})), 1);
  EXPECT_EQ(attention_kernels(attend({.window_left = 3})), 0);
  EXPECT_EQ(attention_kernels(attend({.softcap = 3})), 0);
  const Shadow shadow({DeviceKind::ref});
  EXPECT_EQ(attention_kernels(attend({})), 0);
}

TEST(ExactAttention, GradientsAreThoseOfTheComposition) {
  const HeadOperands some = head_operands({1, 2, 2, 40, 40, 8});
  const auto gradients = [&](Device device) {
    std::vector<Tensor> leaves;
    for (const Tensor& t : {some.query, some.key, some.value})
      leaves.push_back(t.to(device).clone().requires_grad_(true));
    const Tensor result = scaled_dot_product_attention(leaves[0], leaves[1], leaves[2], {.causal = true});
    sum(result * result).backward();
    std::vector<Tensor> found;
    for (const Tensor& leaf : leaves) found.push_back(leaf.grad().to(Device()));
    return found;
  };
  const std::vector<Tensor> expected = gradients({DeviceKind::ref});
  for (const Device device : isa_devices()) {
    const std::vector<Tensor> found = gradients(device);
    for (std::size_t i = 0; i < found.size(); ++i) EXPECT_BITS_EQ(found[i], expected[i]);
  }
}

}  // namespace
}  // namespace lockstep::test

// Every op on every device, dtype and window: equal bits. What the values must be is tested against PyTorch's own
// results (tests/cli/golden_test.cpp) and by hand here where PyTorch leaves devices free.
#include <lockstep/ops.h>

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "graph/values.h"
#include "support/tensors.h"

namespace lockstep {
namespace {

class FloatOps : public ::testing::TestWithParam<DType> {
 protected:
  DType dtype() const { return GetParam(); }
  Tensor random(const Shape& shape, std::uint64_t seed, Device device) const {
    return random_tensor(shape, dtype(), seed, device, true);
  }
};
INSTANTIATE_TEST_SUITE_P(DTypes, FloatOps, ::testing::Values(DType::f16, DType::bf16, DType::f32, DType::f64),
                         [](const auto& tested) { return std::string(name_of(tested.param)); });

TEST_P(FloatOps, Unary) {
  using Unary = Tensor (*)(const Operand&);
  for (const Unary op :
       {&neg, &abs, &sign, &relu, &floor,   &ceil, &trunc, &round,     &sqrt, &rsqrt, &reciprocal, &exp,
        &log, &sin, &cos,  &tanh, &sigmoid, &erf,  &gelu,  &gelu_tanh, &silu, &isnan, &isfinite}) {
    same_everywhere([&](Device device) { return op(random({3, 333}, 1, device)); });
  }
}

TEST_P(FloatOps, Binary) {
  using Binary = Tensor (*)(const Operand&, const Operand&);
  for (const Binary op : {&add, &sub, &mul, &div, &maximum, &minimum, &eq, &ne, &lt, &le, &gt, &ge}) {
    same_everywhere([&](Device device) { return op(random({5, 1, 67}, 1, device), random({9, 67}, 2, device)); });
    same_everywhere([&](Device device) { return op(random({700}, 1, device), 0.75); });
    same_everywhere([&](Device device) { return op(-2, random({700}, 1, device)); });
  }
}

TEST_P(FloatOps, Where) {
  same_everywhere([&](Device device) {
    return where(random({4, 1}, 1, device) > 0.0, random({4, 99}, 2, device), random({99}, 3, device));
  });
  same_everywhere(
      [&](Device device) { return masked_fill(random({99}, 1, device), random({99}, 2, device) < 0, -1e30); });
}

TEST_P(FloatOps, Reductions) {
  for (const Dims& dims : {Dims{}, Dims{0}, Dims{1}, Dims{2}, Dims{0, 2}, Dims{-1, -2}}) {
    for (const bool keepdim : {false, true}) {
      const auto check = [&](auto op) {
        same_everywhere([&](Device device) {
          return op(random_tensor({7, 5, 131}, dtype(), 4, device), dims, keepdim);
        });
      };
      using Reduction = Tensor (*)(const Operand&, const Dims&, bool);
      check(static_cast<Reduction>(&sum));
      check(static_cast<Reduction>(&prod));
      check(static_cast<Reduction>(&mean));
      check(&norm);
      check(&amax);
      check(&amin);
      check([](const Tensor& x, const Dims& d, bool keep) { return var(x, d, keep); });
      check([](const Tensor& x, const Dims& d, bool keep) { return std(x, d, keep, 0); });
    }
  }
  for (const int dim : {0, 1, -1}) {
    same_everywhere([&](Device device) { return argmax(random({7, 5, 131}, 4, device), dim); });
    same_everywhere([&](Device device) { return argmin(random({7, 5, 131}, 4, device), dim, true); });
  }
  same_everywhere([&](Device device) { return argmax(random({7, 5, 131}, 4, device)); });
}

TEST_P(FloatOps, LongRowsAndColumns) {
  same_everywhere([&](Device device) { return sum(random_tensor({3, 9001}, dtype(), 4, device), {1}); });
  same_everywhere([&](Device device) { return sum(random_tensor({9001, 3}, dtype(), 4, device), {0}); });
  same_everywhere([&](Device device) { return softmax(random_tensor({2, 5000}, dtype(), 4, device), 1); });
  same_everywhere([&](Device device) { return softmax(random_tensor({5000, 2}, dtype(), 4, device), 0); });
}

TEST_P(FloatOps, SoftmaxAndNorms) {
  for (const int dim : {0, 1, 2}) {
    same_everywhere([&](Device device) { return softmax(random({6, 10, 70}, 5, device), dim); });
    same_everywhere([&](Device device) { return log_softmax(random({6, 10, 70}, 5, device), dim); });
    same_everywhere([&](Device device) { return logsumexp(random({6, 10, 70}, 5, device), {dim}); });
  }
  same_everywhere([&](Device device) {
    return layer_norm(random_tensor({9, 130}, dtype(), 1, device), {130}, random_tensor({130}, dtype(), 2, device),
                      random_tensor({130}, dtype(), 3, device));
  });
  same_everywhere([&](Device device) {
    return rms_norm(random_tensor({9, 130}, dtype(), 1, device), {130}, random_tensor({130}, dtype(), 2, device));
  });
  same_everywhere([&](Device device) {
    return group_norm(random_tensor({2, 6, 7, 5}, dtype(), 1, device), 3, random_tensor({6}, dtype(), 2, device),
                      random_tensor({6}, dtype(), 3, device));
  });
  same_everywhere([&](Device device) {
    return batch_norm(random_tensor({2, 6, 7, 5}, dtype(), 1, device), random_tensor({6}, dtype(), 2, device),
                      abs(random_tensor({6}, dtype(), 3, device)), random_tensor({6}, dtype(), 4, device),
                      random_tensor({6}, dtype(), 5, device));
  });
}

TEST_P(FloatOps, Contractions) {
  const auto random_operand = [&](const Shape& shape, std::uint64_t seed, Device device) {
    return random_tensor(shape, dtype(), seed, device);
  };
  struct Sizes {
    Shape a, b;
  };
  for (const Sizes& sizes : {Sizes{{17, 300}, {300, 33}}, Sizes{{300}, {300, 33}}, Sizes{{17, 300}, {300}},
                             Sizes{{300}, {300}}, Sizes{{2, 3, 5, 19}, {19, 7}}, Sizes{{2, 1, 5, 19}, {3, 19, 7}},
                             Sizes{{5, 0}, {0, 7}}, Sizes{{0, 4}, {4, 7}}, Sizes{{1, 1}, {1, 1}}}) {
    same_everywhere(
        [&](Device device) { return matmul(random_operand(sizes.a, 1, device), random_operand(sizes.b, 2, device)); });
  }
  same_everywhere([&](Device device) {
    return matmul(random_operand({70, 50}, 1, device).transpose(0, 1),
                  random_operand({40, 70}, 2, device).transpose(0, 1));
  });
  same_everywhere([&](Device device) {
    return relu(linear(random_operand({3, 4, 50}, 1, device), random_operand({40, 50}, 2, device),
                       random_operand({40}, 3, device)));
  });
}

TEST_P(FloatOps, Convolutions) {
  const auto check = [&](const Shape& input, const Shape& weight, const ConvOptions& options) {
    same_everywhere([&](Device device) {
      return conv2d(random_tensor(input, dtype(), 1, device), random_tensor(weight, dtype(), 2, device),
                    random_tensor({weight[0]}, dtype(), 3, device), options);
    });
  };
  check({2, 3, 9, 11}, {4, 3, 3, 3}, {.padding = {1}});
  check({1, 3, 12, 12}, {8, 3, 7, 7}, {.stride = {2}, .padding = {3}});
  check({2, 8, 7, 7}, {16, 8, 1, 1}, {.stride = {2}});
  check({1, 6, 10, 9}, {6, 1, 3, 3}, {.padding = {1, 2}, .groups = 6});
  check({1, 6, 10, 9}, {9, 2, 3, 2}, {.stride = {1, 2}, .dilation = {2, 1}, .groups = 3});
  check({3, 40, 5, 5}, {24, 40, 3, 3}, {.padding = {1}});
  same_everywhere([&](Device device) {
    return conv1d(random_tensor({2, 3, 50}, dtype(), 1, device), random_tensor({5, 3, 7}, dtype(), 2, device),
                  std::nullopt, {.stride = {3}, .padding = {2}});
  });
  same_everywhere([&](Device device) {
    return conv3d(random_tensor({1, 2, 5, 6, 7}, dtype(), 1, device),
                  random_tensor({3, 2, 3, 3, 3}, dtype(), 2, device), std::nullopt, {.padding = {1}});
  });
  // Without a batch, and reading through a transposed view.
  same_everywhere([&](Device device) {
    return conv2d(random_tensor({9, 8, 3}, dtype(), 1, device).permute({2, 0, 1}),
                  random_tensor({4, 3, 3, 3}, dtype(), 2, device));
  });
}

TEST_P(FloatOps, Pools) {
  struct Pool {
    Shape kernel;
    PoolOptions options;
  };
  for (const Pool& pool :
       {Pool{2, {}}, Pool{3, {.stride = 2, .padding = 1}}, Pool{{3, 2}, {.stride = {2, 1}, .ceil_mode = true}},
        Pool{3, {.stride = 2, .padding = 1, .ceil_mode = true, .count_include_pad = false}}}) {
    same_everywhere([&](Device device) {
      return max_pool2d(random({2, 3, 11, 12}, 1, device), pool.kernel, pool.options);
    });
    same_everywhere([&](Device device) {
      return avg_pool2d(random_tensor({2, 3, 11, 12}, dtype(), 1, device), pool.kernel, pool.options);
    });
  }
  same_everywhere([&](Device device) {
    return max_pool2d(random({1, 2, 11, 12}, 1, device), 3, {.stride = {1}, .dilation = {2}});
  });
  for (const Shape& size : {Shape{1}, Shape{4, 3}, Shape{5, 7}}) {
    same_everywhere([&](Device device) {
      return adaptive_avg_pool2d(random_tensor({2, 3, 8, 9}, dtype(), 1, device), size);
    });
  }
}

TEST_P(FloatOps, CastsToEverything) {
  for (const DType to : {DType::boolean, DType::u8, DType::i8, DType::i16, DType::i32, DType::i64, DType::u32,
                         DType::f16, DType::bf16, DType::f32, DType::f64}) {
    same_everywhere([&](Device device) { return random({999}, 6, device).to(to); });
  }
}

TEST_P(FloatOps, MovesKeepEveryBit) {
  same_everywhere([&](Device device) { return cat({random({3, 5}, 1, device), random({3, 2}, 2, device)}, 1); });
  same_everywhere([&](Device device) { return stack({random({3, 5}, 1, device), random({3, 5}, 2, device)}, -1); });
  same_everywhere([&](Device device) { return pad(random({3, 5}, 1, device), {1, 2, -1, 3}, 7.5); });
  same_everywhere([&](Device device) { return contiguous(random({13, 50}, 1, device).permute({1, 0})); });
  same_everywhere([&](Device device) {
    return random({13, 50}, 1, device).slice(1, {.start = 40, .stop = 3, .step = -4});
  });
  // Also subnormals, which arithmetic would turn into zeros.
  const Tensor x = random({100}, 1, {});
  EXPECT_BITS_EQ(cat({x.narrow(0, 0, 30), x.narrow(0, 30, 70)}), x);
  EXPECT_BITS_EQ(where(ones({100}, {.dtype = DType::boolean}), x, 0.0), x);
}

class IntegerOps : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(DTypes, IntegerOps,
                         ::testing::Values(DType::boolean, DType::u8, DType::i8, DType::i16, DType::i32, DType::i64,
                                           DType::u32),
                         [](const auto& tested) { return std::string(name_of(tested.param)); });

TEST_P(IntegerOps, AllThatExist) {
  const DType dtype = GetParam();
  const auto random = [&](const Shape& shape, std::uint64_t seed, Device device) {
    return random_tensor(shape, dtype, seed, device);
  };
  using Binary = Tensor (*)(const Operand&, const Operand&);
  for (const Binary op : {&eq, &ne, &lt, &le, &gt, &ge, &maximum, &minimum, &bitwise_and, &bitwise_or, &bitwise_xor}) {
    same_everywhere([&](Device device) { return op(random({4, 77}, 1, device), random({77}, 2, device)); });
  }
  for (const Dims& dims : {Dims{}, Dims{0}, Dims{1}}) {
    same_everywhere([&](Device device) { return sum(random({40, 77}, 1, device), dims); });
    same_everywhere([&](Device device) { return prod(random({4, 7}, 1, device), dims); });
    same_everywhere([&](Device device) { return amax(random({40, 77}, 1, device), dims); });
    same_everywhere([&](Device device) { return amin(random({40, 77}, 1, device), dims); });
    same_everywhere([&](Device device) { return any(random({40, 77}, 1, device), dims); });
    same_everywhere([&](Device device) { return all(random({40, 77}, 1, device), dims); });
  }
  same_everywhere([&](Device device) { return argmax(random({40, 77}, 1, device), 1); });
  for (const DType to : {DType::boolean, DType::u8, DType::i8, DType::i16, DType::i32, DType::i64, DType::u32,
                         DType::f16, DType::bf16, DType::f32, DType::f64}) {
    same_everywhere([&](Device device) { return random({300}, 6, device).to(to); });
  }
  same_everywhere([&](Device device) { return cat({random({3, 5}, 1, device), random({3, 2}, 2, device)}, 1); });
  same_everywhere([&](Device device) { return matmul(random({13, 300}, 1, device), random({300, 5}, 2, device)); });
  if (dtype == DType::boolean) return;
  for (const Binary op : {&add, &sub, &mul}) {
    same_everywhere([&](Device device) { return op(random({4, 77}, 1, device), random({77}, 2, device)); });
    same_everywhere([&](Device device) { return op(random({77}, 1, device), 3); });
  }
  same_everywhere([&](Device device) { return max_pool2d(random({1, 2, 8, 8}, 1, device), 3, {.padding = {1}}); });
}

// --- values
// -----------------------------------------------------------------------------------------------------------

template <typename T> std::vector<T> values(const Tensor& tensor) {
  return tensor.to_vector<T>();
}
using Floats = std::vector<float>;
using Longs = std::vector<std::int64_t>;

TEST(Values, IntegersWrapAround) {
  const Tensor a = Tensor::from<std::uint8_t>({200, 100}, {2});
  EXPECT_EQ(values<std::uint8_t>(a + a), (std::vector<std::uint8_t>{144, 200}));
  const Tensor b = Tensor::from<std::int32_t>({INT32_MAX}, {1});
  EXPECT_EQ((b + 1).item<std::int32_t>(), INT32_MIN);
  EXPECT_EQ(sum(a).item<std::int64_t>(), 300);
}

TEST(Values, SubnormalsReadAsZeroInArithmeticOnly) {
  const Tensor tiny = Tensor::from<float>({1e-40f, -1e-40f}, {2});
  EXPECT_BITS_EQ(tiny * 1.0, Tensor::from<float>({0.0f, -0.0f}, {2}));
  EXPECT_BITS_EQ(contiguous(tiny.flip({0})), Tensor::from<float>({-1e-40f, 1e-40f}, {2}));
  // The smallest normal is a result of no arithmetic.
  EXPECT_BITS_EQ(full({1}, 0x1p-126) * 1.0, zeros({1}));
}

TEST(Values, SoftmaxOfMinusInfinityIsNaN) {
  EXPECT_BITS_EQ(softmax(full({2, 3}, -kInfinity), -1), full({2, 3}, kNaN));
  EXPECT_EQ(logsumexp(full({3}, -kInfinity), {0}).item<float>(), -kInfinity);
}

TEST(Values, NaNWinsMaximumAndMinimum) {
  const Tensor x = Tensor::from<float>({1, kNaN, -kInfinity}, {3});
  EXPECT_TRUE(std::isnan(amax(x).item<float>()));
  EXPECT_TRUE(std::isnan(amin(x).item<float>()));
  EXPECT_EQ(argmax(x).item<std::int64_t>(), 1);
  EXPECT_EQ(argmin(x).item<std::int64_t>(), 1);
}

TEST(Values, TheSmallestNormalCompetesAsItIsAndLeavesAsZero) {
  // -2^-126 loses against either zero; only as a result does it become one.
  const float least = -0x1p-126f;
  for (const Shape& shape : {Shape{3, 1}, Shape{3, 100}, Shape{3, 700}}) {
    same_everywhere([&](Device device) {
      const Tensor rows = Tensor::from<float>({least, least, 0.0f}, {3, 1}, device).expand(shape);
      return cat({amax(rows, {0}), amin(-rows, {0}), amax(rows.transpose(0, 1), {1}), amax(rows.narrow(0, 0, 2), {0})});
    });
  }
}

TEST(Values, TiesGiveTheFirstIndex) {
  EXPECT_EQ(argmax(Tensor::from<float>({0, 3, 3, -0.0f}, {4})).item<std::int64_t>(), 1);
  EXPECT_EQ(argmin(Tensor::from<float>({1, 0, -0.0f, 0}, {4})).item<std::int64_t>(), 1);
}

TEST(Values, EmptySumsAreZero) {
  EXPECT_BITS_EQ(sum(zeros({0, 3}), {0}), zeros({3}));
  EXPECT_BITS_EQ(prod(zeros({0, 3}), {0}), ones({3}));
  EXPECT_BITS_EQ(matmul(zeros({2, 0}), zeros({0, 3})), zeros({2, 3}));
  EXPECT_THROW(amax(zeros({0, 3}), {0}), ShapeError);
}

TEST(Values, LayerNormOfAFarAwayMeanIsExactEnough) {
  // Two passes: the deviation 0.01 survives a mean of 30.
  std::vector<float> row;
  for (int i = 0; i < 64; ++i) row.push_back(30.0f + 0.01f * (i % 2 == 0 ? 1.0f : -1.0f));
  const Floats y = values<float>(layer_norm(Tensor::from(row, {1, 64}), {64}, std::nullopt, std::nullopt, 0.0));
  for (const float value : y) EXPECT_NEAR(std::fabs(value), 1.0f, 1e-3f);  // torch: 1 to four digits
}

TEST(Values, HalvesRoundOncePerOp) {
  const Tensor x = full({1}, 2049.0, {.dtype = DType::f16});  // rounds to 2048
  EXPECT_EQ(x.item<float>(), 2048.0f);
  // linear rounds once, after the bias: 2048 + 0.75 * 2 would lose twice if rounded in between.
  const Tensor w = Tensor::from<float>({1, 0.0625}, {1, 2}).to(DType::f16);
  const Tensor in = Tensor::from<float>({2048, 15}, {1, 2}).to(DType::f16);
  const Tensor bias = Tensor::from<float>({0.5}, {1}).to(DType::f16);
  EXPECT_EQ(linear(in, w, bias).item<float>(), 2050.0f);  // 2048 + 0.9375 + 0.5 = 2049.4375
}

TEST(Values, ArangeAndCreation) {
  EXPECT_EQ(values<std::int64_t>(arange(2, 11, 3)), (Longs{2, 5, 8}));
  EXPECT_EQ(values<std::int64_t>(arange(3, 0, -1)), (Longs{3, 2, 1}));
  EXPECT_EQ(values<float>(arange(0, 1, 0.25, {.dtype = DType::f32})), (Floats{0, 0.25, 0.5, 0.75}));
  EXPECT_EQ(arange(5, 2).numel(), 0);
  EXPECT_EQ(values<float>(full({2, 2}, 1.5)), Floats(4, 1.5f));
}

TEST(Values, SlicesFollowPython) {
  const Tensor x = arange(0, 10);
  EXPECT_EQ(values<std::int64_t>(x.slice(0, {.start = -3})), (Longs{7, 8, 9}));
  EXPECT_EQ(values<std::int64_t>(x.slice(0, {.stop = -8})), (Longs{0, 1}));
  EXPECT_EQ(values<std::int64_t>(x.slice(0, {.step = -3})), (Longs{9, 6, 3, 0}));
  EXPECT_EQ(values<std::int64_t>(x.slice(0, {.start = 100})), Longs{});
  EXPECT_EQ(values<std::int64_t>(x.slice(0, {.start = 2, .stop = INT64_MAX, .step = INT64_MAX})), (Longs{2}));
  EXPECT_EQ(values<std::int64_t>(x.reshape({2, -1}).permute({1, 0}).flatten()), (Longs{0, 5, 1, 6, 2, 7, 3, 8, 4, 9}));
}

TEST(Values, UnalignedBorrowedMemory) {
  std::vector<std::byte> bytes(4 * 33 + 1);
  std::vector<float> expected;
  for (int i = 0; i < 33; ++i) {
    const float value = static_cast<float>(i);
    std::memcpy(bytes.data() + 1 + 4 * i, &value, 4);
    expected.push_back(value * 2);
  }
  const Tensor x = Tensor::from_blob(bytes.data() + 1, {33}, DType::f32);
  EXPECT_EQ(values<float>(x * 2.0), expected);
  EXPECT_EQ(sum(x).item<float>(), 528.0f);
}

TEST(Random, SeededRunsAgreeAndDrawsDiffer) {
  manual_seed(5);
  const Tensor a = rand({100});
  const Tensor b = rand({100});
  manual_seed(5);
  EXPECT_BITS_EQ(a, rand({100}));
  EXPECT_NE(a.hash(), b.hash());
  EXPECT_NE(Generator().seed(), Generator().seed());
}

TEST(Random, SameOnEveryDevice) {
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
    same_everywhere([&](Device device) {
      Generator generator(11);
      return rand({257}, {dtype, device}, &generator);
    });
    same_everywhere([&](Device device) {
      Generator generator(11);
      return randn({257}, {dtype, device}, &generator);
    });
  }
}

TEST(Random, DistributionsLookRight) {
  Generator generator(3);
  const Tensor u = rand({100000}, {}, &generator);
  EXPECT_GE(amin(u).item<float>(), 0.0f);
  EXPECT_LT(amax(u).item<float>(), 1.0f);
  EXPECT_LT(std::fabs(mean(u).item<float>() - 0.5f), 0.005f);
  const Tensor n = randn({100000}, {}, &generator);
  EXPECT_LT(std::fabs(mean(n).item<float>()), 0.02f);
  EXPECT_LT(std::fabs(std(n).item<float>() - 1.0f), 0.02f);
}

}  // namespace
}  // namespace lockstep

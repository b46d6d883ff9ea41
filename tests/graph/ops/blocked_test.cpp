// Numerics::blocked (docs/numerics.md section 12): which products have it, its bits on every device, its edge cases,
// and its error against exact sums.
#include <lockstep/numerics.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <lockstep/lockstep.h>

#include "backends/backend.h"
#include "graph/ops/contraction.h"
#include "graph/values.h"
#include "support/long_forms.h"
#include "support/tensors.h"

namespace lockstep {
namespace {

Tensor blocked(const std::function<Tensor()>& compute) {
  const NumericsScope scope(Numerics::blocked);
  return compute();
}

Tensor from(const std::vector<float>& values, const Shape& shape, DType dtype = DType::bf16) {
  return Tensor::from(values, shape).to(dtype);
}

// f32, so that what the rounding of a result hides is seen.
Tensor wide_product(const Tensor& a, const Tensor& b) {
  return blocked([&] { return graph::batched_matmul(a, b); });
}

// --- what has them

TEST(BlockedNumerics, BelongToTheThreadsScope) {
  EXPECT_EQ(current_numerics(), Numerics::exact);
  {
    const NumericsScope outer(Numerics::blocked);
    EXPECT_EQ(current_numerics(), Numerics::blocked);
    const NumericsScope inner(Numerics::exact);
    EXPECT_EQ(current_numerics(), Numerics::exact);
  }
  EXPECT_EQ(current_numerics(), Numerics::exact);
  EXPECT_EQ(numerics_from_name("blocked"), Numerics::blocked);
  expect_error<ValueError>([] { numerics_from_name("quick"); }, {"\"quick\"", "\"blocked\""});
  expect_error<ValueError>([] { const NumericsScope scope(static_cast<Numerics>(7)); }, {"NumericsScope", "number 7"});
}

// 0.75 = 1.5 * 2^-1 beside 2^14: an element of 15 bits loses it, f32 does not.
TEST(BlockedNumerics, AreThoseOfSixteenBitsAlone) {
  const std::vector<float> beside{16384.0f, 0.75f};
  const auto second = [&](DType dtype) {
    const Tensor unit = from({0.0f, 1.0f}, {2}, dtype);
    return blocked([&] { return dot(from(beside, {2}, dtype), unit); }).item<float>();
  };
  EXPECT_EQ(second(DType::f32), 0.75f);
  EXPECT_EQ(second(DType::bf16), 0.0f);
  EXPECT_EQ(second(DType::f16), 0.0f);
  // The choice is made when the product is, not when it is computed; and Autocast's casts follow.
  const Tensor lazy = blocked([&] { return dot(from(beside, {2}), from({0, 1}, {2})); });
  EXPECT_EQ(lazy.item<float>(), 0.0f);
  const Autocast cast(DType::bf16);
  const Tensor x = Tensor::from(beside, {2});
  const Tensor unit = Tensor::from(std::vector<float>{0, 1}, {2});
  EXPECT_EQ(dot(x, unit).item<float>(), 0.75f);
  EXPECT_EQ(blocked([&] { return dot(x, unit); }).item<float>(), 0.0f);
}

TEST(BlockedNumerics, GradientsHaveThoseOfTheirOp) {
  const auto gradient = [&](bool scope_at_op, bool scope_at_gradient) {
    const Tensor x = requires_grad(from({1, 1}, {1, 2}));
    const Tensor w = from({16384, 0.75f, 0.75f, 16384}, {2, 2});
    const Numerics at_op = scope_at_op ? Numerics::blocked : Numerics::exact;
    const Numerics at_gradient = scope_at_gradient ? Numerics::blocked : Numerics::exact;
    const Tensor y = [&] {
      const NumericsScope scope(at_op);
      return matmul(x, w);
    }();
    const NumericsScope scope(at_gradient);
    // Of x[0]: 0 * 16384 + 1 * 0.75.
    return gradients(sum(y * from({0, 1}, {1, 2})), {x})[0].to(DType::f32).to_vector<float>()[0];
  };
  EXPECT_EQ(gradient(false, false), 0.75f);
  EXPECT_EQ(gradient(false, true), 0.75f);
  EXPECT_EQ(gradient(true, false), 0.0f);
  EXPECT_EQ(gradient(true, true), 0.0f);
}

TEST(BlockedNumerics, CheckpointsComputeAgainAsBefore) {
  const Tensor x = random_tensor({4, 300}, DType::bf16, 1);
  const Tensor w = random_tensor({300, 5}, DType::bf16, 2);
  const auto gradient = [&](bool again) {
    const Tensor leaf = requires_grad(w);
    const auto f = [&](const std::vector<Tensor>& in) { return tanh(matmul(x, in[0])); };
    const Tensor y = blocked([&] { return again ? checkpoint(f, {leaf}) : f({leaf}); });
    return gradients(sum(y), {leaf})[0];
  };
  EXPECT_BITS_EQ(gradient(true), gradient(false));
}

// --- the same bits everywhere

TEST(BlockedNumerics, ProductsOfEveryShapeAreTheSameEverywhere) {
  struct Product {
    std::int64_t batch, m, n, k;
  };
  std::uint64_t seed = 0;
  for (const Product& p : {Product{1, 1, 1, 1},
                           {1, 3, 2, 0},
                           {1, 5, 7, 3},
                           {1, 15, 33, 127},
                           {1, 14, 32, 128},
                           {1, 29, 65, 129},
                           {1, 1, 9, 1025},
                           {2, 33, 3, 258},
                           {3, 8, 17, 384},
                           {1, 70, 66, 260},
                           {1, 1, 1, 2000}}) {
    for (const DType dtype : {DType::bf16, DType::f16}) {
      for (const bool special : {false, true}) {
        ++seed;
        SCOPED_TRACE(std::to_string(p.batch) + " x " + std::to_string(p.m) + " x " + std::to_string(p.n) + " x " +
                     std::to_string(p.k) + " " + std::string(name_of(dtype)));
        same_everywhere([&](Device device) {
          const bool turned = seed % 4 == 0;
          const Tensor a = random_tensor({p.batch, p.m, p.k}, dtype, seed, device, special);
          const Tensor b = turned
                               ? random_tensor({p.batch, p.n, p.k}, dtype, seed + 100, device, special).transpose(1, 2)
                               : random_tensor({p.batch, p.k, p.n}, dtype, seed + 100, device, special);
          return blocked([&] { return turned ? relu(matmul(a, b)) + 1 : matmul(a, b); });
        });
      }
    }
  }
}

TEST(BlockedNumerics, ConvolutionsAndAttentionAreTheSameEverywhere) {
  same_everywhere([](Device device) {
    const Tensor x = random_tensor({2, 16, 9, 7}, DType::bf16, 1, device);
    const Tensor w = random_tensor({6, 8, 3, 3}, DType::bf16, 2, device);
    const Tensor bias = random_tensor({6}, DType::bf16, 3, device);
    return blocked([&] { return conv2d(x, w, bias, {.stride = {2, 1}, .padding = {1, 1}, .groups = 2}); });
  });
  same_everywhere([](Device device) {
    const Tensor x = random_tensor({2, 6, 5, 4}, DType::f16, 1, device);
    const Tensor w = random_tensor({6, 5, 3, 3}, DType::f16, 2, device);
    return blocked([&] { return conv_transpose2d(x, w, {}, {.stride = {2, 2}, .padding = {1, 1}}); });
  });
  same_everywhere([](Device device) {
    const Tensor leaf = requires_grad(random_tensor({2, 150, 9}, DType::bf16, 1, device));
    const Tensor key = random_tensor({2, 150, 9}, DType::bf16, 2, device);
    return blocked([&] {
      const Tensor y = scaled_dot_product_attention(leaf, key, key, {.causal = true});
      return cat({y, gradients(sum(y * key), {leaf})[0]}, 0);
    });
  });
}

struct WholeAttention {
  std::int64_t batch, heads, key_heads, rows, keys, width;
  bool causal;
  CausalAlignment alignment = CausalAlignment::top_left;
};

// The bits of the composition on the CPU, where a device computes attention and its gradients as one kernel each: also
// where hidden keys are no numbers, where values overflow, and where softmax's sums have several chunks.
TEST(BlockedNumerics, AttentionAsOneKernelIsItsComposition) {
  std::vector<Device> devices = test_devices();
  std::erase_if(devices, [](Device device) { return !backend_of(device).has_blocked_attention(); });
  if (devices.empty()) GTEST_SKIP() << "no device under test has it: LOCKSTEP_TEST_DEVICES";
  const WholeAttention cases[] = {
      {2, 3, 3, 128, 128, 64, true},
      {1, 2, 2, 150, 150, 64, true},
      {1, 2, 2, 77, 333, 32, false},
      {2, 4, 2, 128, 300, 128, false},
      {1, 4, 2, 130, 200, 64, true, CausalAlignment::bottom_right},
      {1, 2, 2, 300, 140, 96, true},
      {1, 2, 1, 256, 700, 64, true},
      {1, 1, 1, 40, 9000, 64, false},
      {1, 2, 2, 600, 600, 64, true},
  };
  const char* const kinds[] = {"plain",
                               "a value that is NaN",
                               "an infinite key",
                               "an infinite upstream gradient",
                               "a large query",
                               "tiny values",
                               "sharp"};
  std::uint64_t seed = 0;
  for (const WholeAttention& c : cases) {
    for (int kind = 0; kind < 7; ++kind) {
      const DType dtype = ++seed % 3 == 0 ? DType::f16 : DType::bf16;
      const auto planted = [](const Tensor& x, double share, double value) {
        const std::int64_t size = x.shape()[2];
        const Tensor at = arange(0, static_cast<double>(size), 1, {.dtype = DType::i64, .device = x.device()});
        const double place = std::floor(share * static_cast<double>(size));
        return where(at.reshape({size, 1}) == place, full({}, value, {x.dtype(), x.device()}), x);
      };
      const auto compute = [&](Device device) {
        std::vector<Tensor> x;
        for (int i = 0; i < 4; ++i) {
          const bool of_keys = i == 1 || i == 2;
          const Shape shape{c.batch, of_keys ? c.keys : c.rows, of_keys ? c.key_heads : c.heads, c.width};
          Tensor one = random_tensor(shape, dtype, 10 * seed + static_cast<std::uint64_t>(i), device).transpose(1, 2);
          if (kind == 1 && i == 2) one = planted(one, 0.6, std::numeric_limits<double>::quiet_NaN());
          if (kind == 2 && i == 1) one = planted(one, 0.5, std::numeric_limits<double>::infinity());
          if (kind == 3 && i == 3) one = planted(one, 0.7, std::numeric_limits<double>::infinity());
          if (kind == 4 && i == 0) one = planted(one, 0.3, dtype == DType::bf16 ? 1e30 : 6e4);
          if (kind == 5 && i == 2) one = one * (dtype == DType::bf16 ? 1e-38 : 1e-7);
          if (kind == 6 && i == 0) one = one * 40.0;
          x.push_back(i == 3 ? one : requires_grad(one));
        }
        const NumericsScope scope(Numerics::blocked);
        const Tensor y = scaled_dot_product_attention(
            x[0], x[1], x[2], {.causal = c.causal, .alignment = c.alignment, .enable_gqa = c.heads != c.key_heads});
        std::vector<Tensor> all = gradients(y, {x[0], x[1], x[2]}, {.seed = x[3]});
        all.push_back(detach(y));
        for (Tensor& one : all) one = one.to(Device{DeviceKind::cpu, 0}).eval();
        return all;
      };
      const std::vector<Tensor> expected = compute(Device{DeviceKind::cpu, 0});
      for (const Device device : devices) {
        const std::vector<Tensor> got = compute(device);
        for (std::size_t i = 0; i < got.size(); ++i) {
          EXPECT_BITS_EQ(got[i], expected[i])
              << (i == 3   ? "result"
                  : i == 0 ? "of queries"
                  : i == 1 ? "of keys"
                           : "of values")
              << " of " << kinds[kind] << " on " << device.to_string() << ": " << c.batch << " x " << c.heads << " / "
              << c.key_heads << " heads, " << c.rows << " x " << c.keys << " x " << c.width
              << (c.causal ? " causal" : "");
        }
      }
    }
  }
}

// A convolution is the product of its windows.
TEST(BlockedNumerics, ConvolutionsAreProductsOfTheirWindows) {
  const Tensor x = random_tensor({1, 20, 6, 5}, DType::bf16, 1);
  const Tensor w = random_tensor({3, 20, 3, 3}, DType::bf16, 2);
  const Tensor direct = blocked([&] { return conv2d(x, w, {}, {.padding = {1, 1}}); });
  const Tensor columns = unfold(x, {3, 3}, {.padding = {1, 1}});  // [1, 180, 30]
  const Tensor product = blocked([&] { return matmul(w.reshape({3, 180}), columns.squeeze(0)); });
  EXPECT_BITS_EQ(direct.reshape({3, 30}), product);
}

TEST(BlockedNumerics, ARowAloneIsTheRowInABatch) {
  const Tensor a = random_tensor({37, 517}, DType::bf16, 1);
  const Tensor b = random_tensor({517, 41}, DType::bf16, 2);
  const Tensor all = wide_product(a, b);
  for (const std::int64_t row : {0, 13, 36}) {
    EXPECT_BITS_EQ(wide_product(a.narrow(0, row, 1), b), all.narrow(0, row, 1));
  }
  // Nor do the other queries of a call show in attention, where all keys are given.
  const Tensor q = random_tensor({1, 200, 16}, DType::bf16, 3);
  const Tensor k = random_tensor({1, 300, 16}, DType::bf16, 4);
  const auto attend = [&](std::int64_t first, std::int64_t count) {
    return blocked([&] {
      return scaled_dot_product_attention(q.narrow(1, first, count), k, k, {.causal = true, .first_query = 50 + first});
    });
  };
  EXPECT_BITS_EQ(attend(0, 200).narrow(1, 130, 1), attend(130, 1));
}

// As recorded: the definition does not move.
TEST(BlockedNumerics, HaveTheBitsThatWereRecorded) {
  const auto hash_of = [](DType dtype) {
    const Tensor a = ((arange(0, 900, 1, {.dtype = DType::f32}) * 37 % 101 - 50) / 7).reshape({3, 300}).to(dtype);
    const Tensor b = ((arange(0, 1200, 1, {.dtype = DType::f32}) * 53 % 97 - 48) / 9).reshape({300, 4}).to(dtype);
    return blocked([&] { return matmul(a, b); }).hash();
  };
  EXPECT_EQ(hash_of(DType::bf16), 0x45b7532575bf3ef8u);
  EXPECT_EQ(hash_of(DType::f16), 0x79ecde51b1e7cfc0u);
}

// --- edge cases

TEST(BlockedNumerics, WhatIsNoNumberMakesItsBlocksResultsNaN) {
  for (const float bad : {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN(), 0x1p119f, -0x1.8p127f}) {
    std::vector<float> a(2 * 300, 0.0f);
    a[150] = bad;  // of the first row
    a[300] = 1;    // of the second
    const Tensor y = wide_product(from(a, {2, 300}), ones({300, 3}, {.dtype = DType::bf16}));
    const std::vector<float> values = y.to_vector<float>();
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(std::isnan(values[static_cast<std::size_t>(i)])) << bad;
    for (int i = 3; i < 6; ++i) EXPECT_EQ(values[static_cast<std::size_t>(i)], 1) << bad;
    // Whatever the other block holds, zeros included.
    const Tensor zero = wide_product(from(a, {2, 300}), zeros({300, 1}, {.dtype = DType::bf16}));
    EXPECT_TRUE(std::isnan(zero.to_vector<float>()[0]));
  }
}

TEST(BlockedNumerics, EndsOfTheExponentRange) {
  const auto product = [](float a, float b) {
    return wide_product(from({a}, {1, 1}), from({b}, {1, 1})).item<float>();
  };
  EXPECT_EQ(product(0x1p118f, 0x1p-106f), 0x1p12f);
  EXPECT_EQ(product(0x1p-106f, 0x1p118f), 0x1p12f);
  EXPECT_EQ(product(0x1p118f, 0x1p9f), 0x1p127f);
  EXPECT_EQ(product(0x1p118f, 0x1p10f), kInfinity);
  EXPECT_EQ(product(-0x1p100f, 0x1p100f), -kInfinity);
  // Powers of two down to 2^-120 are whole steps of the least exponent; below, ties to even.
  EXPECT_EQ(product(0x1p-120f, 0x1p100f), 0x1p-20f);
  EXPECT_EQ(product(0x1p-121f, 0x1p100f), 0.0f);
  EXPECT_EQ(product(0x1.8p-120f, 0x1p100f), 0x1p-19f);
  // Results at and below the smallest normal number are zeros of their sign.
  EXPECT_EQ(product(0x1p-60f, 0x1p-65f), 0x1p-125f);
  EXPECT_EQ(product(0x1p-60f, 0x1p-66f), 0.0f);
  EXPECT_TRUE(std::signbit(product(-0x1p-60f, 0x1p-66f)));
  EXPECT_EQ(product(0.0f, -1.0f), 0.0f);
  EXPECT_FALSE(std::signbit(product(0.0f, -1.0f)));
}

// q has 15 bits and a sign, nearest, ties to even.
TEST(BlockedNumerics, ElementsRoundToFifteenBitsOfTheirBlock) {
  const auto rounded = [](float x) {
    return wide_product(from({16383, x}, {1, 2}, DType::f16), from({0, 1}, {2, 1}, DType::f16)).item<float>();
  };
  // The largest, as f16 16384, has the exponent 15: steps of 2.
  EXPECT_EQ(rounded(1.0f), 0.0f);
  EXPECT_EQ(rounded(3.0f), 4.0f);
  EXPECT_EQ(rounded(-5.0f), -4.0f);
  EXPECT_EQ(rounded(1.5f), 2.0f);
}

// --- error

double nearest_f64(const std::vector<double>& a, const std::vector<double>& b) {
  long double sum = 0;
  for (std::size_t k = 0; k < a.size(); ++k) sum += static_cast<long double>(a[k]) * b[k];
  return static_cast<double>(sum);
}

// The bound of docs/numerics.md section 12.
double error_bound(const std::vector<double>& a, const std::vector<double>& b) {
  double bound = 0;
  double partials = 0;
  for (std::size_t k = 0; k < a.size(); k += 128) {
    const std::size_t end = std::min(k + 128, a.size());
    double largest_a = 0, largest_b = 0, sum_a = 0, sum_b = 0, products = 0;
    for (std::size_t i = k; i < end; ++i) {
      largest_a = std::max(largest_a, std::fabs(a[i]));
      largest_b = std::max(largest_b, std::fabs(b[i]));
      sum_a += std::fabs(a[i]);
      sum_b += std::fabs(b[i]);
      products += std::fabs(a[i] * b[i]);
    }
    const double count = static_cast<double>(end - k);
    bound += 0x1p-14 * (largest_a * sum_b + largest_b * sum_a) + (count * 0x1p-28 + 0x1p-20) * largest_a * largest_b;
    partials += products;
  }
  const double blocks = std::ceil(static_cast<double>(a.size()) / 128);
  return bound + (blocks + 2) * 0x1p-24 * (partials + bound);
}

TEST(BlockedNumerics, ErrorStaysBelowTheBound) {
  std::mt19937_64 random(7);
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform(1e-9, 1);
  constexpr std::size_t kRows = 6;
  constexpr std::size_t kColumns = 5;
  constexpr std::size_t kLength = 1000;
  struct Data {
    const char* name;
    std::function<double(std::size_t k)> value;
    double mean;  ///< Frobenius error, relative
  };
  const Data kinds[] = {
      {"normal", [&](std::size_t) { return normal(random); }, 1e-4},
      {"1 % of the channels x 100", [&](std::size_t k) { return normal(random) * (k % 100 == 7 ? 100 : 1); }, 1e-3},
      {"lognormal", [&](std::size_t) { return std::exp(normal(random)) * (normal(random) < 0 ? -1 : 1); }, 1e-3},
      {"heavy tails", [&](std::size_t) { return normal(random) / std::sqrt(-std::log(uniform(random))); }, 1e-3},
      {"one large in each block", [&](std::size_t k) { return k % 128 == 64 ? 3e4 : normal(random) * 1e-3; }, 1},
      {"half a step everywhere", [&](std::size_t k) { return k % 128 == 0 ? 16000 : 0.5; }, 1},
  };
  for (const Data& kind : kinds) {
    for (const DType dtype : {DType::bf16, DType::f16}) {
      SCOPED_TRACE(std::string(kind.name) + " " + std::string(name_of(dtype)));
      std::vector<float> a, b;
      for (std::size_t i = 0; i < kRows * kLength; ++i) a.push_back(static_cast<float>(kind.value(i % kLength)));
      for (std::size_t i = 0; i < kColumns * kLength; ++i) b.push_back(static_cast<float>(kind.value(i % kLength)));
      const Tensor left = from(a, {kRows, kLength}, dtype);
      const Tensor right = from(b, {kColumns, kLength}, dtype);
      const std::vector<float> got = wide_product(left, right.transpose(0, 1)).to_vector<float>();
      const std::vector<double> rows = left.to(DType::f64).to_vector<double>();
      const std::vector<double> columns = right.to(DType::f64).to_vector<double>();
      double errors = 0, squares = 0;
      for (std::size_t m = 0; m < kRows; ++m) {
        for (std::size_t n = 0; n < kColumns; ++n) {
          const auto slice = [](const std::vector<double>& all, std::size_t at) {
            const auto begin = all.begin() + static_cast<std::ptrdiff_t>(at * kLength);
            return std::vector<double>(begin, begin + kLength);
          };
          const std::vector<double> x = slice(rows, m);
          const std::vector<double> y = slice(columns, n);
          const double exact = nearest_f64(x, y);
          const double error = std::fabs(got[m * kColumns + n] - exact);
          EXPECT_LE(error, error_bound(x, y));
          errors += error * error;
          squares += exact * exact;
        }
      }
      EXPECT_LT(std::sqrt(errors / squares), kind.mean);
    }
  }
}

// --- training

// A small network in bf16 with f32 parameters: 20 steps end in the same weights everywhere.
TEST(BlockedNumerics, ATrainedNetworkIsTheSameEverywhere) {
  const auto trained = [](Device device, Numerics numerics) {
    manual_seed(3);
    nn::Sequential net;
    net.add<nn::Conv2d>(1, 4, Shape{3, 3}, nn::ConvLayerOptions{.padding = {1, 1}});
    net.add<nn::ReLU>();
    net.add<nn::Flatten>();
    net.add<nn::Linear>(4 * 64, 24);
    net.add<nn::Tanh>();
    net.add<nn::Linear>(24, 10);
    net.to(device);
    optim::AdamW optimizer(net.parameters(), {.lr = 1e-2});
    const Tensor x = random_tensor({12, 1, 8, 8}, DType::f32, 5, device);
    const Tensor y = (arange(0, 12, 1, {.dtype = DType::i64, .device = device}) % 10);
    for (int step = 0; step < enough_of(20); ++step) {
      const NumericsScope scope(numerics);
      const Autocast cast(DType::bf16);
      optimizer.step(cross_entropy(net.forward(x), y));
    }
    return nn::state_hash(net.state_dict());
  };
  const std::uint64_t expected = trained({DeviceKind::ref, 0}, Numerics::blocked);
  for (const Device& device : test_devices()) {
    EXPECT_EQ(trained(device, Numerics::blocked), expected) << device.to_string();
  }
  EXPECT_NE(trained({DeviceKind::cpu, 0}, Numerics::exact), expected);
}

}  // namespace
}  // namespace lockstep

// What went wrong in other frameworks, at the shapes where it did. Each test is named for the mistake; the numbers of
// reports stand beside it. What is compared: the specification on `ref`, a plain copy of a view, or a known value.
#include <lockstep/ops.h>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <thread>

#include "graph/values.h"
#include "support/tensors.h"

namespace lockstep {
namespace {

// The same values in memory of their own.
// --- layout ---------------------------------------------------------------------------------------------------------

// candle 3735, 3736, 3836, 3853, 3893, 3894
TEST(Incidents, ConvolutionWithATransposedKernel) {
  same_everywhere([](Device device) {
    const Tensor x = random({1, 2, 3, 3}, 1, device);
    const Tensor w = random({2, 2, 2, 2}, 2, device).transpose(0, 1);
    EXPECT_BITS_EQ(conv2d(x, w), conv2d(x, copied(w)));
    return conv2d(x, w);
  });
  same_everywhere([](Device device) {
    const Tensor x = random({1, 3, 5, 5}, 1, device);
    const Tensor w = random({4, 6, 1, 1}, 2, device).narrow(1, 2, 3);
    EXPECT_BITS_EQ(conv2d(x, w), conv2d(x, copied(w)));
    return conv2d(x, w);
  });
  same_everywhere([](Device device) {
    const Tensor x = random({2, 3, 9}, 1, device);
    const Tensor w = random({3, 4, 2}, 2, device).permute({1, 0, 2});
    EXPECT_BITS_EQ(conv1d(x, w), conv1d(x, copied(w)));
    return conv1d(x, w);
  });
}

// candle 3404, 3405: strides of NCHW and NHWC coincide when C = H = W
TEST(Incidents, ConvolutionOfACube) {
  same_everywhere([](Device device) {
    const Tensor x = random({1, 4, 4, 4}, 1, device);
    const Tensor w = random({8, 4, 3, 3}, 2, device);
    const Tensor y = conv2d(x, w, std::nullopt, {.padding = {1}});
    const Tensor channels_last = copied(x.permute({0, 2, 3, 1})).permute({0, 3, 1, 2});
    EXPECT_BITS_EQ(conv2d(channels_last, w, std::nullopt, {.padding = {1}}), y);
    return y;
  });
}

// candle 3711, 3706
TEST(Incidents, GatherFromATransposedSource) {
  for (const int dim : {0, 1}) {
    same_everywhere([&](Device device) {
      const Tensor x = random({4, 6}, 1, device).transpose(0, 1);
      const Tensor ids = Tensor::from<std::int64_t>({0, 3, 2, 1, 1, 0, 3, 2}, {2, 4}, device);
      EXPECT_BITS_EQ(gather(x, dim, ids), gather(copied(x), dim, ids));
      return gather(x, dim, ids);
    });
  }
}

// candle 3847, 3873
TEST(Incidents, ReductionOfExpandedTensorsOfRankFive) {
  same_everywhere([](Device device) {
    return sum(square(random({1, 1, 4, 6}, 1, device).unsqueeze(2).expand({1, 1, 3, 4, 6})));
  });
  same_everywhere([](Device device) { return sum(random({1, 1, 512, 64, 2}, 1, device), {2, 4}); });
}

// candle 3875
TEST(Incidents, ArgsortOfANarrowedView) {
  same_everywhere([](Device device) {
    const Tensor x = Tensor::from<float>({1, 2, 3, 30, 10, 20}, {2, 3}, device);
    const Tensor order = argsort(x.narrow(0, 1, 1));
    EXPECT_EQ(order.to_vector<std::int64_t>(), (std::vector<std::int64_t>{1, 2, 0}));
    return order;
  });
}

// candle 1905, 1948, 1992, 2373, 3307, 3370, 2737, 3138, 2832
TEST(Incidents, MatmulTakesEveryLegalStride) {
  const Tensor x = random({1, 1250, 416}, 1).reshape({1, 1250, 8, 52}).transpose(1, 2);
  const Tensor y = matmul(x, x.transpose(-1, -2));
  EXPECT_BITS_EQ(y, matmul(copied(x), copied(x.transpose(-1, -2))));
  same_everywhere([](Device device) {
    const Tensor a = random({1, 1792}, 1, device);
    return matmul(a.transpose(0, 1).narrow(0, 5, 8), random({17920, 1}, 2, device).narrow(0, 256, 256).transpose(0, 1));
  });
}

// candle 1037, 1022
TEST(Incidents, IndexSelectAlongInnerDimensions) {
  for (const int dim : {1, 2}) {
    same_everywhere([&](Device device) {
      const Tensor x = random({3, 4, 5}, 1, device);
      const Tensor picked = index_select(x, dim, Tensor::from<std::int64_t>({3, 0, 3}, {3}, device));
      EXPECT_BITS_EQ(picked.select(dim, 1), x.select(dim, 0));
      EXPECT_BITS_EQ(picked.select(dim, 2), x.select(dim, 3));
      return picked;
    });
  }
}

// candle: unreported
TEST(Incidents, GatherWithFewerIdsThanTheSource) {
  same_everywhere([](Device device) {
    const Tensor x = arange(0, 16, 1, {.dtype = DType::i64, .device = device}).reshape({4, 4});
    const Tensor y = gather(x, 0, Tensor::from<std::int64_t>({0, 1, 2, 3}, {2, 2}, device));
    EXPECT_EQ(y.to_vector<std::int64_t>(), (std::vector<std::int64_t>{0, 5, 8, 13}));
    return y;
  });
}

// --- sizes ----------------------------------------------------------------------------------------------------------

void expect_sorted(const Shape& shape) {
  const Tensor x = random(shape, 1);
  const Tensor order = argsort(x);
  const Tensor sorted = take_along_dim(x, order, -1);
  const std::int64_t n = shape.back();
  if (n > 1) {
    EXPECT_TRUE(all(sorted.narrow(-1, 0, n - 1) <= sorted.narrow(-1, 1, n - 1)).item<bool>()) << shape.to_string();
  }
  // A permutation: every position once.
  const Tensor positions = sort(order).values;
  EXPECT_BITS_EQ(positions, arange(0, static_cast<double>(n)).expand(shape));
}

// candle 2570, 3704, 2361, 2181, 3050; llama 16849, 21181
TEST(Incidents, ArgsortOfLongRowsAndOfManyRows) {
  for (const std::int64_t n : {1, 1023, 1024, 1025, 2048, 4097, 8192, 8193, 32000, 151936}) expect_sorted({1, n});
  expect_sorted({70000, 8});
}

// candle 3394
TEST(Incidents, ScalarOpsOnOneSmallElement) {
  same_everywhere([](Device device) { return full({1}, 3, {.dtype = DType::f16, .device = device}) * 2 + 1; });
  same_everywhere([](Device device) { return full({1}, 3, {.dtype = DType::u8, .device = device}) * 2 + 1; });
  EXPECT_EQ((full({1}, 3, {.dtype = DType::u8}) * 2 + 1).item<std::uint8_t>(), 7);
}

// llama 22944, 18164, 18180: the grid's second dimension is at most 65535
TEST(Incidents, ConvolutionOfLongSound) {
  const Tensor x = random({1, 1, 176000}, 1);
  const Tensor w = random({2, 1, 11}, 2);
  const Tensor y = conv1d(x, w, std::nullopt, {.padding = {5}});
  ASSERT_EQ(y.shape(), (Shape{1, 2, 176000}));
  const Tensor columns = unfold(x.unsqueeze(2), {1, 11}, {.padding = {0, 5}});
  EXPECT_BITS_EQ(matmul(w.reshape({2, 11}), columns), y);
}

// sd 1673, llama 17685
TEST(Incidents, ConvolutionOfALargeImage) {
  const Tensor x = random({1, 1, 1024, 1024}, 1);
  const Tensor w = random({3, 1, 3, 3}, 2);
  const Tensor y = conv2d(x, w, std::nullopt, {.padding = {1}});
  const Tensor corner = conv2d(x.narrow(2, 900, 124).narrow(3, 900, 124), w);
  EXPECT_BITS_EQ(y.narrow(2, 901, 122).narrow(3, 901, 122), corner);
}

// --- precision ------------------------------------------------------------------------------------------------------

// candle 2475
TEST(Incidents, TanhOfLargeNumbers) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    same_everywhere([&](Device device) {
      const Tensor x = arange(-100, 100.5, 0.5, {.dtype = DType::f32, .device = device}).to(dtype);
      EXPECT_TRUE(all(isfinite(tanh(x))).item<bool>());
      return tanh(x);
    });
  }
  EXPECT_EQ(tanh(full({}, 45)).item<float>(), 1);
}

// candle 3477
TEST(Incidents, RmsNormOfLargeValues) {
  same_everywhere([](Device device) {
    const Tensor y = rms_norm(sign(random({4, 6912}, 1, device)) * 7e9, {6912});
    EXPECT_TRUE(all(abs(abs(y) - 1) < 1e-5).item<bool>());
    return y;
  });
}

// candle 1060; sd 10, 117, 563
TEST(Incidents, ConvolutionAndGroupNormOfLargeHalves) {
  same_everywhere([](Device device) {
    const Tensor x = (random({1, 8, 6, 6}, 1, device) * 1e4).to(DType::f16);
    const Tensor w = (random({8, 8, 3, 3}, 2, device) * 0.05).to(DType::f16);
    const Tensor y = conv2d(x, w, std::nullopt, {.padding = {1}});
    EXPECT_BITS_EQ(y, conv2d(x.to(DType::f32), w.to(DType::f32), std::nullopt, {.padding = {1}}).to(DType::f16));
    const Tensor normed = group_norm(y, 4);
    EXPECT_TRUE(all(isfinite(normed)).item<bool>());
    return normed;
  });
  // Partial sums beyond the largest half, results within.
  const Tensor row = Tensor::from<float>({60000, 60000, -60000, -59008}, {1, 4}).to(DType::f16);
  EXPECT_EQ(matmul(row, ones({4, 1}, {.dtype = DType::f16})).to(DType::f32).item<float>(), 992);
}

// llama 13607, 13137: the true value is -68706, past the largest half but not past f32
TEST(Incidents, SumsPastTheLargestHalf) {
  const Tensor a = full({1, 3}, -22902, {.dtype = DType::f16}).to(DType::f32);
  EXPECT_EQ(matmul(a, ones({3, 1})).item<float>(), a.to_vector<float>()[0] * 3);
  EXPECT_LT(matmul(a, ones({3, 1})).item<float>(), -65504);
}

// candle 2367
TEST(Incidents, LogSumExpOfFarApartNumbers) {
  EXPECT_EQ(logsumexp(Tensor::from<float>({-1000, 1000}, {2}), {0}).item<float>(), 1000);
  EXPECT_EQ(logsumexp(full({5}, -kInfinity), {0}).item<float>(), -kInfinity);
}

// candle: fused layer_norm; MLX 2238, onnxruntime 21935, burn 5607
TEST(Incidents, LayerNormOfFarAwayMeans) {
  // The mean of equal numbers is rounded: a bit of noise beside eps, but neither NaN nor large.
  EXPECT_TRUE(all(abs(layer_norm(full({2, 768}, 1000.1), {768})) < 0.05).item<bool>());
  EXPECT_BITS_EQ(layer_norm(full({1, 256}, 1234.0), {256}), zeros({1, 256}));
  for (const double mean : {0.0, 1e2, 1e3, 1e4}) {
    same_everywhere([&](Device device) {
      const Tensor x = (arange(0, 768, 1, {.dtype = DType::f64, .device = device}) * 1e-3 + mean).to(DType::f32);
      const Tensor y = layer_norm(x, {768});
      const Tensor exact = layer_norm(x.to(DType::f64), {768}).to(DType::f32);
      EXPECT_LT(amax(abs(y - exact)).item<float>(), 2e-3 * std::max(1.0, mean / 1e3)) << mean;
      return y;
    });
  }
}

// llama 26708: rows that leave part of a group of lanes
TEST(Incidents, NormsOfRowsThatDoNotFillTheLanes) {
  for (const std::int64_t n : {33, 132, 260}) {
    same_everywhere([&](Device device) { return layer_norm(random({3, n}, 1, device), {n}); });
    same_everywhere([&](Device device) { return rms_norm(random({3, n}, 1, device), {n}); });
    same_everywhere([&](Device device) { return softmax(random({3, n}, 1, device), -1); });
  }
}

// ggml 970: 721.5 where 720 is exact
TEST(Incidents, ConvolutionOfConstantsIsExact) {
  const Tensor y = conv2d(full({1, 32, 28, 40}, 2.5, {}), ones({32, 32, 3, 3}));
  EXPECT_BITS_EQ(y, full({1, 32, 26, 38}, 720));
}

// ggml: conv_2d of f32 weights with |x| up to 1e5 went through halves
TEST(Incidents, ConvolutionKeepsTheRangeOfFloats) {
  const Tensor x = random({1, 8, 8, 8}, 1) * 1e5;
  EXPECT_TRUE(all(isfinite(conv2d(x, random({8, 8, 3, 3}, 2)))).item<bool>());
}

// --- windows --------------------------------------------------------------------------------------------------------

// ggml 931, 991
TEST(Incidents, UnfoldOfManyShortRows) {
  for (const DType dtype : {DType::f32, DType::f16}) {
    same_everywhere([&](Device device) {
      const Tensor x = random({512, 1, 1, 187}, 1, device, dtype);
      const Tensor columns = unfold(x, {1, 11}, {.padding = {0, 5}});
      const Tensor padded = pad(x, {5, 5}).squeeze();
      for (const int tap : {0, 5, 10}) EXPECT_BITS_EQ(columns.select(1, tap), padded.narrow(1, tap, 187));
      return columns;
    });
  }
}

// The incident's second shape: 128 channels of 3000, kernel 3
TEST(Incidents, UnfoldOfLongRows) {
  for (const std::int64_t stride : {1, 2}) {
    same_everywhere([&](Device device) {
      const Tensor x = random({1, 128, 1, 3000}, 1, device);
      const Tensor columns = unfold(x, {1, 3}, {.padding = {0, 1}, .stride = {1, stride}});
      const Tensor padded = pad(x, {1, 1}).reshape({128, 3002});
      for (const int row : {0, 191, 383}) {
        const Tensor expected = padded.select(0, row / 3).slice(0, {row % 3, 3000 + row % 3, stride});
        EXPECT_BITS_EQ(columns.select(0, 0).select(0, row), expected);
      }
      return columns;
    });
  }
}

// llama 14789, 14797, 14803: a kernel wider than tall
TEST(Incidents, ConvolutionWithAnOblongKernel) {
  same_everywhere([](Device device) {
    const Tensor x = random({32, 1, 5, 5}, 1, device);
    const Tensor w = random({32, 1, 4, 3}, 2, device);
    const Tensor y = conv2d(x, w);
    EXPECT_BITS_EQ(matmul(w.reshape({32, 12}), unfold(x, {4, 3})).reshape(y.shape()), y);
    return y;
  });
}

// ggml: pool_1d and pool_2d divided by different counts
TEST(Incidents, PoolsOfEveryRankDivideAlike) {
  const Tensor x = random({2, 3, 13}, 1);
  for (const bool counted : {false, true}) {
    const PoolOptions line{.stride = {3}, .padding = {2}, .count_include_pad = counted};
    const PoolOptions plane{.stride = {1, 3}, .padding = {0, 2}, .count_include_pad = counted};
    EXPECT_BITS_EQ(avg_pool2d(x.unsqueeze(2), {1, 4}, plane).squeeze(2), avg_pool1d(x, 4, line));
  }
  same_everywhere([](Device device) {
    return avg_pool2d(random({1, 2, 6, 6}, 1, device, DType::f16), 3, {.stride = {2}, .padding = {1}});
  });
}

// --- products -------------------------------------------------------------------------------------------------------

// ggml 1287
TEST(Incidents, MatmulOfTwoHundred) {
  same_everywhere([](Device device) { return matmul(random({200, 200}, 1, device), random({200, 200}, 2, device)); });
}

// llama 27064, 25652: rows 2^16 elements apart
TEST(Incidents, MatmulOfRowsFarApart) {
  const Tensor wide = random({32, 1 << 16}, 1);
  const Tensor b = wide.narrow(1, 100, 512);
  const Tensor a = random({128, 512}, 2);
  EXPECT_BITS_EQ(matmul(a, b.transpose(0, 1)), matmul(a, copied(b).transpose(0, 1)));
  const Tensor first = matmul(a, b.transpose(0, 1));
  for (int run = 0; run < 3; ++run) EXPECT_BITS_EQ(matmul(a, b.transpose(0, 1)), first);
}

// llama 3014, 4479, 25618, 28488: one row and the same row of a batch
TEST(Incidents, ProductsDoNotDependOnTheBatch) {
  const Tensor w = random({96, 1024}, 1);
  const Tensor x = random({64, 1024}, 2);
  const Tensor batch = linear(x, w);
  for (const std::int64_t n : {1, 2, 3, 8, 9, 33}) EXPECT_BITS_EQ(linear(x.narrow(0, 0, n), w), batch.narrow(0, 0, n));
}

// candle 3756, 3877, 3813
TEST(Incidents, NothingStaysChecked) {
  EXPECT_BITS_EQ(matmul(ones({2, 0}), ones({0, 3})), zeros({2, 3}));
  EXPECT_THROW(matmul(ones({2, 0}), ones({1, 3})), ShapeError);
  EXPECT_EQ(ones({2, 3}).repeat({0, 1}).shape(), (Shape{0, 3}));
  EXPECT_THROW(Tensor::from<float>({1, 2, 3}, {2, 2}), ShapeError);
}

// --- order, devices, threads, random numbers ------------------------------------------------------------------------

// candle 3200
TEST(Incidents, IntegerExtremaStartFromIntegers) {
  for (const DType dtype : {DType::u8, DType::u32, DType::i64}) {
    same_everywhere([&](Device device) { return amin(random({7, 33}, 1, device, dtype), {1}); });
    same_everywhere([&](Device device) { return amax(random({7, 33}, 1, device, dtype), {1}); });
    same_everywhere([&](Device device) { return argmin(random({7, 33}, 1, device, dtype), 1); });
  }
  EXPECT_EQ(amax(full({3}, -9, {.dtype = DType::i64})).item<std::int64_t>(), -9);
}

// candle 3179, 3238
TEST(Incidents, ArgmaxOfTiesIsTheFirst) {
  for (std::int64_t n = 1; n < 5000; ++n) ASSERT_EQ(argmax(ones({n})).item<std::int64_t>(), 0) << n;
}

// llama 17659
TEST(Incidents, TopkOfTiesTakesTheFirst) {
  const Tensor x = Tensor::from<float>({1, 3, 2, 3, 2, 2}, {6});
  EXPECT_EQ(topk(x, 4).indices.to_vector<std::int64_t>(), (std::vector<std::int64_t>{1, 3, 2, 4}));
}

// candle 3371, 2611, 2613, 1382, 1532
TEST(Incidents, EveryIndexAndSourceType) {
  for (const DType source : {DType::i64, DType::u32, DType::bf16, DType::u8}) {
    for (const DType ids : {DType::i32, DType::i64}) {
      same_everywhere([&](Device device) {
        return index_select(random({5, 3}, 1, device, source), 0,
                            Tensor::from<std::int64_t>({4, 0}, {2}, device).to(ids));
      });
    }
  }
  EXPECT_EQ(full({1}, 1.5, {.dtype = DType::bf16}).to(DType::f32).item<float>(), 1.5f);
}

// candle 1914, 2412, 2817, 2484
TEST(Incidents, ADeviceNamedTwiceIsOneDevice) {
  const Tensor a = random({3, 3}, 1, Device::parse("cpu"));
  const Tensor b = random({3, 3}, 2, Device::parse("cpu:0"));
  EXPECT_EQ((a + b).shape(), (Shape{3, 3}));
  EXPECT_EQ(cat({a, b}).shape(), (Shape{6, 3}));
  EXPECT_EQ(matmul(a, b.to(Device::parse("cpu"))).shape(), (Shape{3, 3}));
  EXPECT_BITS_EQ(a.to(Device::parse("ref")).to(Device::parse("cpu")), a);
}

// candle 3595, vllm semantic-router 3160: stale reads and a deadlock of 64 threads
TEST(Incidents, ThreadsShareADevice) {
  const Tensor w = random({64, 64}, 1);
  std::vector<Tensor> inputs;
  std::vector<std::vector<float>> expected;
  for (std::uint64_t i = 0; i < 64; ++i) {
    inputs.push_back(random({8, 64}, i));
    expected.push_back(matmul(inputs.back(), w).to_vector<float>());
  }
  std::vector<int> wrong(64, 0);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < 64; ++i) {
    threads.emplace_back([&, i] {
      for (int run = 0; run < 20; ++run) wrong[i] += matmul(inputs[i], w).to_vector<float>() == expected[i] ? 0 : 1;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(64, 0));
}

// candle 3297, 2216, 2651, 1055, 1959
TEST(Incidents, SeedsRepeatARunSlow) {
  manual_seed(299792458);
  const std::uint64_t first = randn({1 << 24}).hash();
  for (int run = 0; run < 2; ++run) {
    manual_seed(299792458);
    EXPECT_EQ(randn({1 << 24}).hash(), first);
  }
}

}  // namespace
}  // namespace lockstep

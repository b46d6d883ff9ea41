// The irregular primitives in the graph: what is fused, what is stored, what happens to bad indices. The public ops
// made of them are tested in tests/graph/ops.
#include <gtest/gtest.h>

#include <lockstep/lockstep.h>

#include "graph/make.h"
#include "graph/window.h"
#include "support/tensors.h"

namespace lockstep::test {
namespace {

Tensor indices(const std::vector<std::int64_t>& values, const Shape& shape, Device device) {
  return Tensor::from<std::int64_t>(values, shape, device);
}

Tensor numbers(const Shape& shape, Device device) {
  return arange(0, static_cast<double>(shape.numel()), 1, {.dtype = DType::f32, .device = device}).reshape(shape);
}

TEST(Gather, ReadsThroughViewsAndFusesWithItsNeighbours) {
  same_everywhere([](Device device) {
    const Tensor source = (numbers({6, 5}, device) * 2.0).eval().transpose(0, 1);  // [5, 6]
    const Tensor index = indices({4, 0, 2, 1, 1, 3}, {1, 6}, device);
    const Tensor result = graph::gather(source, 0, index) + 1.0;
    EXPECT_LE(plan({result}).size(), 1u);  // 0: computed at the call
    EXPECT_EQ(result.to_vector<float>(), (std::vector<float>{9, 11, 25, 33, 43, 57}));
    return result;
  });
}

TEST(Gather, OfAPendingValueStoresItFirst) {
  same_everywhere([](Device device) {
    const Tensor index = indices({3, 3, 0}, {3}, device);
    const Tensor source = exp(numbers({4}, device));
    const Tensor result = graph::gather(source, 0, index + index - index) * 2.0 + graph::gather(source, 0, index);
    return result;
  });
}

TEST(Gather, KeepsBits) {
  same_everywhere([](Device device) {
    const Tensor source = Tensor::from<float>({1e-40f, -0.0f, std::numeric_limits<float>::quiet_NaN()}, {3}, device);
    return graph::gather(source, 0, indices({2, 1, 0, 0}, {4}, device));
  });
}

TEST(Gather, OfOneRowPerIndexCopiesRows) {
  same_everywhere([](Device device) {
    const Tensor table = random_tensor({50, 700}, DType::f16, 3, device);
    const Tensor ids = indices({49, 0, 7, 7}, {4, 1}, device).expand({4, 700});
    return graph::gather(table, 0, ids).to(DType::f32) * 2.0;
  });
}

TEST(Gather, ABadIndexIsAnErrorAtTheRead) {
  for (const Device device : test_devices()) {
    const Tensor source = numbers({4}, device);
    const CallScope call("embedding", CallSite());
    const Tensor bad = graph::gather(source, 0, indices({0, 1, 4, -1}, {4}, device));
    const Tensor sum_of_bad = sum(bad * 2.0);
    const Tensor good = source + 1.0;
    EXPECT_EQ(good.to_vector<float>(), (std::vector<float>{1, 2, 3, 4}));
    for (int i = 0; i < 2; ++i) {  // it does not go away
      expect_error<IndexError>([&] { sum_of_bad.item<float>(); },
                               {"embedding", "index 4 at position [2]", "size 4", "from 0 to 3"});
      expect_error<IndexError>([&] { bad.eval(); }, {"embedding"});
    }
    expect_error<IndexError>([&] { (sum_of_bad + 1.0).eval(); }, {"embedding"});
    EXPECT_EQ((good + 1.0).to_vector<float>(), (std::vector<float>{2, 3, 4, 5}));
  }
}

TEST(Scatter, CombinesInTheOrderOfTheSources) {
  for (const ScatterOp op : {ScatterOp::set, ScatterOp::add, ScatterOp::prod, ScatterOp::max, ScatterOp::min}) {
    for (const bool include_self : {true, false}) {
      for (const DType dtype : {DType::f32, DType::f16, DType::i32, DType::f64}) {
        same_everywhere([&](Device device) {
          const Tensor self = random_tensor({7, 9}, dtype, 1, device);
          const Tensor values = random_tensor({300, 4}, dtype, 2, device);
          std::vector<std::int64_t> at;
          for (std::int64_t i = 0; i < 1200; ++i) at.push_back(i * i % 7);
          return graph::scatter(op, self, 0, indices(at, {300, 4}, device), values, include_self);
        });
      }
    }
  }
}

// As a cache takes a token of each row: nothing has to be put in order.
TEST(Scatter, OfValuesWithPlacesOfTheirOwn) {
  for (const DType dtype : {DType::f32, DType::f16, DType::i8}) {
    same_everywhere([&](Device device) {
      const Tensor self = random_tensor({3, 2, 9, 4}, dtype, 1, device);
      const Tensor values = random_tensor({3, 4, 1, 2}, dtype, 2, device).transpose(1, 3);
      const Tensor index = indices({8, 0, 5}, {3, 1, 1, 1}, device).expand({3, 2, 1, 4});
      const Tensor result = graph::scatter(ScatterOp::set, self, 2, index, values, true);
      EXPECT_BITS_EQ(result.select(0, 2).select(1, 5), values.select(0, 2).select(1, 0));
      EXPECT_BITS_EQ(result.narrow(2, 1, 4), self.narrow(2, 1, 4));
      return result;
    });
  }
  for (const Device device : test_devices()) {
    const CallScope call("scatter", CallSite());
    const Tensor index = indices({3}, {1, 1}, device).expand({1, 2});
    const Tensor result = graph::scatter(ScatterOp::set, zeros({3, 2}, {.device = device}), 0, index,
                                         ones({1, 2}, {.device = device}), true);
    expect_error<IndexError>([&] { result.eval(); }, {"scatter", "index 3", "size 3"});
  }
}

TEST(Scatter, IntoAValueThatNothingElseHoldsIsInPlace) {
  for (const Device device : test_devices()) {
    for (const ScatterOp op : {ScatterOp::set, ScatterOp::add}) {
      Tensor cache = (zeros({16, 8}, {.device = device}) + 1.0).eval();
      const std::byte* const memory = graph::node_of(cache)->buffer->data();
      for (const std::int64_t row : {3, 0, 3, 15}) {
        const Tensor index = indices({row}, {1, 1}, device).expand({1, 8});
        cache = graph::scatter(op, cache, 0, index, full({1, 8}, static_cast<double>(row), {.device = device}), true);
        cache.eval();
        EXPECT_EQ(graph::node_of(cache)->buffer->data(), memory);
      }
      EXPECT_EQ(sum(cache).item<float>(), 8 * (op == ScatterOp::set ? 13 + 3 + 15 : 16 + 3 + 3 + 15));
      const Tensor held = cache;
      const Tensor other = graph::scatter(op, cache, 0, indices({1}, {1, 1}, device).expand({1, 8}),
                                          ones({1, 8}, {.device = device}), true)
                               .eval();
      EXPECT_NE(graph::node_of(other)->buffer->data(), memory);
    }
  }
}

TEST(Scatter, ABadIndexIsAnErrorAtTheRead) {
  const CallScope call("scatter", CallSite());
  const Tensor result =
      graph::scatter(ScatterOp::add, zeros({2, 3}), 1, indices({0, 3}, {1, 2}, {}), ones({1, 2}), true);
  expect_error<IndexError>([&] { result.eval(); }, {"scatter", "index 3 at position [0, 1]", "size 3"});
}

TEST(Scan, FollowsTheOrderOfTheSpecification) {
  for (const ScanOp op : {ScanOp::sum, ScanOp::prod, ScanOp::max, ScanOp::min, ScanOp::argmax, ScanOp::argmin}) {
    for (const int dim : {0, 1, 2}) {
      same_everywhere([&](Device device) {
        return graph::scan(op, random_tensor({3, 130, 2}, DType::f32, 1, device).flip({1}), dim);
      });
    }
    same_everywhere([&](Device device) { return graph::scan(op, random_tensor({9000}, DType::bf16, 1, device), 0); });
  }
}

TEST(Sort, IsStableWithNaNLast) {
  for (const bool descending : {false, true}) {
    same_everywhere([&](Device device) {
      const float nan = std::numeric_limits<float>::quiet_NaN();
      const Tensor x = Tensor::from<float>({2, nan, -0.0f, 0, 1e-40f, -nan, -1, 2}, {8}, device);
      const Tensor order = graph::sort_indices(x, 0, descending);
      EXPECT_EQ(order.to_vector<std::int64_t>(), descending ? (std::vector<std::int64_t>{1, 5, 0, 7, 2, 3, 4, 6})
                                                            : (std::vector<std::int64_t>{6, 2, 3, 4, 0, 7, 1, 5}));
      return order;
    });
  }
}

TEST(Update, ReplacesARegionAndKeepsTheOldValue) {
  same_everywhere([](Device device) {
    const Tensor x = numbers({4, 6}, device) + 0.0;
    const View region = View::contiguous({4, 6}).sliced(0, 1, 2, 2).sliced(1, 5, -2, 3);
    const Tensor y = graph::update(x, region, full({2, 3}, -1, {.device = device}));
    EXPECT_EQ(x.select(0, 1).to_vector<float>(), (std::vector<float>{6, 7, 8, 9, 10, 11}));
    EXPECT_EQ(y.select(0, 1).to_vector<float>(), (std::vector<float>{6, -1, 8, -1, 10, -1}));
    return y;
  });
}

TEST(Update, OfAValueThatNothingElseHoldsIsInPlace) {
  Tensor cache = (zeros({64, 8}) + 1.0).eval();
  const auto data = [&] { return graph::node_of(cache)->buffer->data(); };
  const std::byte* const memory = data();
  for (std::int64_t step = 0; step < 5; ++step) {
    const View row = View::contiguous({64, 8}).sliced(0, step, 1, 1);
    cache = graph::update(cache, row, full({1, 8}, static_cast<double>(step)));
    cache.eval();
    EXPECT_EQ(data(), memory);
  }
  EXPECT_EQ(sum(cache).item<float>(), 8 * (0 + 1 + 2 + 3 + 4 + 59));
  const Tensor held = cache;
  cache = graph::update(cache, View::contiguous({64, 8}), zeros({64, 8}));
  cache.eval();
  EXPECT_NE(data(), memory);
  EXPECT_EQ(sum(held).item<float>(), 8 * (0 + 1 + 2 + 3 + 4 + 59));
}

// In place they would be read while others are written over them.
TEST(Update, OfValuesThatAreItsOwnReadsTheOldOnes) {
  constexpr std::int64_t kSize = 100000;
  same_everywhere([](Device device) {
    const auto shifted = [&] {
      const Tensor x = arange(0, kSize, 1, {.dtype = DType::f32, .device = device}) * 3.0;
      return slice_scatter(x, x.narrow(0, 0, kSize - 7), 0, {.start = 7});
    };
    const std::vector<float> result = shifted().to_vector<float>();
    for (const std::int64_t i : {0, 6, 7, 14, 50000, 99999}) {
      EXPECT_EQ(result[static_cast<std::size_t>(i)], static_cast<float>(3 * (i < 7 ? i : i - 7))) << i;
    }
    return shifted();
  });
}

TEST(Update, NeverWritesIntoTheUsersMemory) {
  const std::vector<float> given(16, 3);
  Tensor x = Tensor::from_blob(given.data(), {16}, DType::f32);
  x = graph::update(x, View::contiguous({16}), zeros({16}));
  EXPECT_EQ(sum(x).item<float>(), 0);
  EXPECT_EQ(given, std::vector<float>(16, 3));
}

}  // namespace
}  // namespace lockstep::test

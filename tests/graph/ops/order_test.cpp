#include <gtest/gtest.h>

#include <lockstep/lockstep.h>

#include "graph/values.h"
#include "support/tensors.h"

namespace lockstep::test {
namespace {

using Longs = std::vector<std::int64_t>;
using Floats = std::vector<float>;

TEST(Order, AgreesOnEveryDTypeAndLayout) {
  for (const DType dtype :
       {DType::f32, DType::f16, DType::bf16, DType::f64, DType::u8, DType::i8, DType::i64, DType::u32}) {
    for (const int dim : {0, 1, 2}) {
      same_everywhere([&](Device device) {
        const Tensor x = random_tensor({3, 300, 4}, dtype, 1, device, true).flip({1});
        const ValuesIndices up = sort(x, dim);
        const ValuesIndices down = topk(x, 2, dim);
        return cat({up.indices.reshape({-1}), down.indices.reshape({-1}), argsort(x, dim, true).reshape({-1})});
      });
    }
  }
}

TEST(Order, ValuesKeepTheirBits) {
  same_everywhere([](Device device) {
    return sort(Tensor::from<float>({2, kNaN, 1e-40f, -0.0f, 0.0f, -3}, {6}, device)).values;
  });
}

TEST(Order, NaNIsTheLargestAndTiesKeepTheirOrder) {
  const Tensor x = Tensor::from<float>({1, kNaN, 1, 0}, {4});
  EXPECT_EQ(topk(x, 3).indices.to_vector<std::int64_t>(), (Longs{1, 0, 2}));
  EXPECT_EQ(topk(x, 2, 0, false).indices.to_vector<std::int64_t>(), (Longs{3, 0}));
  EXPECT_EQ(kthvalue(x, 4).indices.item<std::int64_t>(), 1);
}

TEST(Order, LongRowsSort) {
  const Tensor x = random_tensor({70001}, DType::f32, 5);
  const std::vector<float> sorted = sort(x).values.to_vector<float>();
  EXPECT_TRUE(std::is_sorted(sorted.begin(), sorted.end()));
}

TEST(Order, UniqueCountsEveryValue) {
  const Unique found = unique(Tensor::from<std::int64_t>({4, 1, 4, 1, 9, 4}, {2, 3}));
  EXPECT_EQ(found.values.to_vector<std::int64_t>(), (Longs{1, 4, 9}));
  EXPECT_EQ(found.counts.to_vector<std::int64_t>(), (Longs{2, 3, 1}));
  EXPECT_EQ(found.inverse.to_vector<std::int64_t>(), (Longs{1, 0, 1, 0, 2, 1}));
  EXPECT_EQ(unique(zeros({0})).values.numel(), 0);
}

TEST(Order, SearchsortedAgreesWithTheStandardLibrary) {
  for (const std::int64_t n : {1, 2, 3, 7, 64, 1000}) {
    const Tensor sorted = sort(random_tensor({n}, DType::f32, 7)).values;
    const Tensor values = cat({sorted, random_tensor({50}, DType::f32, 8)});
    const std::vector<float> line = sorted.to_vector<float>();
    const Longs left = searchsorted(sorted, values).to_vector<std::int64_t>();
    const Longs right = searchsorted(sorted, values, true).to_vector<std::int64_t>();
    const std::vector<float> wanted = values.to_vector<float>();
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      EXPECT_EQ(left[i], std::lower_bound(line.begin(), line.end(), wanted[i]) - line.begin());
      EXPECT_EQ(right[i], std::upper_bound(line.begin(), line.end(), wanted[i]) - line.begin());
    }
  }
}

TEST(Order, HistogramsLeaveOutWhatIsOutside) {
  same_everywhere([](Device device) {
    const Tensor x = Tensor::from<float>({-1, 0, 0.5f, 1, 2, kNaN, 7}, {7}, device);
    const Tensor counts = histc(x, 2, 0, 2);
    EXPECT_EQ(counts.to_vector<float>(), (Floats{2, 2}));
    return counts;
  });
}

TEST(Order, BadOperandsAreNamed) {
  const Tensor x = ones({4, 3});
  expect_error<ValueError>([&] { topk(x, 4); }, {"topk", "k 4", "size 3"});
  expect_error<ValueError>([&] { kthvalue(x, 0); }, {"kthvalue", "k 0"});
  expect_error<IndexError>([&] { sort(x, 2); }, {"sort", "dimension 2"});
  expect_error<ShapeError>([&] { searchsorted(x, ones({3})); }, {"searchsorted"});
  expect_error<DTypeError>([&] { bincount(ones({3})); }, {"bincount", "integers"});
  expect_error<IndexError>([&] { bincount(Tensor::from<std::int64_t>({-1}, {1})); }, {"bincount", "negative"});
  expect_error<ValueError>([&] { histc(x, 0); }, {"histc", "0 bins"});
}

}  // namespace
}  // namespace lockstep::test

#include <gtest/gtest.h>

#include <lockstep/lockstep.h>

#include "graph/values.h"
#include "support/tensors.h"

namespace lockstep::test {
namespace {

using Longs = std::vector<std::int64_t>;
using Floats = std::vector<float>;

TEST(Indexing, IdsMaySelectFewerElementsThanTheSourceHas) {
  same_everywhere([](Device device) {
    const Tensor source = arange(0, 20, 1, {.dtype = DType::f32, .device = device}).reshape({4, 5});
    const Tensor result = gather(source, 1, ids({4, 0}, {2, 1}, device));
    EXPECT_EQ(result.to_vector<float>(), (Floats{4, 5}));
    return result;
  });
}

TEST(Indexing, EverythingAgreesOnEveryDType) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i8, DType::i64, DType::boolean}) {
    same_everywhere([&](Device device) {
      const Tensor x = random_tensor({6, 7, 5}, dtype, 1, device, true);
      const Tensor rows = ids({5, 0, 3}, {3}, device);
      return cat({index_select(x.transpose(0, 2), 2, rows).reshape({-1}),
                  index(x.flip({1}), {rows, std::nullopt, ids({-1, 2, 0}, {3}, device)}).reshape({-1}),
                  index_put(x, {std::nullopt, ids({1, -1}, {2}, device)}, 0).reshape({-1}),
                  index_copy(x, 0, rows, random_tensor({3, 7, 5}, dtype, 2, device, true)).reshape({-1}),
                  take(x, ids({0, 209, 17, 17}, {2, 2}, device)).reshape({-1}),
                  masked_select(x, random_tensor({7, 1}, DType::boolean, 3, device)),
                  embedding(x, ids({1, 1, 4, 2}, {2, 2}, device)).reshape({-1})});
    });
  }
}

TEST(Indexing, SumsRoundOnce) {
  same_everywhere([](Device device) {
    const Tensor many = ones({4096}, {.dtype = DType::f16, .device = device});
    const Tensor at = zeros({4096}, {.dtype = DType::i64, .device = device});
    const Tensor result = scatter_add(zeros({2}, {.dtype = DType::f16, .device = device}), 0, at, many);
    EXPECT_EQ(result.to(DType::f32).to_vector<float>(), (Floats{4096, 0}));
    return result;
  });
}

// One index for a slice: one, some, more than 64 and more than 4096 values for one place, along either dimension.
TEST(Indexing, SlicesAreCombinedInTheOrderOfTheirValues) {
  std::vector<std::int64_t> rows(4400, 1);
  for (std::size_t i = 0; i < 200; ++i) rows[i * 7] = static_cast<std::int64_t>(i % 3 == 0 ? 4 : i % 70 == 1 ? 5 : 2);
  rows[9] = 0;
  const auto count = static_cast<std::int64_t>(rows.size());
  same_everywhere([&](Device device) {
    const Tensor at = ids(rows, {count}, device);
    const Tensor x = random_tensor({count, 3}, DType::f32, 4, device, true);
    const Tensor self = random_tensor({7, 3}, DType::f32, 5, device, true);
    const Tensor turned = index_add(self.transpose(0, 1), 1, at, x.transpose(0, 1));
    const Tensor halves = index_add(self.to(DType::bf16), 0, at, x.to(DType::bf16)).to(DType::f32);
    const Tensor largest =
        scatter_reduce(self, 0, at.unsqueeze(1).expand({count, 3}), x, ReduceMode::amax, /*include_self=*/false);
    return cat({index_add(self, 0, at, x).reshape({-1}), turned.reshape({-1}), halves.reshape({-1}),
                largest.reshape({-1}), index_copy(self, 0, at, x).reshape({-1})});
  });
}

TEST(Indexing, UntouchedEntriesKeepTheirBits) {
  same_everywhere([](Device device) {
    const Tensor self = Tensor::from<float>({1e-40f, 1, -0.0f, 2}, {4}, device);
    return cat({scatter_add(self, 0, ids({1}, {1}, device), ones({1}, {.device = device})),
                scatter_reduce(self, 0, ids({1}, {1}, device), ones({1}, {.device = device}), ReduceMode::mean)});
  });
}

TEST(Indexing, OneHotChecksItsClasses) {
  EXPECT_EQ(one_hot(ids({2, 0}, {2})).to_vector<std::int64_t>(), (Longs{0, 0, 1, 1, 0, 0}));
  const Tensor bad = one_hot(ids({2, 0}, {2}), 2);
  expect_error<IndexError>([&] { bad.eval(); }, {"one_hot", "index 2 at position [0] ", "size 2"});
}

TEST(Indexing, EmptyIndexListsGiveEmptyResults) {
  same_everywhere([](Device device) {
    const Tensor x = random_tensor({4, 3}, DType::f32, 1, device);
    const Tensor none = zeros({0}, {.dtype = DType::i64, .device = device});
    EXPECT_EQ(index_select(x, 0, none).shape(), (Shape{0, 3}));
    EXPECT_EQ(embedding(x, none).shape(), (Shape{0, 3}));
    EXPECT_EQ(nonzero(zeros({3, 2}, {.device = device})).shape(), (Shape{0, 2}));
    return index_add(x, 0, none, zeros({0, 3}, {.device = device}));
  });
}

TEST(Indexing, BadOperandsAreNamed) {
  const Tensor x = ones({4, 3});
  const Tensor at = ids({0, 1}, {2});
  expect_error<DTypeError>([&] { gather(x, 0, ones({1, 3})); }, {"gather", "i64 or i32"});
  expect_error<ShapeError>([&] { gather(x, 0, ids({0, 0, 0, 0}, {1, 4})); }, {"gather", "index"});
  expect_error<IndexError>([&] { gather(x, 2, ids({0}, {1, 1})); }, {"gather", "dimension 2"});
  expect_error<ShapeError>([&] { index_select(x, 0, ids({0}, {1, 1})); }, {"index_select", "1-d"});
  expect_error<ShapeError>([&] { index_add(x, 0, at, ones({3, 3})); }, {"index_add", "[2, 3]"});
  expect_error<DTypeError>([&] { index_add(x, 0, at, ones({2, 3}, {.dtype = DType::f64})); }, {"index_add"});
  expect_error<ShapeError>([&] { index(x, {at, ids({0, 1, 2}, {3})}); }, {"index", "broadcast"});
  expect_error<IndexError>([&] { index(x, {at, at, at}); }, {"index", "3 indices for 2 dimensions"});
  expect_error<IndexError>([&] { index(x, {ids({-5}, {1})}).eval(); }, {"index", "index -5", "size 4"});
  expect_error<DTypeError>([&] { masked_select(x, at); }, {"masked_select", "bool"});
  expect_error<ShapeError>(
      [&] {
        masked_scatter(x, ones({4, 3}, {.dtype = DType::boolean}), ones({2}));
      },
      {"masked_scatter", "12 places", "2 elements"});
}

}  // namespace
}  // namespace lockstep::test

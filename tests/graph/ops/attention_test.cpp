// Attention in blocks, rotary embeddings. Values are compared with PyTorch's in tests/data/cases.
#include <lockstep/ops.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/backend.h"
#include "backends/cpu/backend.h"
#include "backends/cpu/memory_pool.h"
#include "graph/make.h"
#include "graph/values.h"
#include "graph/window.h"
#include "support/tensors.h"

namespace lockstep {
namespace {

// The composition with all scores in memory, in the order of docs/numerics.md.
Tensor whole(const Tensor& q, const Tensor& k, const Tensor& v, const std::optional<Tensor>& hidden = std::nullopt) {
  Tensor scores = matmul(q, k.transpose(-2, -1)) * (1.0 / std::sqrt(static_cast<double>(q.shape().back())));
  if (hidden) scores = where(*hidden, -kInfinity, scores);
  const Tensor largest = amax(scores, {-1}, true);
  const Tensor e = exp(scores - where(isfinite(largest), largest, 0));
  const Tensor total = sum(e, {-1}, true);
  return matmul(e / where(total == 0, 1, total), v);
}

class Attention : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(DTypes, Attention, ::testing::Values(DType::f16, DType::bf16, DType::f32, DType::f64),
                         [](const auto& tested) { return std::string(name_of(tested.param)); });

TEST_P(Attention, EqualBitsEverywhere) {
  const auto check = [&](const Shape& q, const Shape& k, const AttentionOptions& options) {
    same_everywhere([&](Device d) {
      AttentionOptions here = options;
      if (here.mask) here.mask = here.mask->to(d);
      return scaled_dot_product_attention(random(q, 1, d, GetParam()), random(k, 2, d, GetParam()),
                                          random(k, 3, d, GetParam()), here);
    });
  };
  check({2, 3, 33, 16}, {2, 3, 70, 16}, {});
  check({2, 6, 5, 16}, {2, 2, 70, 16}, {.enable_gqa = true});
  check({1, 2, 140, 8}, {1, 2, 140, 8}, {.causal = true});
  check({1, 2, 5, 8}, {1, 2, 140, 8}, {.causal = true, .alignment = CausalAlignment::bottom_right});
  check({1, 2, 140, 8}, {1, 2, 30, 8}, {.causal = true, .alignment = CausalAlignment::bottom_right});
  check({150, 8}, {300, 8}, {.window_left = 20, .window_right = 3, .softcap = 2});
  check({4, 1, 8}, {4, 9, 8}, {.mask = random({4, 1, 9}, 5) > 0, .scale = 0.5});
}

// A cache with room for more: what the positions say, and what they see, but for what lies behind.
TEST_P(Attention, PositionsSayWhereQueriesStand) {
  const auto check = [&](std::int64_t first, std::int64_t rows, const AttentionOptions& options) {
    same_everywhere([&](Device d) {
      const Tensor q = random({1, 4, rows, 8}, 1, d, GetParam());
      const Tensor k = random({1, 2, 600, 8}, 2, d, GetParam());
      AttentionOptions here = options;
      here.enable_gqa = true;
      here.first_query = first;
      const Tensor result = scaled_dot_product_attention(q, k, k, here);
      AttentionOptions cut = options;
      cut.enable_gqa = true;
      cut.alignment = CausalAlignment::bottom_right;
      const Tensor seen = k.narrow(2, 0, first + rows);
      EXPECT_EQ(result.hash(), scaled_dot_product_attention(q, seen, seen, cut).hash())
          << d.to_string() << " " << first;
      return result;
    });
  };
  check(0, 1, {.causal = true});
  check(255, 1, {.causal = true});
  check(256, 3, {.causal = true});
  check(255, 17, {.causal = true});
  check(599, 1, {.causal = true});
  check(540, 2, {.causal = true, .window_left = 30});
}

TEST(AttentionPositions, AStepIsOfThePlanOfTheStepBefore) {
  Tensor k = zeros({1, 2, 512, 64}).eval();
  const auto plans = [] { return graph::window_statistics(Device{}).plans_made; };
  const auto step = [&](std::int64_t i) {
    k = slice_scatter(k, random({1, 2, 1, 64}, static_cast<std::uint64_t>(i)), 2, {.start = i, .stop = i + 1});
    scaled_dot_product_attention(random({1, 2, 1, 64}, 1), k, k, {.causal = true, .first_query = i}).to_vector<float>();
  };
  step(3);
  const auto before = plans();
  const std::byte* const memory = graph::node_of(k)->buffer->data();
  for (std::int64_t i = 4; i < 200; ++i) step(i);
  EXPECT_EQ(plans(), before);
  EXPECT_EQ(graph::node_of(k)->buffer->data(), memory);  // written where it lies
}

TEST(AttentionPositions, AreRefusedWhereTheyMakeNoSense) {
  const Tensor x = random({2, 3, 8}, 1);
  EXPECT_THROW(scaled_dot_product_attention(x, x, x, {.first_query = 0}), ValueError);
  EXPECT_THROW(scaled_dot_product_attention(x, x, x, {.causal = true, .first_query = 1}), ValueError);
  EXPECT_THROW(scaled_dot_product_attention(x, x, x, {.causal = true, .first_query = -1}), ValueError);
  EXPECT_THROW(scaled_dot_product_attention(x, x, x, {.causal = true, .first_query = INT64_MAX}), ValueError);
}

TEST(AttentionBlocks, GiveTheBitsOfTheWholeScores) {
  // More rows and heads than one block holds.
  const Tensor q = random({3, 2, 700, 16}, 1);
  const Tensor k = random({3, 2, 900, 16}, 2);
  const Tensor v = random({3, 2, 900, 16}, 3);
  EXPECT_BITS_EQ(scaled_dot_product_attention(q, k, v), whole(q, k, v));
  // Causal tiles see fewer keys; those left out would have added zeros.
  const Tensor rows = arange(0, 700).unsqueeze(1);
  EXPECT_BITS_EQ(scaled_dot_product_attention(q, k, v, {.causal = true}), whole(q, k, v, arange(0, 900) > rows));
  EXPECT_BITS_EQ(scaled_dot_product_attention(q, k, v, {.causal = true, .alignment = CausalAlignment::bottom_right}),
                 whole(q, k, v, arange(0, 900) > rows + 200));
  // One head alone, and a part of the rows that starts at a tile: the same bits.
  const Tensor all = scaled_dot_product_attention(q, k, v, {.causal = true});
  EXPECT_BITS_EQ(scaled_dot_product_attention(q.select(0, 1).select(0, 1), k.select(0, 1).select(0, 1),
                                              v.select(0, 1).select(0, 1), {.causal = true}),
                 all.select(0, 1).select(0, 1));
}

TEST(AttentionBlocks, MasksByPositionAreTheMasksTheySpell) {
  const Tensor q = random({2, 300, 8}, 1);
  const Tensor k = random({2, 400, 8}, 2);
  const Tensor v = random({2, 400, 8}, 3);
  const Tensor distance = arange(0, 400) - arange(0, 300).unsqueeze(1);
  const Tensor visible = logical_not(distance > 5);
  EXPECT_BITS_EQ(scaled_dot_product_attention(q, k, v, {.window_right = 5}),
                 scaled_dot_product_attention(q, k, v, {.mask = visible}));
  // A window behind: the first key of a tile moves, and with it the order of the sum.
  const Tensor near = scaled_dot_product_attention(q, k, v, {.causal = true, .window_left = 40});
  const Tensor far = scaled_dot_product_attention(q, k, v, {.mask = logical_not(distance > 0)});
  EXPECT_BITS_EQ(near.narrow(1, 0, 41), far.narrow(1, 0, 41));
  EXPECT_FALSE(bits_equal("near", "far", near, far));
}

// What a language model needs: keys come one by one, and a result does not tell how they came.
void prefill_equals_steps(std::int64_t keys, std::int64_t window, const std::vector<std::int64_t>& chunks,
                          DType dtype = DType::f32) {
  const Tensor q = random({2, keys, 4}, 1, {}, dtype);
  const Tensor k = random({2, keys, 4}, 2, {}, dtype);
  const Tensor v = random({2, keys, 4}, 3, {}, dtype);
  AttentionOptions options{.causal = true, .alignment = CausalAlignment::bottom_right};
  if (window > 0) options.window_left = window;
  const Tensor all = scaled_dot_product_attention(q, k, v, options);
  for (const std::int64_t chunk : chunks) {
    const std::int64_t begin = chunk == 1 ? std::max<std::int64_t>(0, keys - 300) : 0;
    for (std::int64_t at = begin; at < keys; at += chunk) {
      const std::int64_t end = std::min(keys, at + chunk);
      const Tensor part =
          scaled_dot_product_attention(q.narrow(1, at, end - at), k.narrow(1, 0, end), v.narrow(1, 0, end), options);
      ASSERT_TRUE(equal(part, all.narrow(1, at, end - at)))
          << keys << " keys, window " << window << ", queries " << at << " to " << end;
    }
  }
}

TEST(AttentionBlocks, PrefillInChunksOrSteps) {
  for (const DType dtype : {DType::f32, DType::bf16}) prefill_equals_steps(700, 0, {1, 37, 128, 300}, dtype);
  prefill_equals_steps(700, 100, {1, 37, 300});
}

TEST(AttentionBlocks, PrefillOfLongKeys) {
  prefill_equals_steps(4500, 333, {1, 500});    // a window over the end of a chunk of the sums
  prefill_equals_steps(9000, 4400, {1, 2000});  // over two ends
  prefill_equals_steps(9000, 0, {1000});
}

TEST(AttentionBlocks, HeadsOfGroupsShareKeysWithoutCopies) {
  const Tensor q = random({2, 6, 9, 8}, 1);
  const Tensor k = random({2, 2, 11, 8}, 2);
  const Tensor v = random({2, 2, 11, 8}, 3);
  const auto repeated = [](const Tensor& t) { return t.unsqueeze(2).expand({2, 2, 3, 11, 8}).reshape({2, 6, 11, 8}); };
  EXPECT_BITS_EQ(scaled_dot_product_attention(q, k, v, {.enable_gqa = true}),
                 scaled_dot_product_attention(q, repeated(k), repeated(v)));
}

TEST(AttentionBlocks, RowsThatSeeNothingAreZero) {
  const Tensor q = random({3, 4}, 1);
  const Tensor k = random({5, 4}, 2);
  EXPECT_BITS_EQ(scaled_dot_product_attention(q, k, k, {.mask = zeros({3, 5}, {.dtype = DType::boolean})}),
                 zeros({3, 4}));
  EXPECT_BITS_EQ(scaled_dot_product_attention(q, k, k, {.mask = full({5}, -kInfinity)}), zeros({3, 4}));
  EXPECT_BITS_EQ(scaled_dot_product_attention(q, ones({0, 4}), ones({0, 4})), zeros({3, 4}));
  EXPECT_EQ(scaled_dot_product_attention(ones({0, 4}), k, k).shape(), (Shape{0, 4}));
}

TEST(AttentionBlocks, SmallQueriesAndSlicesOfCaches) {
  // Query lengths 1 to 9 over a cache that is a slice with an offset.
  const Tensor cache = random({1, 2, 64, 16}, 1);
  const Tensor k = cache.narrow(2, 20, 32);
  for (std::int64_t length = 1; length <= 9; ++length) {
    const Tensor q = random({1, 2, length, 16}, 2);
    EXPECT_BITS_EQ(scaled_dot_product_attention(q, k, k), whole(q, contiguous(k), contiguous(k)));
  }
}

TEST(AttentionBlocks, ScoresAreNeverInMemoryAsAWhole) {
  const Tensor x = random({1, 1, 4096, 8}, 1).eval();
  const MemoryPool& pool = dynamic_cast<CpuBackend&>(backend_of({})).memory();
  const MemoryStatistics before = pool.statistics();
  scaled_dot_product_attention(x, x, x, {.causal = true}).eval();
  // 64 MB of scores, of which a block and its softmax are there at a time.
  EXPECT_LE(pool.statistics().peak, std::max(before.peak, before.live + (std::size_t{16} << 20)));
}

TEST(AttentionBlocks, WrongArguments) {
  const Tensor q = ones({2, 4, 3, 8});
  const auto attend = [&](const Tensor& k, const Tensor& v, const AttentionOptions& options = {}) {
    scaled_dot_product_attention(q, k, v, options);
  };
  const Tensor k = ones({2, 4, 5, 8});
  expect_error<ShapeError>([&] { attend(ones({2, 4, 5, 7}), k); }, {"scaled_dot_product_attention", "features"});
  expect_error<ShapeError>([&] { attend(k, ones({2, 4, 6, 8})); }, {"positions"});
  expect_error<ShapeError>([&] { attend(ones({2, 2, 5, 8}), ones({2, 2, 5, 8})); }, {"enable_gqa"});
  expect_error<ShapeError>([&] { attend(ones({2, 3, 5, 8}), ones({2, 3, 5, 8}), {.enable_gqa = true}); }, {"heads"});
  expect_error<ShapeError>([&] { attend(k, k, {.mask = ones({4, 5}, {.dtype = DType::boolean})}); }, {"broadcast"});
  expect_error<DTypeError>([&] { attend(k, k, {.mask = ones({3, 5}, {.dtype = DType::i64})}); }, {"mask"});
  expect_error<DTypeError>([&] { attend(k.to(DType::f16), k); }, {"dtypes"});
  expect_error<ValueError>([&] { attend(k, k, {.window_left = -1}); }, {"window"});
  expect_error<ValueError>([&] { attend(k, k, {.softcap = -1}); }, {"softcap"});
  expect_error<ShapeError>([&] { attend(ones({8}), ones({8})); }, {"two dimensions"});
}

TEST(Rope, EqualBitsEverywhere) {
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
    for (const bool interleaved : {false, true}) {
      same_everywhere([&](Device d) {
        return rope(random({2, 3, 40, 16}, 1, d, dtype), {.interleaved = interleaved});
      });
      same_everywhere([&](Device d) {
        return rope(random({40, 16}, 1, d, dtype), {.interleaved = interleaved, .dims = 6, .offset = 100});
      });
    }
  }
}

TEST(Rope, RowsDependOnTheirPositionOnly) {
  const Tensor x = random({2, 10, 8}, 1);
  EXPECT_BITS_EQ(rope(x.narrow(1, 4, 6), {.offset = 4}), rope(x).narrow(1, 4, 6));
  EXPECT_BITS_EQ(rope(x), rope(x, rope_tables(10, 8)));
  EXPECT_BITS_EQ(rope(x).select(1, 0), x.select(1, 0));
  expect_error<ValueError>([&] { rope(ones({3, 5})); }, {"rope", "even"});
  expect_error<ShapeError>([&] { rope(x, rope_tables(9, 8)); }, {"rope", "tables"});
  expect_error<ShapeError>([&] { rope(x, rope_tables(10, 10)); }, {"rope", "tables"});
  expect_error<DTypeError>([&] { rope(ones({3, 4}, {.dtype = DType::i32})); }, {"rope"});
}

TEST(Alibi, SlopesOfThePaper) {
  EXPECT_EQ(alibi_slopes(8).to_vector<float>(),
            (std::vector<float>{0.5f, 0.25f, 0.125f, 0.0625f, 0.03125f, 0.015625f, 0.0078125f, 0.00390625f}));
  EXPECT_EQ(alibi_slopes(3).to_vector<float>(), (std::vector<float>{0.0625f, 0.00390625f, 0.25f}));
}

}  // namespace
}  // namespace lockstep

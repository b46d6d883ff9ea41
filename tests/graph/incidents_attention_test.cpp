// What went wrong in the attention of other frameworks, at the shapes where it did, as in incidents_test.cpp.
#include <lockstep/ops.h>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "graph/values.h"
#include "support/tensors.h"

namespace lockstep {
namespace {

// The same values in memory of their own.
// With all scores in memory; `hidden` marks the keys that do not take part.
Tensor with_all_scores(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& hidden) {
  const Tensor scores = matmul(q, k.transpose(-2, -1)) * (1.0 / std::sqrt(static_cast<double>(q.shape().back())));
  return matmul(softmax(where(hidden, -kInfinity, scores), -1), v);
}

void expect_close(const Tensor& a, const Tensor& b, double tolerance) {
  EXPECT_LT(amax(abs(a.to(DType::f32) - b.to(DType::f32))).item<float>(), tolerance);
}

// The mask that is added where `hidden` holds.
Tensor added(const Tensor& hidden, DType dtype = DType::f32) {
  return where(hidden, full({}, -kInfinity, {.dtype = dtype, .device = hidden.device()}),
               zeros({}, {.dtype = dtype, .device = hidden.device()}));
}

// candle 3599: offsets of elements where bytes were due
TEST(Incidents, AttentionOverPartOfACache) {
  for (const DType dtype : {DType::f32, DType::f16}) {
    same_everywhere([&](Device device) {
      const Tensor q = random({1, 8, 4, 64}, 1, device, dtype);
      const Tensor k = random({1, 8, 512, 64}, 2, device, dtype).narrow(2, 100, 32);
      const Tensor v = random({1, 8, 512, 64}, 3, device, dtype).narrow(2, 100, 32);
      const Tensor y = scaled_dot_product_attention(q, k, v);
      EXPECT_BITS_EQ(y, scaled_dot_product_attention(q, copied(k), copied(v)));
      EXPECT_BITS_EQ(scaled_dot_product_attention(k, k, v), scaled_dot_product_attention(copied(k), k, v));
      return y;
    });
  }
}

// candle 3479: 2 to 8 queries ran in the kernel of one
TEST(Incidents, AttentionOfFewQueries) {
  for (std::int64_t queries = 1; queries < 10; ++queries) {
    same_everywhere([&](Device device) {
      const Tensor q = random({1, 8, 9, 64}, 1, device).narrow(2, 0, queries);
      const Tensor k = random({1, 8, 32, 64}, 2, device);
      const Tensor v = random({1, 8, 32, 64}, 3, device);
      const Tensor y = scaled_dot_product_attention(q, k, v);
      for (std::int64_t i = 0; i < queries; ++i) {
        EXPECT_BITS_EQ(scaled_dot_product_attention(q.narrow(2, i, 1), k, v), y.narrow(2, i, 1));
      }
      return y;
    });
  }
}

// candle 3388: NaN
TEST(Incidents, AttentionOfGroupsUnderAnOblongMaskSlow) {
  const Tensor q = random({1, 32, 98, 128}, 1, {}, DType::f16);
  const Tensor k = random({1, 8, 1748, 128}, 2, {}, DType::f16);
  const Tensor v = random({1, 8, 1748, 128}, 3, {}, DType::f16);
  const Tensor hidden = arange(0, 1748) > (arange(0, 98) + 1650).unsqueeze(1);
  const Tensor y = scaled_dot_product_attention(q, k, v, {.mask = added(hidden, DType::f16), .enable_gqa = true});
  EXPECT_TRUE(all(isfinite(y)).item<bool>());
  EXPECT_BITS_EQ(y, scaled_dot_product_attention(q, k, v, {.mask = logical_not(hidden), .enable_gqa = true}));
  for (const std::int64_t head : {0, 3, 4, 31}) {
    const auto of = [](const Tensor& tensor, std::int64_t i) { return tensor.select(1, i).to(DType::f32); };
    expect_close(y.select(1, head), with_all_scores(of(q, head), of(k, head / 4), of(v, head / 4), hidden), 2e-3);
  }
}

// candle 3625: NaN at 19 of 48 lengths
TEST(Incidents, CausalAttentionUnderAMask) {
  for (std::int64_t n = 1; n <= 49; ++n) {
    same_everywhere([&](Device device) {
      const Tensor q = random({1, 2, n, 16}, 1, device);
      const Tensor k = random({1, 2, n, 16}, 2, device);
      const Tensor v = random({1, 2, n, 16}, 3, device);
      const Tensor keys = arange(0, static_cast<double>(n), 1, {.device = device});
      const Tensor padding = (keys >= std::max<std::int64_t>(1, n - 3)).expand({n, n});
      const Tensor y = scaled_dot_product_attention(q, k, v, {.mask = added(padding), .causal = true});
      expect_close(y, with_all_scores(q, k, v, logical_or(padding, keys > keys.unsqueeze(1))), 1e-5);
      return y;
    });
  }
}

// candle: the path of one query dropped the mask, the other one the mask's offset
TEST(Incidents, AttentionOfOneQueryObeysItsMask) {
  for (const std::int64_t queries : {1, 20}) {
    same_everywhere([&](Device device) {
      const Tensor q = random({1, 8, queries, 64}, 1, device);
      const Tensor k = random({1, 8, 48, 64}, 2, device);
      const Tensor v = random({1, 8, 48, 64}, 3, device);
      // Hides the second half; the rows in front of it hide the first.
      const Tensor late = arange(0, 48, 1, {.device = device}) >= 24;
      const Tensor rows = cat({logical_not(late).expand({queries, 48}), late.expand({queries, 48})});
      const Tensor mask = copied(added(rows)).narrow(0, queries, queries);
      const Tensor y = scaled_dot_product_attention(q, k, v, {.mask = mask});
      EXPECT_BITS_EQ(y, scaled_dot_product_attention(q, k, v, {.mask = copied(mask)}));
      expect_close(y, scaled_dot_product_attention(q, k.narrow(2, 0, 24), v.narrow(2, 0, 24)), 1e-5);
      return y;
    });
  }
}

// llama 13975, 17746, 18614: sums of halves overflowed past 32k keys
TEST(Incidents, AttentionOverManyKeysInHalves) {
  const Tensor q = random({1, 2, 3, 64}, 1, {}, DType::f16);
  const Tensor v = full({1, 2, 40000, 64}, 3, {.dtype = DType::f16});
  const Tensor alike = full({1, 2, 40000, 64}, 0.5, {.dtype = DType::f16});
  EXPECT_BITS_EQ(scaled_dot_product_attention(q, alike, v), full({1, 2, 3, 64}, 3, {.dtype = DType::f16}));
  const Tensor large = full({1, 2, 40000, 64}, 60000, {.dtype = DType::f16});
  EXPECT_BITS_EQ(scaled_dot_product_attention(q, alike, large), full({1, 2, 3, 64}, 60000, {.dtype = DType::f16}));
  // A row with itself gives 64 * 40 * 40, past the largest half before it is scaled, and outweighs all others.
  const Tensor loud = sign(random({1, 2, 40, 64}, 2)).to(DType::f16) * 40;
  EXPECT_BITS_EQ(scaled_dot_product_attention(loud, loud, loud), loud);
}

// llama 7434: masks of -inf became NaN
TEST(Incidents, AttentionOfAQueryThatSeesNothing) {
  for (const DType dtype : {DType::f32, DType::f16}) {
    same_everywhere([&](Device device) {
      const Tensor x = random({2, 33, 16}, 1, device, dtype);
      const Tensor hidden = (arange(0, 33, 1, {.device = device}) == 7).unsqueeze(1).expand({33, 33});
      const Tensor y = scaled_dot_product_attention(x, x, x, {.mask = added(hidden, dtype)});
      EXPECT_BITS_EQ(y.select(1, 7), zeros({2, 16}, {.dtype = dtype, .device = device}));
      EXPECT_TRUE(all(isfinite(y)).item<bool>());
      return y;
    });
  }
}

// llama 7903: rows behind the last key were read
TEST(Incidents, AttentionReadsNoKeyBehindTheLast) {
  for (const std::int64_t keys : {1, 7, 31, 33, 63, 65, 127, 129}) {
    same_everywhere([&](Device device) {
      const Tensor outside = (arange(0, 256, 1, {.device = device}) >= keys).unsqueeze(1);
      const float nan = std::numeric_limits<float>::quiet_NaN();
      const Tensor k = copied(where(outside, nan, random({256, 32}, 1, device))).narrow(0, 0, keys);
      const Tensor q = random({5, 32}, 2, device);
      const Tensor y = scaled_dot_product_attention(q, k, k);
      EXPECT_BITS_EQ(y, scaled_dot_product_attention(q, copied(k), copied(k)));
      EXPECT_TRUE(all(isfinite(y)).item<bool>()) << keys;
      return y;
    });
  }
}

// sd 1040: no masking of later tokens on one backend, in the text encoder of 77 tokens
TEST(Incidents, TheCausalMaskIsAnOrdinaryOp) {
  for (const DType dtype : {DType::f32, DType::f16}) {
    same_everywhere([&](Device device) {
      const Tensor scores = random({12, 77, 77}, 1, device, dtype);
      const Tensor later = triu(ones({77, 77}, {.dtype = DType::boolean, .device = device}), 1);
      const Tensor weights = softmax(masked_fill(scores, later, -kInfinity), -1);
      EXPECT_BITS_EQ(triu(weights, 1), zeros({12, 77, 77}, {.dtype = dtype, .device = device}));
      EXPECT_TRUE(all(weights.select(1, 0).select(1, 0) == 1).item<bool>());
      return weights;
    });
  }
}

}  // namespace
}  // namespace lockstep

// The loops of attention: products in the order of docs/numerics.md section 6, softmax in that of section 4, as
// graph/ops/attention.cpp composes them.
//
// Results are made canonical where it shows. It does not for scores: what is at most 2^-126 beside the largest one,
// whose magnitude is at most 2^-80, has the exponential 1 with it and without; beside a larger one it is rounded away.
// Nor for NaNs, of which the last product makes the one NaN, nor for sums of exponentials, which are 0 or at least 1.
#define HWY_TARGET_INCLUDE "backends/cpu/irregular/attention_table.cpp"
#include "backends/cpu/simd_table.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "backends/cpu/irregular/attention_table.h"
#include "kernels/order.h"
#include "kernels/prelude.h"

LOCKSTEP_TARGET_BEGIN()
namespace {

#if HWY_TARGET == HWY_EMU128 || HWY_TARGET == HWY_SCALAR

AttentionTable make_table() {
  return {};
}

#else

#include "backends/cpu/row/canonical-inl.h"
#include "backends/cpu/row/together-inl.h"

constexpr std::int64_t kLanes = static_cast<std::int64_t>(hn::MaxLanes(D()));
// Elements of the other operand beside kVectors vectors of queries: sums, a row of queries and one element fill the
// registers.
constexpr int kTile = HWY_TARGET == HWY_AVX2 ? 4 : 8;
static_assert(kAttentionTile % kTile == 0);

/// sum[i] += one[i * apart] * queries, for `count` k: a step further on in `one`, a row further on in `queries`.
template <int kVectors>
HWY_INLINE void multiply(std::int64_t count, const float* one, std::int64_t step, std::int64_t apart,
                         const float* queries, V (&sum)[kTile][kVectors]) {
  const D d;
#pragma GCC unroll 8
  for (int i = 0; i < kTile; ++i) {
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) sum[i][v] = hn::Zero(d);
  }
#pragma GCC unroll 2
  for (std::int64_t k = 0; k < count; ++k, one += step, queries += kVectors * kLanes) {
    V row[kVectors];
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) row[v] = hn::LoadU(d, queries + v * kLanes);
#pragma GCC unroll 8
    for (int i = 0; i < kTile; ++i) {
      const V all = hn::Set(d, one[i * apart]);
#pragma GCC unroll 3
      for (int v = 0; v < kVectors; ++v) sum[i][v] = hn::MulAdd(all, row[v], sum[i][v]);
    }
  }
}

/// The scores of kTile keys, and the largest so far.
template <int kVectors, bool kHides>
HWY_NOINLINE void score(const AttentionBlock& b, std::int64_t key, float* HWY_RESTRICT largest) {
  const D d;
  V sum[kTile][kVectors];
  multiply<kVectors>(b.width, b.key + key * b.width, 1, b.width, b.query, sum);
  float* const to = b.scores + key * kVectors * kLanes;
  const V scale = hn::Set(d, b.scale);
#pragma GCC unroll 3
  for (int v = 0; v < kVectors; ++v) {
    V most = hn::LoadU(d, largest + v * kLanes);
#pragma GCC unroll 8
    for (int i = 0; i < kTile; ++i) {
      V scaled = hn::Mul(sum[i][v], scale);
      if constexpr (kHides) {
        const IntegerTag integers;
        const auto query = hn::Iota(integers, static_cast<std::int32_t>(v * kLanes));
        const auto first = hn::Set(integers, static_cast<std::int32_t>(std::max<std::int64_t>(key + i - b.behind, 0)));
        const auto hidden = hn::RebindMask(d, hn::Lt(query, first));
        scaled = hn::IfThenElse(hidden, hn::Set(d, -std::numeric_limits<float>::infinity()), scaled);
      }
      most = hn::Max(most, scaled);
      hn::StoreU(scaled, d, to + (i * kVectors + v) * kLanes);
    }
    hn::StoreU(most, d, largest + v * kLanes);
  }
}

/// Lanes of sums, order::kLanes rows of queries, to the first row: halves are added.
template <int kVectors> void combine(float* sums) {
  const D d;
  for (std::int64_t half = order::kLanes / 2; half >= 1; half /= 2) {
    for (std::int64_t i = 0; i < half * kVectors * kLanes; i += kLanes) {
      hn::StoreU(hn::Add(hn::LoadU(d, sums + i), hn::LoadU(d, sums + half * kVectors * kLanes + i)), d, sums + i);
    }
  }
}

/// Something of each query for kAttentionTogether keys, so that vectors can be taken four at a time.
template <int kVectors> struct EachQuery {
  alignas(64) float of[kAttentionTogether * kVectors * kLanes];
  void repeat() {
    for (std::int64_t i = 1; i < kAttentionTogether; ++i) {
      std::copy_n(of, kVectors * kLanes, of + i * kVectors * kLanes);
    }
  }
};

/// Scores [begin, end) to exponentials; what they add up to is added to `sums`, of order::kLanes keys.
template <int kVectors>
void exponentials(float* scores, std::int64_t begin, std::int64_t end, const EachQuery<kVectors>& largest,
                  float* sums) {
  constexpr std::int64_t kRow = kVectors * kLanes;
  constexpr std::int64_t kStep = static_cast<std::int64_t>(together::kVectors) * kLanes;
  static_assert(kStep == kAttentionTogether * kLanes && order::kLanes % kAttentionTogether == 0);
  for (std::int64_t key = begin; key < end; key += kAttentionTogether) {
    float* const row = scores + key * kRow;
    float* const sum = sums + key % order::kLanes * kRow;
    for (std::int64_t i = 0; i < kAttentionTogether * kRow; i += kStep) {
      together::Floats e = together::ls_exp(together::load(row + i) - together::load(largest.of + i));
      together::store(e, row + i);
      together::store(together::load(sum + i) + e, sum + i);
    }
  }
}

/// The sums of exponentials by R.
template <int kVectors> void soften(const AttentionBlock& b, const EachQuery<kVectors>& largest, float* total) {
  constexpr std::int64_t kRow = kVectors * kLanes;
  alignas(64) float sums[order::kLanes * kRow] = {};
  alignas(64) float chunks[order::kLanes * kRow];
  const std::int64_t count = (b.seen + order::kChunk - 1) / order::kChunk;
  std::fill_n(chunks, order::kLanes * kRow, 0.0f);
  for (std::int64_t chunk = 0; chunk < count; ++chunk) {
    const std::int64_t begin = chunk * order::kChunk;
    exponentials<kVectors>(b.scores, begin, std::min<std::int64_t>(b.seen, begin + order::kChunk), largest, sums);
    combine<kVectors>(sums);
    std::copy_n(sums, kRow, chunks + chunk * kRow);
    std::fill_n(sums, order::kLanes * kRow, 0.0f);
  }
  combine<kVectors>(chunks);
  std::copy_n(chunks, kRow, total);
}

template <int kVectors>
void divide(float* exponentials, std::int64_t begin, std::int64_t end, const EachQuery<kVectors>& total) {
  const D d;
  constexpr std::int64_t kRow = kVectors * kLanes;
  for (std::int64_t key = begin; key < end; ++key) {
#pragma GCC unroll 3
    for (std::int64_t i = 0; i < kRow; i += kLanes) {
      float* const to = exponentials + key * kRow + i;
      hn::StoreU(flushed(hn::Div(hn::LoadU(d, to), hn::LoadU(d, total.of + i))), d, to);
    }
  }
}

/// Keys [begin, end) of kTile features of the values; the first ones of all, and the last.
template <int kVectors>
HWY_NOINLINE void mix(const AttentionBlock& b, std::int64_t begin, std::int64_t end, std::int64_t feature) {
  const D d;
  constexpr std::int64_t kRow = kVectors * kLanes;
  V sum[kTile][kVectors];
  multiply<kVectors>(end - begin, b.value + begin * b.width + feature, b.width, 1, b.scores + begin * kRow, sum);
#pragma GCC unroll 8
  for (int i = 0; i < kTile; ++i) {
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) {
      float* const to = b.out + (feature + i) * kRow + v * kLanes;
      const V all = begin == 0 ? sum[i][v] : hn::Add(hn::LoadU(d, to), sum[i][v]);
      // No -0: as the composition, which hidden keys must not show in.
      hn::StoreU(end < b.keys ? all : hn::Add(with_one_nan(flushed(all)), hn::Zero(d)), d, to);
    }
  }
}

template <int kVectors> void attend(const AttentionBlock& b) {
  constexpr std::int64_t kRow = kVectors * kLanes;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EachQuery<kVectors> each;
  std::fill_n(each.of, kRow, -kInfinity);
  for (std::int64_t key = 0; key < b.seen; key += kTile) {
    const std::int64_t first = std::min(key, b.keys - kTile);  // the last tile may begin in the one before
    if (first + kTile - 1 > b.behind) {
      score<kVectors, true>(b, first, each.of);
    } else {
      score<kVectors, false>(b, first, each.of);
    }
  }
  for (float& largest : each.of) {
    if (!std::isfinite(largest)) largest = 0;
  }
  each.repeat();
  const std::int64_t together = (b.seen + kAttentionTogether - 1) / kAttentionTogether * kAttentionTogether;
  std::fill_n(b.scores + b.seen * kRow, (together - b.seen) * kRow, -kInfinity);
  soften<kVectors>(b, each, each.of);
  for (float& total : each.of) {
    if (total == 0) total = 1;
  }
  if (b.keys > b.seen) std::fill_n(b.scores + b.seen * kRow, (b.keys - b.seen) * kRow, 0.0f);
  for (std::int64_t begin = 0; begin < b.keys; begin += order::kBlock) {
    const std::int64_t end = std::min<std::int64_t>(b.keys, begin + order::kBlock);
    divide<kVectors>(b.scores, begin, std::min(end, b.seen), each);
    for (std::int64_t feature = 0; feature < b.width; feature += kTile) mix<kVectors>(b, begin, end, feature);
  }
}

void run(const AttentionBlock& block) {
  switch (block.vectors) {
    case 1: return attend<1>(block);
    case 2: return attend<2>(block);
    default: return attend<3>(block);
  }
}

AttentionTable make_table() {
  return {.lanes = kLanes, .run = run};
}

#endif

}  // namespace

LOCKSTEP_TARGET_END(AttentionTable, attention_table, make_table())

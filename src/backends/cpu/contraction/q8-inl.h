// What q8.h describes, per instruction set. Codes are multiplied in pairs to 16 bits, which are added as long as they
// cannot overflow: codes of weights are stored unsigned (raised by `zero`) where they have up to 6 bits.

#if defined(LOCKSTEP_CONTRACTION_Q8_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCKSTEP_CONTRACTION_Q8_INL_H_
#undef LOCKSTEP_CONTRACTION_Q8_INL_H_
#else
#define LOCKSTEP_CONTRACTION_Q8_INL_H_
#endif

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "backends/cpu/contraction/q8.h"
#include "backends/cpu/contraction/q8_panel-inl.h"
#include "backends/cpu/contraction/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep {
inline namespace v0 {
namespace contraction {
namespace HWY_NAMESPACE {

// --- activations

template <int kForm>
bool q8_quantize(const float* HWY_RESTRICT row, std::int64_t blocks, Q8Activations* HWY_RESTRICT to) {
  constexpr Q8Form form = kQ8Forms[kForm];
  constexpr int kBlockSize = order::kQ8Block;
  constexpr float kSmall = 0x1p-100f;  // times the smallest f16 this is a normal number
  bool careful = form.power_scales();
  for (std::int64_t b = 0; b < blocks; ++b, row += kBlockSize, ++to) {
    float x[kBlockSize];
    std::int32_t largest = 0;
    for (int i = 0; i < kBlockSize; ++i) {
      const std::int32_t magnitude = std::bit_cast<std::int32_t>(row[i]) & 0x7fffffff;
      x[i] = magnitude < 0x00800000 ? 0.0f : row[i];
      largest = largest > magnitude ? largest : magnitude;
    }
    if (largest < 0x00800000) largest = 0;
    const float scale = scalar::q8_scale(static_cast<std::uint32_t>(largest));
    const float inverse = scale > 0 ? 1.0f / scale : 0.0f;
    to->scale = scale;
    careful = careful || (scale > 0 && scale < kSmall);
    std::int32_t codes[kBlockSize];
    for (int i = 0; i < kBlockSize; ++i) {
      const float shifted = __builtin_fmaf(x[i], inverse, 0x1.8p23f);
      codes[i] = std::bit_cast<std::int32_t>(shifted) - 0x4b400000;
    }
    if (inverse == 0) std::fill_n(codes, kBlockSize, 0);
    for (int i = 0; i < kBlockSize; ++i) to->codes[i] = static_cast<std::int8_t>(codes[i]);
    std::int32_t sums[2] = {};
    for (int i = 0; i < kBlockSize / 2; ++i) {
      sums[0] += codes[i];
      sums[1] += codes[i + kBlockSize / 2];
    }
    if (form.groups() == 1) sums[0] += sums[1];
    for (int g = 0; g < 2; ++g) {
      to->sums[g] = static_cast<float>(sums[g]);
      const std::int32_t half = -(form.zero / 2) * sums[g];
      to->shifts[g] = form.factors ? static_cast<std::int32_t>((static_cast<std::uint32_t>(half) & 0xffffu) |
                                                               static_cast<std::uint32_t>(half) << 16)
                                   : 2 * half;
    }
  }
  return careful;
}

// --- tiles

#if LOCKSTEP_SCALAR_TILE

inline constexpr int kQ8Rows = 1;

template <int kForm> void q8_multiply(const Q8TileArgs& args) {
  constexpr Q8Form form = kQ8Forms[kForm];
  const auto decode = [](const std::byte* at) {
    const std::uint32_t word = LOAD_U16(at, 0);
    return kQ8Forms[kForm].power_scales() ? FROM_BITS(word << 16) : scalar::decode_f16(word);
  };
  for (std::int64_t r = 0; r < args.row_count; ++r) {
    const Q8Activations* a = args.rows + r * args.row_stride;
    for (int lane = 0; lane < kQ8Lanes; ++lane) {
      const std::byte* at = args.panel;
      const std::byte* scales = at;
      float total = 0;
      float partial = 0;
      // Byte `i` of what the lane has from `from` on.
      const auto byte_at = [lane](const std::byte* from, int i) {
        return static_cast<int>(from[i / 4 * 4 * kQ8Lanes + 4 * lane + i % 4]);
      };
      for (std::int64_t b = 0; b < args.blocks; ++b) {
        if (!form.large || b % 8 == 0) {
          scales = at;
          at += (form.scales_bytes() + form.factors_bytes() + form.shares_bytes()) * kQ8Lanes;
        }
        const std::byte* const factors = scales + form.scales_bytes() * kQ8Lanes;
        const std::byte* const shares = factors + form.factors_bytes() * kQ8Lanes;
        const std::byte* const codes = at;
        std::int32_t sum = 0;
        std::int32_t share_sum = 0;
        for (int k = 0; k < order::kQ8Block; ++k) {
          const int quad = k / 4;
          const int g = static_cast<int>(b % 8) * form.groups() + k / form.group();
          int code = byte_at(codes, form.nibbles() ? k % 16 : k);
          if (form.nibbles()) code = quad < 4 ? code & 15 : code >> 4;
          code = form.is_signed() ? static_cast<std::int8_t>(code) : code - form.zero;
          const int factor = form.factors ? static_cast<std::int8_t>(byte_at(factors, g)) : 1;
          const int share = form.shares ? static_cast<std::int8_t>(byte_at(shares, g)) : 1;
          sum += factor * code * a[b].codes[k];
          share_sum += share * a[b].codes[k];
        }
        const float scale = canonical_result(decode(scales + 2 * lane) * a[b].scale);
        partial = std::fma(static_cast<float>(sum), scale, partial);
        if constexpr (form.offsets()) {
          const float offset = canonical_result(decode(scales + 2 * (kQ8Lanes + lane)) * a[b].scale);
          partial = std::fma(static_cast<float>(share_sum), offset, partial);
        }
        at += form.codes_bytes() * kQ8Lanes;
        if (b % 8 == 7 || b + 1 == args.blocks) {
          total = b < 8 ? partial : total + partial;
          partial = 0;
        }
      }
      args.results[r * args.results_stride + lane] = total;
    }
  }
}

#else

inline constexpr int kQ8Rows = 4;

using Q8D = hn::CappedTag<std::int32_t, kQ8Lanes>;
using Q8V = hn::Vec<Q8D>;
using Q8D16 = hn::Repartition<std::int16_t, Q8D>;
using Q8V16 = hn::Vec<Q8D16>;
using Q8D8 = hn::Repartition<std::int8_t, Q8D>;
using Q8V8 = hn::Vec<Q8D8>;

// Sums of two neighbouring products. Weights are not negative and below 128.
HWY_INLINE Q8V16 pair_products(Q8V8 weights, Q8V8 codes) {
#if HWY_TARGET == HWY_AVX3
  return Q8V16{_mm512_maddubs_epi16(weights.raw, codes.raw)};
#elif HWY_TARGET == HWY_AVX2
  return Q8V16{_mm256_maddubs_epi16(weights.raw, codes.raw)};
#else
  return Q8V16(
      vpaddq_s16(vmull_s8(vget_low_s8(weights.raw), vget_low_s8(codes.raw)), vmull_high_s8(weights.raw, codes.raw)));
#endif
}

// Weights of both signs, as pair_products takes them: their magnitudes.
HWY_INLINE Q8V8 magnitudes(Q8V8 weights) {
#if HWY_TARGET == HWY_NEON
  return weights;
#else
  return hn::Abs(weights);
#endif
}
HWY_INLINE Q8V16 signed_pair_products(Q8V8 weights, [[maybe_unused]] Q8V8 sizes, Q8V8 codes) {
#if HWY_TARGET == HWY_AVX3
  const __m512i turned =
      _mm512_mask_sub_epi8(codes.raw, _mm512_movepi8_mask(weights.raw), _mm512_setzero_si512(), codes.raw);
  return Q8V16{_mm512_maddubs_epi16(sizes.raw, turned)};
#elif HWY_TARGET == HWY_AVX2
  return Q8V16{_mm256_maddubs_epi16(sizes.raw, _mm256_sign_epi8(codes.raw, weights.raw))};
#else
  return pair_products(weights, codes);
#endif
}

// Sums of two neighbouring products in 32 bits.
HWY_INLINE Q8V wide_products(Q8V16 a, Q8V16 b) {
#if HWY_TARGET == HWY_AVX3
  return Q8V{_mm512_madd_epi16(a.raw, b.raw)};
#elif HWY_TARGET == HWY_AVX2
  return Q8V{_mm256_madd_epi16(a.raw, b.raw)};
#else
  return Q8V(vpaddq_s32(vmull_s16(vget_low_s16(a.raw), vget_low_s16(b.raw)), vmull_high_s16(a.raw, b.raw)));
#endif
}

template <bool kPowers> HWY_INLINE hn::Vec<Tag<float> > load_scales(const std::byte* at) {
  const Tag<float> df;
  const hn::Rebind<std::uint16_t, Tag<float> > d16;
  const auto words = hn::LoadU(d16, reinterpret_cast<const std::uint16_t*>(at));
  if constexpr (kPowers) {
    return hn::BitCast(df, hn::ShiftLeft<16>(hn::PromoteTo(hn::RebindToUnsigned<Tag<float> >(), words)));
  } else {
    return hn::PromoteTo(df, hn::BitCast(hn::Rebind<hwy::float16_t, Tag<float> >(), words));
  }
}

// Every lane's signed byte number `g` of words: twice, as words of 16 bits; as a float.
HWY_INLINE Q8V16 factor_of_group(const std::byte* words, int g) {
  const Q8D d;
  const Q8D16 d16;
  const auto four = hn::LoadU(d, reinterpret_cast<const std::int32_t*>(words + g / 4 * 4 * kQ8Lanes));
  const auto top = hn::And(hn::ShiftLeftSame(four, 24 - g % 4 * 8), hn::Set(d, std::int32_t{-1} << 24));
  const auto both = hn::Or(top, hn::BitCast(d, hn::ShiftRight<16>(hn::BitCast(hn::RebindToUnsigned<Q8D>(), top))));
  return hn::ShiftRight<8>(hn::BitCast(d16, both));
}
HWY_INLINE hn::Vec<Tag<float> > share_of_group(const std::byte* words, int g) {
  const Q8D d;
  const auto four = hn::LoadU(d, reinterpret_cast<const std::int32_t*>(words + g / 4 * 4 * kQ8Lanes));
  return hn::ConvertTo(Tag<float>(), hn::ShiftRight<24>(hn::ShiftLeftSame(four, 24 - g % 4 * 8)));
}

template <int kForm, int kRows> HWY_NOINLINE void q8_tile(const Q8TileArgs& args) {
  constexpr Q8Form form = kQ8Forms[kForm];
  constexpr int kN = kQ8Lanes;
  constexpr int kQuadsOfGroup = form.group() / 4;
  const Tag<float> df;
  const Q8D d;
  const Q8D16 d16;
  const Q8D8 d8;
  using VF = hn::Vec<decltype(df)>;
  VF total[kRows];
  VF partial[kRows];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) total[r] = partial[r] = hn::Zero(df);
  const std::byte* at = args.panel;
  const std::byte* factors = at;
  constexpr int kSoon = form.bytes() * kN / 2 * order::kQ8Block / form.elements();
  const std::byte* soon = args.soon;
  VF scale = hn::Zero(df);
  [[maybe_unused]] VF offset = hn::Zero(df);
  for (std::int64_t b = 0; b < args.blocks; ++b) {
    const Q8Activations* const rows = args.rows + b;
    if (!form.large || (b & 7) == 0) {
      scale = load_scales<form.power_scales()>(at);
      if constexpr (form.offsets()) offset = load_scales<form.power_scales()>(at + 2 * kN);
      factors = at + form.scales_bytes() * kN;
      at = factors + (form.factors_bytes() + form.shares_bytes()) * kN;
    }
    const std::byte* const codes = at;
    at += form.codes_bytes() * kN;
    if (kRows == 1 && soon != nullptr) {
      for (int byte = 0; byte < kSoon; byte += 64) hwy::Prefetch(soon + byte);
      soon += kSoon;
    }
    Q8V sum[kRows];
#pragma GCC unroll 2
    for (int g = 0; g < form.groups(); ++g) {
      Q8V16 factor = hn::Set(d16, 1);
      if constexpr (form.factors) {
        factor = factor_of_group(factors, static_cast<int>(b & 7) * form.groups() + g);
      }
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        Q8V begin = hn::Zero(d);
        if constexpr (form.zero != 0) {
          begin = hn::Set(d, rows[r * args.row_stride].shifts[g]);
          if constexpr (form.factors) begin = wide_products(hn::BitCast(d16, begin), factor);
        }
        sum[r] = g == 0 ? begin : hn::Add(sum[r], begin);
      }
      Q8V16 narrow[kRows];
      Q8V8 both = hn::Zero(d8);
#pragma GCC unroll 8
      for (int q = 0; q < kQuadsOfGroup; ++q) {
        // Of nibbles in one group, those of the same bytes follow each other.
        const bool in_pairs = form.nibbles() && form.groups() == 1;
        const int quad = in_pairs ? q / 2 + q % 2 * 4 : g * kQuadsOfGroup + q;
        Q8V8 weights;
        if constexpr (form.nibbles()) {
          const auto low = hn::Set(d8, 15);
          if (!in_pairs || quad < 4)
            both = hn::LoadU(d8, reinterpret_cast<const std::int8_t*>(codes + quad % 4 * 4 * kN));
          if (quad < 4) {
            weights = hn::And(both, low);
          } else {
            weights = hn::And(hn::BitCast(d8, hn::ShiftRight<4>(hn::BitCast(d16, both))), low);
          }
        } else {
          weights = hn::LoadU(d8, reinterpret_cast<const std::int8_t*>(codes + quad * 4 * kN));
        }
        [[maybe_unused]] const Q8V8 sizes = form.is_signed() ? magnitudes(weights) : weights;
#pragma GCC unroll 4
        for (int r = 0; r < kRows; ++r) {
          std::int32_t four;
          std::memcpy(&four, rows[r * args.row_stride].codes + 4 * quad, 4);
          const Q8V8 x = hn::BitCast(d8, hn::Set(d, four));
          Q8V16 products;
          if constexpr (form.is_signed()) {
            products = signed_pair_products(weights, sizes, x);
          } else {
            products = pair_products(weights, x);
          }
          narrow[r] = q % form.quads_at_once() == 0 ? products : hn::Add(narrow[r], products);
          if ((q + 1) % form.quads_at_once() == 0) sum[r] = hn::Add(sum[r], wide_products(narrow[r], factor));
        }
      }
    }
    [[maybe_unused]] VF share[2] = {hn::Zero(df), hn::Zero(df)};
    if constexpr (form.shares) {
#pragma GCC unroll 2
      for (int g = 0; g < form.groups(); ++g) {
        const std::byte* const shares = factors + form.factors_bytes() * kN;
        share[g] = share_of_group(shares, static_cast<int>(b & 7) * form.groups() + g);
      }
    }
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      const Q8Activations& row = rows[r * args.row_stride];
      const VF own = hn::Set(df, row.scale);
      VF product = hn::Mul(scale, own);
      if (HWY_UNLIKELY(args.careful)) product = canonical_result(df, product);
      partial[r] = hn::MulAdd(hn::ConvertTo(df, sum[r]), product, partial[r]);
      if constexpr (form.offsets()) {
        VF shared = hn::Set(df, row.sums[0]);
        if constexpr (form.shares) shared = hn::Mul(shared, share[0]);
        if constexpr (form.groups() == 2) shared = hn::MulAdd(hn::Set(df, row.sums[1]), share[1], shared);
        VF below = hn::Mul(offset, own);
        if (HWY_UNLIKELY(args.careful)) below = canonical_result(df, below);
        partial[r] = hn::MulAdd(shared, below, partial[r]);
      }
    }
    if ((b & 7) == 7 || b + 1 == args.blocks) {
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        total[r] = b < 8 ? partial[r] : hn::Add(total[r], partial[r]);
        partial[r] = hn::Zero(df);
      }
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) hn::StoreU(total[r], df, args.results + r * args.results_stride);
}

template <int kForm> void q8_multiply(const Q8TileArgs& args) {
  switch (args.row_count) {
    case 1: return q8_tile<kForm, 1>(args);
    case 2: return q8_tile<kForm, 2>(args);
    case 3: return q8_tile<kForm, 3>(args);
    default: return q8_tile<kForm, 4>(args);
  }
}

#endif  // LOCKSTEP_SCALAR_TILE

template <int kForm> Q8Loops q8_loops_of() {
  return {.lanes = kQ8Lanes,
          .rows = kQ8Rows,
          .panel_bytes = &q8_panel_bytes<kForm>,
          .pack = &q8_pack<kForm>,
          .quantize = &q8_quantize<kForm>,
          .multiply = &q8_multiply<kForm>};
}

}  // namespace HWY_NAMESPACE
}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
HWY_AFTER_NAMESPACE();

#endif  // include guard, per target

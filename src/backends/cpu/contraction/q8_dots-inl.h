// Integer products of codes in q8 numerics (q8.h), per instruction set. With VNNI four neighbours along k are
// multiplied and added in one instruction, weights unsigned, and with NEON's dot products (q8_sdot-inl.h). Elsewhere
// codes are multiplied in pairs to 16 bits, which are added as long as they cannot overflow.

#if defined(LOCKSTEP_CONTRACTION_Q8_DOTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCKSTEP_CONTRACTION_Q8_DOTS_INL_H_
#undef LOCKSTEP_CONTRACTION_Q8_DOTS_INL_H_
#else
#define LOCKSTEP_CONTRACTION_Q8_DOTS_INL_H_
#endif

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "backends/cpu/contraction/q8.h"
#include "backends/cpu/contraction/q8_panel-inl.h"
#include "backends/cpu/contraction/tile-inl.h"

// VNNI is not part of Highway's AVX-512 target; q8_loops() gives that target's loops only where the processor has it.
#undef LOCKSTEP_Q8_BEFORE_NAMESPACE
#undef LOCKSTEP_Q8_VNNI
#if HWY_TARGET == HWY_AVX3
#define LOCKSTEP_Q8_BEFORE_NAMESPACE() HWY_PUSH_ATTRIBUTES(HWY_TARGET_STR ",avx512vnni")
#define LOCKSTEP_Q8_VNNI 1
#else
#define LOCKSTEP_Q8_BEFORE_NAMESPACE() HWY_BEFORE_NAMESPACE()
#define LOCKSTEP_Q8_VNNI 0
#endif

// NEON has loops with dot products beside its others.
#undef LOCKSTEP_Q8_NAMESPACE
#ifdef LOCKSTEP_Q8_SDOT
#define LOCKSTEP_Q8_NAMESPACE HWY_NAMESPACE::inline with_sdot
#else
#define LOCKSTEP_Q8_NAMESPACE HWY_NAMESPACE
#endif

#if !LOCKSTEP_SCALAR_TILE

LOCKSTEP_Q8_BEFORE_NAMESPACE();
namespace lockstep {
inline namespace v0 {
namespace contraction {
namespace LOCKSTEP_Q8_NAMESPACE {

// Four neighbours along k of every lane's codes of 32, as they lie in a panel: number `quad` in the order in which they
// are multiplied. Of nibbles in one group, those of the same bytes follow each other; `both` keeps the bytes for them.
template <int kForm> HWY_INLINE Q8V8 load_quad(const std::byte* codes, int quad, Q8V8& both) {
  constexpr Q8Form form = kQ8Forms[kForm];
  const Q8D8 d;
  const auto load = [codes, d](int word) HWY_ATTR {
    return hn::LoadU(d, reinterpret_cast<const std::int8_t*>(codes + word * 4 * kQ8Lanes));
  };
  if constexpr (form.nibbles()) {
    const auto low = hn::Set(d, 15);
    if (quad < 4 || form.groups() != 1) both = load(quad % 4);
    if (quad < 4) return hn::And(both, low);
    return hn::And(hn::BitCast(d, hn::ShiftRight<4>(hn::BitCast(Q8D16(), both))), low);
  } else {
    return load(quad);
  }
}
template <int kForm> constexpr int quad_at(int group, int step) {
  constexpr Q8Form form = kQ8Forms[kForm];
  if (form.nibbles() && form.groups() == 1) return step / 2 + step % 2 * 4;
  return group * form.group() / 4 + step;
}

HWY_INLINE Q8V8 quad_of(const Q8Activations& row, int quad) {
  std::int32_t four;
  std::memcpy(&four, row.codes + 4 * quad, 4);
  return hn::BitCast(Q8D8(), hn::Set(Q8D(), four));
}

#if LOCKSTEP_Q8_VNNI

/// What is added to an encoding's codes, so that they are not negative.
constexpr int raise_of(Q8Form form) {
  return form.is_signed() ? 128 : form.zero;
}
/// What makes up for that, of a group whose activations' codes have this sum (Q8Activations::shifts).
template <int kForm> std::int32_t shift_of(std::int32_t sum) {
  return -raise_of(kQ8Forms[kForm]) * sum;
}

/// Codes as they lie in panels, raised.
template <int kForm> HWY_INLINE Q8V8 raised(Q8V8 codes) {
  if constexpr (kQ8Forms[kForm].is_signed()) return hn::Xor(codes, hn::Set(Q8D8(), std::int8_t{-128}));
  return codes;
}
HWY_INLINE Q8V add_dots(Q8V sums, Q8V8 weights, Q8V8 codes) {
  return Q8V{_mm512_dpbusd_epi32(sums.raw, weights.raw, codes.raw)};
}

/// The sums I (docs/numerics.md section 14) of 32 k, of a panel's columns and each row; `group`: the first factor.
template <int kForm, int kRows>
HWY_INLINE void block_products(const std::byte* codes, const std::byte* factors, int group, const Q8Activations* rows,
                               std::int64_t row_stride, hn::Vec<Tag<float> >* sums) {
  constexpr Q8Form form = kQ8Forms[kForm];
  const Q8D d;
  const Tag<float> df;
  Q8V8 both = hn::Zero(Q8D8());
#pragma GCC unroll 2
  for (int g = 0; g < form.groups(); ++g) {
    Q8V sum[kRows];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      sum[r] = raise_of(form) == 0 ? hn::Zero(d) : hn::Set(d, rows[r * row_stride].shifts[g]);
    }
#pragma GCC unroll 8
    for (int step = 0; step < form.group() / 4; ++step) {
      const int quad = quad_at<kForm>(g, step);
      const Q8V8 weights = raised<kForm>(load_quad<kForm>(codes, quad, both));
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) sum[r] = add_dots(sum[r], weights, quad_of(rows[r * row_stride], quad));
    }
    if constexpr (form.factors) {  // all these integers are floats, too
      const auto factor = number_of_group(factors, group + g);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const auto number = hn::ConvertTo(df, sum[r]);
        sums[r] = g == 0 ? hn::Mul(number, factor) : hn::MulAdd(number, factor, sums[r]);
      }
    } else {
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) sums[r] = hn::ConvertTo(df, sum[r]);
    }
  }
}

#elif defined(LOCKSTEP_Q8_SDOT)

#include "backends/cpu/contraction/q8_sdot-inl.h"

#else

constexpr int raise_of(Q8Form form) {
  return form.zero;
}
/// The same, -zero times the sum; where there are factors half of it, twice, as a pair of 16 bits.
template <int kForm> std::int32_t shift_of(std::int32_t sum) {
  constexpr Q8Form form = kQ8Forms[kForm];
  const std::int32_t half = -(form.zero / 2) * sum;
  if (!form.factors) return 2 * half;
  return static_cast<std::int32_t>((static_cast<std::uint32_t>(half) & 0xffffu) | static_cast<std::uint32_t>(half)
                                                                                      << 16);
}

// Sums of two neighbouring products. Weights are not negative and below 128.
HWY_INLINE Q8V16 pair_products(Q8V8 weights, Q8V8 codes) {
#if HWY_TARGET == HWY_AVX2
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
#if HWY_TARGET == HWY_AVX2
  return Q8V16{_mm256_maddubs_epi16(sizes.raw, _mm256_sign_epi8(codes.raw, weights.raw))};
#else
  return pair_products(weights, codes);
#endif
}

// Sums of two neighbouring products in 32 bits.
HWY_INLINE Q8V wide_products(Q8V16 a, Q8V16 b) {
#if HWY_TARGET == HWY_AVX2
  return Q8V{_mm256_madd_epi16(a.raw, b.raw)};
#else
  return Q8V(vpaddq_s32(vmull_s16(vget_low_s16(a.raw), vget_low_s16(b.raw)), vmull_high_s16(a.raw, b.raw)));
#endif
}

template <bool kFactors> HWY_INLINE Q8V add_wide_products(Q8V sums, Q8V16 products, Q8V16 factor) {
#if HWY_TARGET == HWY_NEON
  if constexpr (!kFactors) return Q8V(vpadalq_s16(sums.raw, products.raw));
#endif
  return hn::Add(sums, wide_products(products, factor));
}

// Every lane's signed byte number `g` of words twice, as words of 16 bits.
HWY_INLINE Q8V16 factor_of_group(const std::byte* words, int g) {
  const Q8D d;
  const Q8D16 d16;
  const auto four = hn::LoadU(d, reinterpret_cast<const std::int32_t*>(words + g / 4 * 4 * kQ8Lanes));
  const auto top = hn::And(hn::ShiftLeftSame(four, 24 - g % 4 * 8), hn::Set(d, std::int32_t{-1} << 24));
  const auto both = hn::Or(top, hn::BitCast(d, hn::ShiftRight<16>(hn::BitCast(hn::RebindToUnsigned<Q8D>(), top))));
  return hn::ShiftRight<8>(hn::BitCast(d16, both));
}

/// The sums I (docs/numerics.md section 14) of 32 k, of a panel's columns and each row; `group`: the first factor.
template <int kForm, int kRows>
HWY_INLINE void block_products(const std::byte* codes, const std::byte* factors, int group, const Q8Activations* rows,
                               std::int64_t row_stride, hn::Vec<Tag<float> >* sums) {
  constexpr Q8Form form = kQ8Forms[kForm];
  const Q8D d;
  const Q8D16 d16;
  Q8V8 both = hn::Zero(Q8D8());
  Q8V sum[kRows];
  // Neither groups nor their steps are loops: compilers keep those, with their choices, at twice the time.
  const auto add_group = [&]<int g>(std::integral_constant<int, g>) HWY_ATTR __attribute__((always_inline)) {
    Q8V16 factor = hn::Set(d16, 1);
    if constexpr (form.factors) factor = factor_of_group(factors, group + g);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      Q8V begin = hn::Zero(d);
      if constexpr (form.zero != 0) {
        begin = hn::Set(d, rows[r * row_stride].shifts[g]);
        if constexpr (form.factors) begin = wide_products(hn::BitCast(d16, begin), factor);
      }
      sum[r] = g == 0 ? begin : hn::Add(sum[r], begin);
    }
    Q8V16 narrow[kRows];
    const auto add = [&]<int kStep>(std::integral_constant<int, kStep>) HWY_ATTR {
      const int quad = quad_at<kForm>(g, kStep);
      const Q8V8 weights = load_quad<kForm>(codes, quad, both);
      [[maybe_unused]] const Q8V8 sizes = form.is_signed() ? magnitudes(weights) : weights;
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        const Q8V8 x = quad_of(rows[r * row_stride], quad);
        const Q8V16 products = form.is_signed() ? signed_pair_products(weights, sizes, x) : pair_products(weights, x);
        narrow[r] = kStep % form.quads_at_once() == 0 ? products : hn::Add(narrow[r], products);
        if ((kStep + 1) % form.quads_at_once() == 0) {
          sum[r] = add_wide_products<form.factors>(sum[r], narrow[r], factor);
        }
#if HWY_TARGET == HWY_AVX2
        // Left to themselves, compilers add four and more pair by pair, out of more vectors than there are registers.
        if constexpr (kQ8Forms[kForm].quads_at_once() >= 4) asm("" : "+x"(narrow[r].raw));
#endif
      }
    };
    [add]<int... kSteps>(std::integer_sequence<int, kSteps...>) HWY_ATTR {
      (add(std::integral_constant<int, kSteps>()), ...);
    }(std::make_integer_sequence<int, kQ8Forms[kForm].group() / 4>());
  };
  add_group(std::integral_constant<int, 0>());
  if constexpr (form.groups() == 2) add_group(std::integral_constant<int, 1>());
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) sums[r] = hn::ConvertTo(Tag<float>(), sum[r]);
}

#endif  // LOCKSTEP_Q8_VNNI

}  // namespace LOCKSTEP_Q8_NAMESPACE
}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
HWY_AFTER_NAMESPACE();

#endif  // LOCKSTEP_SCALAR_TILE

#endif  // include guard, per target

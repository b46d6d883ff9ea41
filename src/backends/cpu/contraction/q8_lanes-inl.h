// Codes of four bits out of blocks where they lie (q8_in_place-inl.h): a vector holds 16 of each of a column's next
// blocks, one block in each 128 bits, so that a block's sum needs only its own four lanes, and the sums of four columns
// are made together.

#if defined(LOCKSTEP_CONTRACTION_Q8_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCKSTEP_CONTRACTION_Q8_LANES_INL_H_
#undef LOCKSTEP_CONTRACTION_Q8_LANES_INL_H_
#else
#define LOCKSTEP_CONTRACTION_Q8_LANES_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "backends/cpu/contraction/q8.h"
#include "backends/cpu/contraction/q8_dots-inl.h"
#include "backends/cpu/contraction/q8_panel-inl.h"

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3

LOCKSTEP_Q8_BEFORE_NAMESPACE();
namespace lockstep {
inline namespace v0 {
namespace contraction {
namespace HWY_NAMESPACE {

/// Blocks that a vector has 16 codes of.
inline constexpr int kQ8Quarters = kQ8Lanes / 4;

/// 16 bytes from each of kQ8Quarters places, `next` bytes apart.
HWY_INLINE Q8VBytes load_quarters(const std::uint8_t* at, std::ptrdiff_t next) {
  const auto load = [at, next](int i) HWY_ATTR {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at + i * next));
  };
#if HWY_TARGET == HWY_AVX3
  auto bytes = _mm512_castsi128_si512(load(0));
  bytes = _mm512_inserti32x4(bytes, load(1), 1);
  bytes = _mm512_inserti32x4(bytes, load(2), 2);
  return Q8VBytes{_mm512_inserti32x4(bytes, load(3), 3)};
#else
  return Q8VBytes{_mm256_inserti128_si256(_mm256_castsi128_si256(load(0)), load(1), 1)};
#endif
}

/// The 16 bytes of codes of each of kQ8Quarters blocks that lie one after the other.
template <int kBytes> HWY_INLINE Q8VBytes load_quarters_of_blocks(const std::uint8_t* at, int first) {
#if HWY_TARGET == HWY_AVX3
  if constexpr (kBytes == 18) {  // all in words of the first 64 bytes and of eight more
    const auto of = _mm512_set_epi16(35, 34, 33, 31, 30, 29, 28, 27, 25, 24, 23, 22, 21, 20, 19, 18, 16, 15, 14, 13, 12,
                                     11, 10, 9, 7, 6, 5, 4, 3, 2, 1, 0);
    const auto most = _mm512_loadu_si512(at + first);
    const auto rest = _mm512_castsi128_si512(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(at + 64)));
    return Q8VBytes{_mm512_permutex2var_epi16(most, of, rest)};
  }
#endif
  return load_quarters(at + first, kBytes);
}

/// In each 32 bits the sum of eight products, of codes below 16.
HWY_INLINE Q8V dots_of_two(Q8VBytes a, Q8VBytes b, Q8V8 with_a, Q8V8 with_b) {
  const Q8D8 d8;
#if LOCKSTEP_Q8_VNNI
  return add_dots(add_dots(hn::Zero(Q8D()), hn::BitCast(d8, a), with_a), hn::BitCast(d8, b), with_b);
#else
  const auto products = hn::Add(pair_products(hn::BitCast(d8, a), with_a), pair_products(hn::BitCast(d8, b), with_b));
  return wide_products(products, hn::Set(Q8D16(), 1));
#endif
}

/// In each 128 bits, sums of two neighbours of a's, then of b's: numbers that 16 bits hold.
HWY_INLINE Q8V sums_of_neighbours(Q8V a, Q8V b) {
#if HWY_TARGET == HWY_AVX3
  return Q8V{_mm512_madd_epi16(_mm512_packs_epi32(a.raw, b.raw), _mm512_set1_epi16(1))};
#else
  return Q8V{_mm256_madd_epi16(_mm256_packs_epi32(a.raw, b.raw), _mm256_set1_epi16(1))};
#endif
}

/// Of codes below 16, the sums of 32 of four columns: numbers of four lanes, of which two are below 2^15.
HWY_INLINE Q8V sums_of_nibbles(Q8V a, Q8V b, Q8V c, Q8V e) {
  static_assert(16 * 15 * 127 < 1 << 15);
  return sums_of_neighbours(sums_of_neighbours(a, b), sums_of_neighbours(c, e));
}

/// Of larger ones, the sums of each group of four lanes: numbers of 16 bits, of which two need more.
HWY_INLINE Q8V sums_of_sixteen(Q8V a, Q8V b, Q8V c, Q8V e) {
  const Tag<float> d;
  const auto ab = hn::BitCast(d, sums_of_neighbours(a, b)), ce = hn::BitCast(d, sums_of_neighbours(c, e));
#if HWY_TARGET == HWY_AVX3
  const auto even = _mm512_shuffle_ps(ab.raw, ce.raw, 0x88), odd = _mm512_shuffle_ps(ab.raw, ce.raw, 0xdd);
#else
  const auto even = _mm256_shuffle_ps(ab.raw, ce.raw, 0x88), odd = _mm256_shuffle_ps(ab.raw, ce.raw, 0xdd);
#endif
  const Q8D to;
  return hn::Add(hn::BitCast(to, hn::Vec<Tag<float> >{even}), hn::BitCast(to, hn::Vec<Tag<float> >{odd}));
}

/// Codes of six bits, of which `four` has the lower four and `two` the upper two as bits 4 and 5.
HWY_INLINE Q8VBytes six_bits(Q8VBytes four, Q8VBytes two) {
  return hn::OrAnd(four, two, hn::Set(Q8Bytes(), 0x30));
}
/// Two bits to the place of bits 4 and 5: from 0 and 1, the later block's from 2 and 3; or kPart more.
template <int kPart> HWY_INLINE Q8VBytes raised_two_bits(Q8VBytes bits) {
#if HWY_TARGET == HWY_AVX3
  return Q8VBytes{_mm512_sllv_epi32(bits.raw, _mm512_mask_set1_epi32(_mm512_set1_epi32(4), 0xff00, 2))};
#else
  return Q8VBytes{_mm256_slli_epi32(bits.raw, 4 - 2 * kPart)};
#endif
}
/// From 4 and 5, the later block's from 6 and 7.
template <int kPart> HWY_INLINE Q8VBytes lowered_two_bits(Q8VBytes bits) {
#if HWY_TARGET == HWY_AVX3
  return Q8VBytes{_mm512_srlv_epi32(bits.raw, _mm512_mask_set1_epi32(_mm512_setzero_si512(), 0xff00, 2))};
#else
  return Q8VBytes{_mm256_srli_epi32(bits.raw, 2 * kPart)};
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
HWY_AFTER_NAMESPACE();

#endif

#endif  // include guard, per target

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

/// The next kQ8Quarters blocks of as many columns as there are lanes, of kBytes bytes each, codes from byte kFirst on.
template <int kBytes, int kFirst> class Quarters {
 public:
  /// Whether scales come with codes.
  static constexpr bool kHasScales = false;

  /// The codes of column 4 * c + i.
  HWY_INLINE Q8VBytes codes(int /*c*/, int /*i*/, const std::uint8_t* at) { return load_quarters(at + kFirst, kBytes); }
  HWY_INLINE void store_scales(std::byte* /*to*/, std::ptrdiff_t /*next*/) const {}
};

#if HWY_TARGET == HWY_AVX3
/// Words of 16 bits of four such blocks are sorted by one permutation, because one of two vectors takes its port twice.
template <> class Quarters<18, 2> {
 public:
  static constexpr bool kHasScales = true;

  HWY_INLINE Q8VBytes codes(int c, int i, const std::uint8_t* at) {
    // In 128 bits each the codes of three blocks, then twice the scales of all four.
    const auto of = _mm512_set_epi16(27, 18, 9, 0, 27, 18, 9, 0, 26, 25, 24, 23, 22, 21, 20, 19, 17, 16, 15, 14, 13, 12,
                                     11, 10, 8, 7, 6, 5, 4, 3, 2, 1);
    split_[i] = _mm512_permutexvar_epi16(of, _mm512_loadu_si512(at));
    if (i == 3) add_scales(c);
    const auto last = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at + 56));
    return Q8VBytes{_mm512_mask_broadcast_i32x4(split_[i], 0xf000, last)};
  }

  /// All columns' side by side, block after block, `next` bytes apart.
  HWY_INLINE void store_scales(std::byte* to, std::ptrdiff_t next) const {
    // In 128 bits each those of columns 0 and 1, 4 and 5, 2 and 3, 6 and 7; then of eight columns more.
    const auto low = _mm512_mask_blend_epi64(0xcc, scales_[0], scales_[1]);
    const auto high = _mm512_mask_blend_epi64(0xcc, scales_[2], scales_[3]);
    store_two(low, high, 0, to, to + next);
    store_two(low, high, 2, to + 2 * next, to + 3 * next);
  }

 private:
  HWY_INLINE void add_scales(int c) {
    scales_[c] = _mm512_shuffle_i32x4(_mm512_mask_blend_epi64(0x80, split_[0], split_[1]),
                                      _mm512_mask_blend_epi64(0x80, split_[2], split_[3]), 0xff);
  }
  static HWY_INLINE void store_two(__m512i low, __m512i high, int block, std::byte* to, std::byte* then) {
    alignas(64) std::uint16_t of[32];
    for (int i = 0; i < 32; ++i) {
      const int column = i % 16;
      const int lane = column % 4 / 2 * 2 + column % 8 / 4;
      of[i] = static_cast<std::uint16_t>(column / 8 * 32 + lane * 8 + column % 2 * 4 + block + i / 16);
    }
    const auto words = _mm512_permutex2var_epi16(low, _mm512_load_si512(of), high);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_castsi512_si256(words));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(then), _mm512_extracti64x4_epi64(words, 1));
  }

  __m512i split_[4];   ///< of columns 4 * c on
  __m512i scales_[4];  ///< of each such four, in pairs
};
#endif

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

// One row times blocks of Q4_0 whose lanes lie one after the other in memory (block_columns-inl.h), with AVX-512: all
// bytes of a block of k are turned into words of each lane, scales among them, in places that are known beforehand.

#if defined(LOCKSTEP_CONTRACTION_Q4_0_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCKSTEP_CONTRACTION_Q4_0_LANES_INL_H_
#undef LOCKSTEP_CONTRACTION_Q4_0_LANES_INL_H_
#else
#define LOCKSTEP_CONTRACTION_Q4_0_LANES_INL_H_
#endif

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "backends/cpu/contraction/q8_panel-inl.h"
#include "backends/cpu/contraction/thin_args.h"
#include "backends/cpu/contraction/tile-inl.h"

#if HWY_TARGET == HWY_AVX3

HWY_BEFORE_NAMESPACE();
namespace lockstep {
inline namespace v0 {
namespace contraction {
namespace HWY_NAMESPACE {

/// Bytes of a block of k, and of 16 lanes' words.
inline constexpr std::ptrdiff_t kQ4_0Bytes = kBlock / 32 * 18;
inline constexpr std::ptrdiff_t kQ4_0Panel = kLanes<float> * kQ4_0Bytes;

/// The words of the lanes from `at` on: 16 bytes of each become four.
inline void pack_q4_0_lanes(const std::byte* at, std::byte* panel) {
  const auto each_fourth = [](const std::byte* from) HWY_ATTR {
    const auto part = [from](int i) HWY_ATTR {
      return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i * 4 * kQ4_0Bytes));
    };
    auto bytes = _mm512_castsi128_si512(part(0));
    bytes = _mm512_inserti32x4(bytes, part(1), 1);
    bytes = _mm512_inserti32x4(bytes, part(2), 2);
    return Q8VBytes{_mm512_inserti32x4(bytes, part(3), 3)};
  };
  for (std::ptrdiff_t byte = 0; byte < kQ4_0Bytes; byte += 16) {
    interleave([&](int i) HWY_ATTR { return each_fourth(at + byte + i * kQ4_0Bytes); }, panel + byte * kLanes<float>);
  }
}

using Q4_0Words = __m512i[kThinBlockPieces];
using Q4_0Floats = __m512[kThinBlockPieces];

/// Word number `word` of every vector's lanes.
HWY_INLINE void load_q4_0(const std::byte* panels, int word, Q4_0Words& to) {
#pragma GCC unroll 4
  for (int p = 0; p < kThinBlockPieces; ++p) {
    to[p] = _mm512_loadu_si512(panels + p * kQ4_0Panel + word * 4 * kLanes<float>);
  }
}

/// The scales in the lower halves of words.
HWY_INLINE void scales_of(const Q4_0Words& words, Q4_0Floats& to) {
#pragma GCC unroll 4
  for (int p = 0; p < kThinBlockPieces; ++p) to[p] = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(words[p]));
}

/// A row's numbers times the codes at bit kBit of words, added to sums.
template <int kBit>
HWY_INLINE void add_codes(const float* row, const Q4_0Words& words, const Q4_0Floats& scales, Q4_0Floats& sums) {
  // Codes less 8 as floats, whose lower halves are zeros: a permutation of 16 bits finds a code at bit 16 without a
  // shift. Either looks at the lowest bits of an index, of which the codes' are four.
  alignas(64) static constexpr std::uint16_t kUpper[16] = {0xc100, 0xc0e0, 0xc0c0, 0xc0a0, 0xc080, 0xc040,
                                                           0xc000, 0xbf80, 0,      0x3f80, 0x4000, 0x4040,
                                                           0x4080, 0x40a0, 0x40c0, 0x40e0};
  const auto upper = _mm512_broadcast_i64x4(_mm256_load_si256(reinterpret_cast<const __m256i*>(kUpper)));
  const auto codes = hn::Iota(Tag<float>(), -8.0f).raw;
  const auto numbers = _mm512_loadu_ps(row);
#pragma GCC unroll 4
  for (int p = 0; p < kThinBlockPieces; ++p) {
    __m512 code;
    if constexpr (kBit >= 16) {
      code = _mm512_castsi512_ps(
          _mm512_maskz_permutexvar_epi16(0xaaaaaaaa, _mm512_srli_epi32(words[p], kBit - 16), upper));
    } else {
      code = _mm512_permutexvar_ps(_mm512_srli_epi32(words[p], kBit), codes);
    }
    sums[p] = _mm512_fmadd_ps(numbers, _mm512_mul_ps(code, scales[p]), sums[p]);
  }
}

/// What is packed later: of each vector its lines, `step` bytes from the vector before.
struct Q4_0Soon {
  const std::byte* at;
  std::ptrdiff_t step;

  /// Into the first cache. (A lambda that does nothing else is left out as doing nothing.)
  HWY_INLINE void ask_for(int line) const {
#pragma GCC unroll 4
    for (int p = 0; p < kThinBlockPieces; ++p) __builtin_prefetch(at + p * step + line * 64, 0, 3);
  }
};

/// Of two blocks' nine words - a scale and two codes, three words of codes, two codes and a scale, four words of codes
/// - the first block, whose codes straddle words; the lower ones of all bytes, or (kHigh = 4) the upper ones.
template <int kHigh>
HWY_INLINE const float* add_first_of_two(const std::byte* panels, const float* row, std::int64_t stride, Q4_0Soon soon,
                                         const Q4_0Floats& scales, Q4_0Floats& sums) {
  for (int i = 0; i < 4; ++i, row += 4 * stride) {
    if constexpr (kHigh == 0) soon.ask_for(i + 1);
    Q4_0Words words, next;
    load_q4_0(panels, i, words);
    load_q4_0(panels, i + 1, next);
    add_codes<16 + kHigh>(row, words, scales, sums);
    add_codes<24 + kHigh>(row + stride, words, scales, sums);
    add_codes<kHigh>(row + 2 * stride, next, scales, sums);
    add_codes<8 + kHigh>(row + 3 * stride, next, scales, sums);
  }
  return row;
}

/// The second one.
template <int kHigh>
HWY_INLINE const float* add_second_of_two(const std::byte* panels, const float* row, std::int64_t stride, Q4_0Soon soon,
                                          const Q4_0Floats& scales, Q4_0Floats& sums) {
  for (int i = 5; i < 9; ++i, row += 4 * stride) {
    if constexpr (kHigh == 0) soon.ask_for(i);
    Q4_0Words words;
    load_q4_0(panels, i, words);
    add_codes<kHigh>(row, words, scales, sums);
    add_codes<8 + kHigh>(row + stride, words, scales, sums);
    add_codes<16 + kHigh>(row + 2 * stride, words, scales, sums);
    add_codes<24 + kHigh>(row + 3 * stride, words, scales, sums);
  }
  return row;
}

/// Of vectors of lanes, whose words lie one vector's after the other's. `row`: of every k the numbers of a vector's
/// lanes, `stride` from one k to the next. `soon`: what of each vector is packed next. False where a sum is no finite
/// number.
HWY_NOINLINE inline bool multiply_q4_0_lanes(const std::byte* panels, const float* row, std::int64_t stride,
                                             Q4_0Soon soon, float* sums, std::int64_t sums_stride) {
  Q4_0Floats scales, acc;
  Q4_0Words words;
  for (__m512& sum : acc) sum = _mm512_setzero_ps();
  constexpr std::ptrdiff_t kTwo = 9 * 4 * kLanes<float>;
  for (const std::byte* const end = panels + kQ4_0Panel; panels < end; panels += kTwo, soon.at += kTwo) {
    soon.ask_for(0);
    load_q4_0(panels, 0, words);
    scales_of(words, scales);
    row = add_first_of_two<0>(panels, row, stride, soon, scales, acc);
    row = add_first_of_two<4>(panels, row, stride, soon, scales, acc);
    load_q4_0(panels, 4, words);
#pragma GCC unroll 4
    for (auto& word : words) word = _mm512_srli_epi32(word, 16);
    scales_of(words, scales);
    row = add_second_of_two<0>(panels, row, stride, soon, scales, acc);
    row = add_second_of_two<4>(panels, row, stride, soon, scales, acc);
  }
  bool finite = true;
  for (int p = 0; p < kThinBlockPieces; ++p) {
    const hn::Vec<Tag<float> > sum{acc[p]};
    finite = finite && hn::AllTrue(Tag<float>(), hn::IsFinite(sum));
    hn::StoreU(sum, Tag<float>(), sums + p * sums_stride);
  }
  return finite;
}

}  // namespace HWY_NAMESPACE
}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
HWY_AFTER_NAMESPACE();

#endif

#endif  // include guard, per target

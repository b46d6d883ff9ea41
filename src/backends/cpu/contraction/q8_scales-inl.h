// Numbers of 16 bits out of columns' blocks, side by side: in registers, because a vector that is read soon after its
// lanes were stored one by one waits for all of them. Of blocks of 18 bytes (q8_panel-inl.h), of eight at once.

#if defined(LOCKSTEP_CONTRACTION_Q8_SCALES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCKSTEP_CONTRACTION_Q8_SCALES_INL_H_
#undef LOCKSTEP_CONTRACTION_Q8_SCALES_INL_H_
#else
#define LOCKSTEP_CONTRACTION_Q8_SCALES_INL_H_
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "backends/cpu/contraction/tile-inl.h"

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3

HWY_BEFORE_NAMESPACE();
namespace lockstep {
inline namespace v0 {
namespace contraction {
namespace HWY_NAMESPACE {

/// Those `byte` bytes from where each of eight columns is.
HWY_INLINE __m128i words_of_eight(const std::uint8_t* const* at, std::ptrdiff_t byte) {
  const auto word = [at, byte](int column) HWY_ATTR {
    std::uint16_t bits;
    std::memcpy(&bits, at[column] + byte, 2);
    return static_cast<int>(bits);
  };
  auto words = _mm_cvtsi32_si128(word(0));
  words = _mm_insert_epi16(words, word(1), 1);
  words = _mm_insert_epi16(words, word(2), 2);
  words = _mm_insert_epi16(words, word(3), 3);
  words = _mm_insert_epi16(words, word(4), 4);
  words = _mm_insert_epi16(words, word(5), 5);
  words = _mm_insert_epi16(words, word(6), 6);
  return _mm_insert_epi16(words, word(7), 7);
}

/// Those of as many columns as a vector has lanes.
HWY_INLINE void store_words(const std::uint8_t* const* at, std::ptrdiff_t byte, std::byte* to) {
#if HWY_TARGET == HWY_AVX3
  const auto low = _mm256_castsi128_si256(words_of_eight(at, byte));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_inserti128_si256(low, words_of_eight(at + 8, byte), 1));
#else
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), words_of_eight(at, byte));
#endif
}

#if HWY_TARGET == HWY_AVX3
/// The numbers of 16 bits at the beginning of each of eight blocks of 18 bytes.
HWY_INLINE __m128i first_words_of_18(const std::uint8_t* at) {
  const auto of = _mm512_castsi128_si512(_mm_set_epi16(63, 54, 45, 36, 27, 18, 9, 0));
  return _mm512_castsi512_si128(_mm512_permutex2var_epi16(_mm512_loadu_si512(at), of, _mm512_loadu_si512(at + 64)));
}

/// Those of 16 columns, `from` bytes from where each is, side by side, block after block, `next` bytes apart.
HWY_INLINE void store_first_words_of_18(const std::uint8_t* const* at, std::ptrdiff_t from, std::byte* to,
                                        std::ptrdiff_t next) {
  const auto words_of = [at, from](int column) HWY_ATTR { return first_words_of_18(at[column] + from); };
  const auto each_fourth = [words_of](int i) HWY_ATTR {
    const auto low = _mm256_inserti128_si256(_mm256_castsi128_si256(words_of(i)), words_of(i + 4), 1);
    const auto high = _mm256_inserti128_si256(_mm256_castsi128_si256(words_of(i + 8)), words_of(i + 12), 1);
    return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
  };
  const auto a = each_fourth(0), b = each_fourth(1), c = each_fourth(2), e = each_fourth(3);
  // In each 128 bits: two blocks' words of column 0 mod 4, of column 1 mod 4.
  const auto ab = _mm512_unpacklo_epi32(a, b), ce = _mm512_unpacklo_epi32(c, e);
  const auto ab_upper = _mm512_unpackhi_epi32(a, b), ce_upper = _mm512_unpackhi_epi32(c, e);
  // The first block's words of columns 0 to 15, then the second's: columns 4j to 4j + 3 are in 128 bits number j.
  const auto words = [](int half) HWY_ATTR {
    alignas(64) std::uint16_t of[32];
    for (int i = 0; i < 32; ++i) {
      const int column = i % 16;
      of[i] = static_cast<std::uint16_t>(column % 4 / 2 * 32 + column / 4 * 8 + half * 4 + column % 2 * 2 + i / 16);
    }
    return _mm512_load_si512(of);
  };
  const auto first = words(0), second = words(1);
  const auto store = [to, next](int block, __m512i both) HWY_ATTR {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + block * next), _mm512_castsi512_si256(both));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + (block + 1) * next), _mm512_extracti64x4_epi64(both, 1));
  };
  store(0, _mm512_permutex2var_epi16(ab, first, ce));
  store(2, _mm512_permutex2var_epi16(ab, second, ce));
  store(4, _mm512_permutex2var_epi16(ab_upper, first, ce_upper));
  store(6, _mm512_permutex2var_epi16(ab_upper, second, ce_upper));
}
#endif

}  // namespace HWY_NAMESPACE
}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
HWY_AFTER_NAMESPACE();

#endif

#endif  // include guard, per target

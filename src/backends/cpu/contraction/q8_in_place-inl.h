// One row times weights whose blocks are read where they lie, as a token's products are (q8.h): a vector holds 32 or 64
// codes of one column, and sums of four columns are added across lanes together. Nothing is packed, so that memory is
// what such a product waits for: every column asks for its own later bytes.

#if defined(LOCKSTEP_CONTRACTION_Q8_IN_PLACE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCKSTEP_CONTRACTION_Q8_IN_PLACE_INL_H_
#undef LOCKSTEP_CONTRACTION_Q8_IN_PLACE_INL_H_
#else
#define LOCKSTEP_CONTRACTION_Q8_IN_PLACE_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "backends/cpu/contraction/q8.h"
#include "backends/cpu/contraction/q8_dots-inl.h"
#include "backends/cpu/contraction/q8_lanes-inl.h"
#include "backends/cpu/contraction/q8_panel-inl.h"

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3

LOCKSTEP_Q8_BEFORE_NAMESPACE();
namespace lockstep {
inline namespace v0 {
namespace contraction {
namespace HWY_NAMESPACE {

/// Bytes ahead of those at hand that a column asks for, into the first cache: asked for a panel ahead, into the second
/// one, they took the place of loads on their way (17 to 20 GB/s of two threads instead of 21 to 23, Emerald Rapids).
inline constexpr int kQ8Ahead = 576;

/// Blocks of 32 that one vector has the codes of.
inline constexpr int kQ8Together = kQ8Lanes / 8;

// Vectors of bytes out of memory: of kQ8Together blocks, the later one in the upper half.

/// 32 bytes of each block.
HWY_INLINE Q8VBytes load_32(const std::uint8_t* a, [[maybe_unused]] const std::uint8_t* b) {
#if HWY_TARGET == HWY_AVX3
  const auto low = _mm512_castsi256_si512(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(a)));
  return Q8VBytes{_mm512_inserti64x4(low, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b)), 1)};
#else
  return Q8VBytes{_mm256_loadu_si256(reinterpret_cast<const __m256i*>(a))};
#endif
}
/// 16 bytes of each block, twice.
HWY_INLINE Q8VBytes load_16_twice(const std::uint8_t* a, [[maybe_unused]] const std::uint8_t* b) {
#if HWY_TARGET == HWY_AVX3
  const auto low = _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(a)));
  return Q8VBytes{_mm512_mask_broadcast_i32x4(low, 0xff00, _mm_loadu_si128(reinterpret_cast<const __m128i*>(b)))};
#else
  return Q8VBytes{_mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(a)))};
#endif
}
/// The same 32 bytes for each block.
HWY_INLINE Q8VBytes load_32_for_all(const std::uint8_t* at) {
  return load_32(at, at);
}

/// Each block's bytes as words of 32 bits shifted right, by `first` bits, and the later block's by `second`.
HWY_INLINE Q8VBytes shifted_right(Q8VBytes bytes, int first, [[maybe_unused]] int second) {
#if HWY_TARGET == HWY_AVX3
  const auto by = _mm512_mask_set1_epi32(_mm512_set1_epi32(first), 0xff00, second);
  return Q8VBytes{_mm512_srlv_epi32(bytes.raw, by)};
#else
  return Q8VBytes{_mm256_srli_epi32(bytes.raw, first)};
#endif
}
/// The lower four bits of 16 bytes of each block, then their upper four.
HWY_INLINE Q8VBytes nibbles(Q8VBytes twice) {
#if HWY_TARGET == HWY_AVX3
  const auto by = _mm512_set_epi64(0x400000004, 0x400000004, 0, 0, 0x400000004, 0x400000004, 0, 0);
  const Q8VBytes both{_mm512_srlv_epi32(twice.raw, by)};
#else
  const Q8VBytes both{_mm256_srlv_epi32(twice.raw, _mm256_set_epi64x(0x400000004, 0x400000004, 0, 0))};
#endif
  return hn::And(both, hn::Set(Q8Bytes(), 15));
}
/// `value` in the bytes of which `bytes` have one bit, the later block another one.
HWY_INLINE Q8VBytes where_bit(Q8VBytes bytes, int first, [[maybe_unused]] int second, std::uint8_t value) {
#if HWY_TARGET == HWY_AVX3
  const auto one = _mm512_set1_epi8(static_cast<char>(1 << first));
  const auto bit = _mm512_inserti64x4(one, _mm256_set1_epi8(static_cast<char>(1 << second)), 1);
  return Q8VBytes{_mm512_maskz_set1_epi8(_mm512_test_epi8_mask(bytes.raw, bit), static_cast<char>(value))};
#else
  const Q8Bytes d;
  return hn::IfThenElseZero(hn::TestBit(bytes, hn::Set(d, static_cast<std::uint8_t>(1 << first))), hn::Set(d, value));
#endif
}

constexpr bool is_read_in_place(Encoding encoding) {
  switch (encoding) {
    case Encoding::q8_0:
    case Encoding::q4_0:
    case Encoding::q4_1:
    case Encoding::q4_k:
    case Encoding::q5_k:
    case Encoding::q6_k:
    case Encoding::iq4_nl:
    case Encoding::iq4_xs:
    case Encoding::mxfp4: return true;
    default: return false;
  }
}

/// The codes, as panels have them, of 32 elements from number 32 * b of a column's block on, and of the 32 after them.
/// `next`: bytes from a block of 32 in memory to that of the latter.
template <Encoding kEncoding> HWY_INLINE Q8VBytes codes_in_place(const std::uint8_t* at, std::ptrdiff_t next, int b) {
  const Q8Bytes d;
  const auto low = hn::Set(d, 15);
  if constexpr (kEncoding == Encoding::q8_0) {
    return load_32(at + 2, at + next + 2);
  } else if constexpr (kEncoding == Encoding::q4_0) {
    return nibbles(load_16_twice(at + 2, at + next + 2));
  } else if constexpr (kEncoding == Encoding::q4_1) {
    return nibbles(load_16_twice(at + 4, at + next + 4));
  } else if constexpr (kEncoding == Encoding::iq4_nl) {
    return hn::TableLookupBytes(hn::LoadDup128(d, q8_levels().uneven), nibbles(load_16_twice(at + 2, at + next + 2)));
  } else if constexpr (kEncoding == Encoding::mxfp4) {
    return hn::TableLookupBytes(hn::LoadDup128(d, q8_levels().e2m1), nibbles(load_16_twice(at + 1, at + next + 1)));
  } else if constexpr (kEncoding == Encoding::iq4_xs) {
    const auto codes = nibbles(load_16_twice(at + 8 + 16 * b, at + 8 + 16 * (b + 1)));
    return hn::TableLookupBytes(hn::LoadDup128(d, q8_levels().uneven), codes);
  } else if constexpr (kEncoding == Encoding::q4_k) {
    return hn::And(shifted_right(load_32_for_all(at + 16 + 32 * (b / 2)), b % 2 * 4, 4), low);
  } else if constexpr (kEncoding == Encoding::q5_k) {
    const auto four = hn::And(shifted_right(load_32_for_all(at + 48 + 32 * (b / 2)), b % 2 * 4, 4), low);
    return hn::Or(four, where_bit(load_32_for_all(at + 16), b, b + 1, 16));
  } else {
    static_assert(kEncoding == Encoding::q6_k);
    const std::uint8_t* const from = at + b / 4 * 64 + b % 2 * 32;
    const auto bytes = hn::LoadU(d, from);
    const auto four = hn::And(shifted_right(bytes, b % 4 / 2 * 4, b % 4 / 2 * 4), low);
    const auto high = shifted_right(load_32_for_all(at + 128 + b / 4 * 32), b % 4 * 2, b % 4 * 2 + 2);
    return joined<4>(four, hn::And(high, hn::Set(d, 3)));
  }
}

/// Of each four lanes' 32 bits the sum.
HWY_INLINE Q8V dots_of(Q8VBytes weights, Q8V8 codes, bool is_signed) {
  const Q8D8 d8;
#if LOCKSTEP_Q8_VNNI
  const auto raised = is_signed ? hn::Xor(weights, hn::Set(Q8Bytes(), 128)) : weights;
  return add_dots(hn::Zero(Q8D()), hn::BitCast(d8, raised), codes);
#else
  const auto bytes = hn::BitCast(d8, weights);
  const auto products = is_signed ? signed_pair_products(bytes, magnitudes(bytes), codes) : pair_products(bytes, codes);
  return wide_products(products, hn::Set(Q8D16(), 1));
#endif
}

/// In each 128 bits, the sums of a's, b's, c's and e's.
HWY_INLINE Q8V sums_across(Q8V a, Q8V b, Q8V c, Q8V e) {
  const Q8D d;
  const hn::Repartition<std::int64_t, Q8D> d2;
  const auto ab = hn::BitCast(d2, hn::Add(hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b)));
  const auto ce = hn::BitCast(d2, hn::Add(hn::InterleaveLower(d, c, e), hn::InterleaveUpper(d, c, e)));
  return hn::Add(hn::BitCast(d, hn::InterleaveLower(d2, ab, ce)), hn::BitCast(d, hn::InterleaveUpper(d2, ab, ce)));
}

#if HWY_TARGET == HWY_AVX3
/// 128 bits 0 and 2, or 1 and 3, of a, then of b.
HWY_INLINE Q8V even(Q8V a, Q8V b) {
  return Q8V{_mm512_shuffle_i32x4(a.raw, b.raw, 0x88)};
}
HWY_INLINE Q8V odd(Q8V a, Q8V b) {
  return Q8V{_mm512_shuffle_i32x4(a.raw, b.raw, 0xdd)};
}
#endif

/// The sums of all lanes' columns over groups of 16 or of 32 k, in order. `four`: 128 bits for each 16 k.
template <int kGroupsOf32> HWY_INLINE void sums_of_groups(const Q8V* four, Q8V* sums) {
#if HWY_TARGET == HWY_AVX3
  const Q8V even_ab = even(four[0], four[1]), odd_ab = odd(four[0], four[1]);
  const Q8V even_ce = even(four[2], four[3]), odd_ce = odd(four[2], four[3]);
  if constexpr (kGroupsOf32 == 2) {
    sums[0] = even(even_ab, even_ce);
    sums[1] = even(odd_ab, odd_ce);
    sums[2] = odd(even_ab, even_ce);
    sums[3] = odd(odd_ab, odd_ce);
  } else {
    const Q8V ab = hn::Add(even_ab, odd_ab), ce = hn::Add(even_ce, odd_ce);
    sums[0] = even(ab, ce);
    sums[1] = odd(ab, ce);
  }
#else
  const Q8V low{_mm256_permute2x128_si256(four[0].raw, four[1].raw, 0x20)};
  const Q8V high{_mm256_permute2x128_si256(four[0].raw, four[1].raw, 0x31)};
  sums[0] = kGroupsOf32 == 2 ? low : hn::Add(low, high);
  if constexpr (kGroupsOf32 == 2) sums[1] = high;
#endif
}

/// What eight blocks of all lanes have beside codes, as panels have it.
struct Q8Scales {
  alignas(64) std::byte scales[8][4 * kQ8Lanes];  ///< and offsets
  alignas(64) std::byte factors[16 * kQ8Lanes];
  alignas(64) std::byte shares[16 * kQ8Lanes];
};

template <int kForm> HWY_INLINE void load_scales_in_place(const std::uint8_t* const* at, int blocks, Q8Scales& to) {
  constexpr Q8Form form = kQ8Forms[kForm];
#if HWY_TARGET == HWY_AVX3
  if constexpr (form.has_18_bytes()) {
    if (blocks == 8) return store_first_words_of_18(at, 0, to.scales[0], sizeof(to.scales[0]));
  }
#endif
  for (int b = 0; b < (form.large ? 1 : blocks); ++b) {
    store_scales_of_block<form>(at, b * form.bytes(), to.scales[b]);
  }
  if constexpr (form.factors) {
    // The first 16 bytes have them, or those of which they are all.
    constexpr bool kAlone = form.encoding == Encoding::q6_k;
    alignas(64) std::byte raw[16 * kQ8Lanes];
    interleave([at](int i) HWY_ATTR { return load_each_fourth(Q8Bytes(), at + i, kAlone ? 192 : 0); },
               kAlone ? to.factors : raw);
    const auto store = [](Q8VBytes word, std::byte* words, int number) HWY_ATTR {
      hn::StoreU(word, Q8Bytes(), reinterpret_cast<std::uint8_t*>(words + number * 4 * kQ8Lanes));
    };
    for (int word = 0; word < (kAlone ? 0 : form.factors_bytes() / 4); ++word) {
      store(factors_of<form.encoding>(Q8Words(raw), word), to.factors, word);
      if constexpr (form.shares) store(shares_of<form.encoding>(Q8Words(raw), word), to.shares, word);
    }
  }
}

/// One row's products with all lanes' columns.
template <int kForm> class Q8InPlace {
 public:
  explicit Q8InPlace(const Q8InPlaceArgs& args) : args_(args) {
    for (int lane = 0; lane < kQ8Lanes; ++lane) {
      at_[lane] =
          reinterpret_cast<const std::uint8_t*>(args.weights) + args.columns[lane] / kForm_.elements() * kForm_.bytes();
    }
  }

  HWY_INLINE void run() {
    const Tag<float> df;
    auto total = hn::Zero(df);
    const std::int64_t near_end = args_.blocks - kQ8Ahead * kForm_.elements() / (order::kQ8Block * kForm_.bytes());
    for (std::int64_t b = 0; b < args_.blocks; b += 8) {
      ahead_ = kQ8Ahead + (b >= near_end ? args_.next : 0);
      const int count = static_cast<int>(std::min<std::int64_t>(8, args_.blocks - b));
      if (!(kInLanes_ && Quarters_::kHasScales && count == 8)) load_scales_in_place<kForm>(at_, count, scales_);
      auto partial = hn::Zero(df);
      if constexpr (kForm_.encoding == Encoding::q6_k) {
        partial = add_eight_of_six_bits(args_.row + b, partial);
      } else if (kInLanes_ && count == 8) {
        partial = add_eight(args_.row + b, partial);
      } else {
        for (int i = 0; i < count; i += kQ8Together) {
          partial = add(args_.row + b + i, i, std::min(kQ8Together, count - i), partial);
        }
      }
      for (int lane = 0; lane < kQ8Lanes; ++lane) at_[lane] += (kForm_.large ? 1 : 8) * kForm_.bytes();
      total = b == 0 ? partial : hn::Add(total, partial);
    }
    hn::StoreU(total, df, args_.results);
  }

 private:
  using VF = hn::Vec<Tag<float> >;
  static constexpr Q8Form kForm_ = kQ8Forms[kForm];
  /// Whether codes are those of q8_lanes-inl.h.
  static constexpr bool kInLanes_ =
      kForm_.encoding == Encoding::q4_0 || kForm_.encoding == Encoding::q4_1 || kForm_.encoding == Encoding::q4_k;
  using Quarters_ = Quarters<kForm_.bytes(), kForm_.offsets() ? 4 : 2>;

  /// Eight blocks.
  HWY_INLINE VF add_eight(const Q8Activations* row, VF partial) {
    constexpr int kStep = kForm_.large ? 2 : 1;  // of large blocks, two have their codes in the same bytes
    const auto codes = [row](int first, int half) HWY_ATTR {
      const auto* const at = reinterpret_cast<const std::uint8_t*>(row[first].codes) + 16 * half;
      return hn::BitCast(Q8D8(), load_quarters(at, kStep * static_cast<std::ptrdiff_t>(sizeof(Q8Activations))));
    };
#pragma GCC unroll 2
    for (int first = 0; first < 8; first += kStep * kQ8Quarters) {
      const Q8V8 x[4] = {codes(first, 0), codes(first, 1), codes(first + kStep - 1, 0), codes(first + kStep - 1, 1)};
      Q8V four[kStep][kQ8Lanes / 4];
      [[maybe_unused]] Quarters_ quarters;
#pragma GCC unroll 4
      for (int c = 0; c < kQ8Lanes / 4; ++c) {
        Q8V dots[kStep][4];
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) {
          const std::uint8_t* const at = at_[4 * c + i];
          fetch_ahead(at, first, kStep * kQ8Quarters);
          if constexpr (kForm_.large) {
            const auto low = load_quarters(at + 16 + first * 16, 32);
            const auto high = load_quarters(at + 32 + first * 16, 32);
            dots[0][i] = dots_of_two(bits_of(low, 0, 15), bits_of(high, 0, 15), x[0], x[1]);
            dots[1][i] = dots_of_two(bits_of(low, 4, 15), bits_of(high, 4, 15), x[2], x[3]);
          } else {
            const auto bytes = quarters.codes(c, i, at + first * kForm_.bytes());
            dots[0][i] = dots_of_two(bits_of(bytes, 0, 15), bits_of(bytes, 4, 15), x[0], x[1]);
          }
        }
#pragma GCC unroll 2
        for (int s = 0; s < kStep; ++s) four[s][c] = sums_of_nibbles(dots[s][0], dots[s][1], dots[s][2], dots[s][3]);
      }
      if constexpr (!kForm_.large) quarters.store_scales(scales_.scales[first], sizeof(scales_.scales[0]));
      Q8V sums[kStep][kQ8Quarters];
#pragma GCC unroll 2
      for (int s = 0; s < kStep; ++s) sums_of_groups<2>(four[s], sums[s]);
#pragma GCC unroll 8
      for (int i = 0; i < kStep * kQ8Quarters; ++i) {
        partial = add_block(row[first + i], first + i, &sums[i % kStep][i / kStep], partial);
      }
    }
    return partial;
  }

  /// Eight blocks of q6_k: bytes have the codes of two.
  HWY_INLINE VF add_eight_of_six_bits(const Q8Activations* row, VF partial) {
    for (int half = 0; half < 2; ++half, row += 4) {
      Q8V sums[8];  // of two groups of each
      const auto sum_part = [&]<int kPart>(std::integral_constant<int, kPart>) HWY_ATTR {
        const auto codes = [row](int first) HWY_ATTR {
          const auto* const at = reinterpret_cast<const std::uint8_t*>(row[first].codes);
          return hn::BitCast(Q8D8(), load_32(at, at + sizeof(Q8Activations)));
        };
        const Q8V8 x[2] = {codes(kPart), codes(kPart + 2)};
        Q8V four[2][kQ8Lanes / 4];
#pragma GCC unroll 4
        for (int c = 0; c < kQ8Lanes / 4; ++c) {
          Q8V dots[2][4];
#pragma GCC unroll 4
          for (int i = 0; i < 4; ++i) {
            const std::uint8_t* const at = at_[4 * c + i] + 32 * half;
            fetch_ahead(at_[4 * c + i], 4 * half + kPart * 2, 2 * kQ8Together);
            const auto bytes = hn::LoadU(Q8Bytes(), at + 32 * (half + kPart));
            const auto high = load_32_for_all(at + 128);
            const auto low_codes = six_bits(bits_of(bytes, 0, 15), raised_two_bits<kPart>(high));
            const auto high_codes = six_bits(bits_of(bytes, 4, 15), lowered_two_bits<kPart>(high));
            dots[0][i] = dots_of(low_codes, x[0], false);
            dots[1][i] = dots_of(high_codes, x[1], false);
          }
          for (int s = 0; s < 2; ++s) four[s][c] = sums_of_sixteen(dots[s][0], dots[s][1], dots[s][2], dots[s][3]);
        }
        for (int s = 0; s < 2; ++s) sums_of_groups<2>(four[s], sums + 2 * kPart + 4 * s);
      };
      sum_part(std::integral_constant<int, 0>());
      if constexpr (kQ8Together == 1) sum_part(std::integral_constant<int, 1>());
      for (int i = 0; i < 4; ++i) partial = add_block(row[i], 4 * half + i, sums + 2 * i, partial);
    }
    return partial;
  }

  /// Blocks [first, first + count) of the eight; `row` begins with the first.
  HWY_INLINE VF add(const Q8Activations* row, int first, int count, VF partial) {
    static constexpr Q8Activations kNothing{};
    const auto* const codes = reinterpret_cast<const std::uint8_t*>(row->codes);
    const auto* const later =
        reinterpret_cast<const std::uint8_t*>((count == kQ8Together ? row[kQ8Together - 1] : kNothing).codes);
    const Q8V8 x = hn::BitCast(Q8D8(), load_32(codes, later));
    const std::ptrdiff_t from = kForm_.large ? 0 : first * kForm_.bytes();
    // Where there is no later block, the same again; it meets zeros.
    const std::ptrdiff_t next = count == kQ8Together ? kForm_.bytes() : 0;
    Q8V four[kQ8Lanes / 4];
#pragma GCC unroll 4
    for (int c = 0; c < kQ8Lanes / 4; ++c) {
      Q8V dots[4];
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        fetch_ahead(at_[4 * c + i], first, kQ8Together);
        dots[i] = dots_of(codes_in_place<kForm_.encoding>(at_[4 * c + i] + from, next, first), x, kForm_.is_signed());
      }
      four[c] = sums_across(dots[0], dots[1], dots[2], dots[3]);
    }
    Q8V sums[kQ8Together * kForm_.groups()];
    sums_of_groups<kForm_.groups()>(four, sums);
#pragma GCC unroll 2
    for (int i = 0; i < kQ8Together; ++i) {
      if (i < count) partial = add_block(row[i], first + i, sums + i * kForm_.groups(), partial);
    }
    return partial;
  }

  // All integers here are floats, too.
  HWY_INLINE VF add_block(const Q8Activations& row, int number, const Q8V* sums, VF partial) {
    const Tag<float> df;
    constexpr int kGroups = kForm_.groups();
    auto sum = hn::Zero(df);
#pragma GCC unroll 2
    for (int g = 0; g < kGroups; ++g) {
      auto of_group = hn::ConvertTo(df, sums[g]);
      if constexpr (raise_of(kForm_) != 0) {
        of_group = hn::MulAdd(hn::Set(df, row.sums[g]), hn::Set(df, -raise_of(kForm_)), of_group);
      }
      if constexpr (kForm_.factors)
        of_group = hn::Mul(of_group, number_of_group(scales_.factors, number * kGroups + g));
      sum = g == 0 ? of_group : hn::Add(sum, of_group);
    }
    const auto own = hn::Set(df, row.scale);
    const std::byte* const scales = scales_.scales[kForm_.large ? 0 : number];
    auto product = hn::Mul(load_scales<kForm_.power_scales()>(scales), own);
    if (HWY_UNLIKELY(args_.careful)) product = canonical_result(df, product);
    partial = hn::MulAdd(sum, product, partial);
    if constexpr (kForm_.offsets()) {
      auto shared = hn::Set(df, row.sums[0]);
      if constexpr (kForm_.shares) shared = hn::Mul(shared, number_of_group(scales_.shares, number));
      auto below = hn::Mul(load_scales<kForm_.power_scales()>(scales + 2 * kQ8Lanes), own);
      if (HWY_UNLIKELY(args_.careful)) below = canonical_result(df, below);
      partial = hn::MulAdd(shared, below, partial);
    }
    return partial;
  }

  /// A column's bytes of so many blocks of 32 that come later, as many lines as these fill.
  HWY_INLINE void fetch_ahead(const std::uint8_t* at, int first, int blocks) const {
    constexpr auto bytes_of = [](int count) { return count * order::kQ8Block * kForm_.bytes() / kForm_.elements(); };
    const std::uint8_t* const soon = at + ahead_ + bytes_of(first);
    const int bytes = bytes_of(blocks);
    for (int byte = 0; byte == 0 || byte + 48 <= bytes; byte += 64) __builtin_prefetch(soon + byte, 0, 3);
  }

  const Q8InPlaceArgs& args_;
  std::ptrdiff_t ahead_ = 0;  ///< from what is multiplied to what is asked for
  const std::uint8_t* at_[kQ8Lanes];
  Q8Scales scales_;
};

template <int kForm> HWY_NOINLINE void q8_in_place(const Q8InPlaceArgs& args) {
  Q8InPlace<kForm>(args).run();
}

}  // namespace HWY_NAMESPACE
}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
HWY_AFTER_NAMESPACE();

#endif

#endif  // include guard, per target

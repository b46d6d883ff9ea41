// How weights lie in panels in q8 numerics (q8.h), and how panels are filled from blocks as files have them: a panel is
// packed whenever it is multiplied, by instructions that take 16 bytes of every lane's blocks at once. Everything goes
// in words of four bytes, one of each lane side by side.

#if defined(LOCKSTEP_CONTRACTION_Q8_PANEL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCKSTEP_CONTRACTION_Q8_PANEL_INL_H_
#undef LOCKSTEP_CONTRACTION_Q8_PANEL_INL_H_
#else
#define LOCKSTEP_CONTRACTION_Q8_PANEL_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include <lockstep/encoding.h>

#include "backends/cpu/contraction/q8_scales-inl.h"
#include "backends/cpu/contraction/tile-inl.h"
#include "kernels/order.h"
#include "kernels/storage.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep {
inline namespace v0 {
namespace contraction {
namespace HWY_NAMESPACE {

inline constexpr int kQ8Lanes = kLanes<float>;
inline constexpr int kQ8Quads = order::kQ8Block / 4;

/// How an encoding's weights lie in panels.
struct Q8Form {
  Encoding encoding;
  int zero;  ///< what is added to codes, so that they are not negative
  int bits;  ///< of the codes then; 8: signed codes, as they are
  bool factors = false;
  bool shares = false;  ///< else 1, where there are offsets
  bool large = false;   ///< blocks of 256

  /// Codes of 4 bits lie two to a byte, as in most files: code i + 16 above code i.
  constexpr bool nibbles() const { return bits <= 4; }
  constexpr bool is_signed() const { return bits == 8; }
  constexpr int group() const { return group_size(encoding); }
  constexpr int groups() const { return order::kQ8Block / group(); }
  constexpr bool offsets() const { return has_offsets(encoding); }
  /// A scale of 16 bits and 16 bytes of codes.
  constexpr bool has_18_bytes() const { return bytes() == 18 && !offsets(); }
  constexpr bool power_scales() const { return encoding == Encoding::mxfp4; }  ///< stored as bf16, others as f16
  /// Groups of four along k whose products are added in 16 bits: two products of codes below 2^bits and 127 each.
  constexpr int quads_at_once() const { return is_signed() ? 1 : std::min(group() / 4, 128 >> bits); }

  /// Elements and bytes of a block in memory.
  constexpr int elements() const { return large ? 256 : 32; }
  constexpr int bytes() const { return static_cast<int>(encoded_bytes(encoding, DType::f32, 1)); }

  constexpr int first_half() const {
    switch (encoding) {
#define ENCODING(name, elements, bytes, first_half, ...) \
  case Encoding::name:                                   \
    return first_half;
#define FLOATS(name, ...) \
  case Encoding::name: break;
#include <lockstep/encodings.def>
#undef ENCODING
      case Encoding::dense:
      case Encoding::f16:
      case Encoding::bf16: break;
    }
    return 0;
  }

  /// Of a column, in a panel: of each block in memory, then, of each 32 elements, the codes.
  constexpr int scales_bytes() const {
    return offsets() ? 4 : 2;
  }
  constexpr int factors_bytes() const {
    return factors ? 8 * groups() : 0;
  }
  constexpr int shares_bytes() const {
    return shares ? 8 * groups() : 0;
  }
  constexpr int codes_bytes() const {
    return nibbles() ? 16 : 32;
  }
};

inline constexpr Q8Form kQ8Forms[] = {
    {.encoding = Encoding::q8_0, .zero = 0, .bits = 8},
    {.encoding = Encoding::q4_0, .zero = 8, .bits = 4},
    {.encoding = Encoding::q4_1, .zero = 0, .bits = 4},
    {.encoding = Encoding::q5_0, .zero = 16, .bits = 5},
    {.encoding = Encoding::q5_1, .zero = 0, .bits = 5},
    {.encoding = Encoding::q2_k, .zero = 0, .bits = 4, .factors = true, .shares = true, .large = true},
    {.encoding = Encoding::q3_k, .zero = 4, .bits = 4, .factors = true, .large = true},
    {.encoding = Encoding::q4_k, .zero = 0, .bits = 4, .factors = true, .shares = true, .large = true},
    {.encoding = Encoding::q5_k, .zero = 0, .bits = 5, .factors = true, .shares = true, .large = true},
    {.encoding = Encoding::q6_k, .zero = 32, .bits = 6, .factors = true, .large = true},
    {.encoding = Encoding::iq4_nl, .zero = 0, .bits = 8},
    {.encoding = Encoding::iq4_xs, .zero = 0, .bits = 8, .factors = true, .large = true},
    {.encoding = Encoding::mxfp4, .zero = 12, .bits = 5},
};
constexpr bool is_in_order() {  // of the rows of encodings.def
  std::size_t number = 0;
#define ENCODING(name, ...) \
  if (number == std::size(kQ8Forms) || kQ8Forms[number++].encoding != Encoding::name) return false;
#include <lockstep/encodings.def>
#undef ENCODING
  return number == std::size(kQ8Forms);
}
static_assert(is_in_order());

template <int kForm> std::int64_t q8_panel_bytes(std::int64_t blocks) {
  constexpr Q8Form form = kQ8Forms[kForm];
  const std::int64_t in_memory = blocks * order::kQ8Block / form.elements();
  return kQ8Lanes *
         (in_memory * (form.scales_bytes() + form.factors_bytes() + form.shares_bytes()) + blocks * form.codes_bytes());
}

#if LOCKSTEP_SCALAR_TILE

// Element by element, by the encoding's rules.
template <int kForm>
void q8_pack(const std::byte* weights, const std::int64_t* columns, std::int64_t blocks, std::byte* panel) {
  constexpr Q8Form form = kQ8Forms[kForm];
  const auto word_of = [](float scale) {
    return static_cast<std::uint16_t>(kQ8Forms[kForm].power_scales() ? BITS(scale) >> 16 : scalar::encode_f16(scale));
  };
  // Byte `i` of what a lane has from `from` on.
  const auto place = [](std::byte* from, int lane, int i) { return from + i / 4 * 4 * kQ8Lanes + 4 * lane + i % 4; };
  for (std::int64_t first = 0; first < blocks * order::kQ8Block; first += form.elements()) {
    for (int lane = 0; lane < kQ8Lanes; ++lane) {
      std::byte* to = panel;
      const std::int64_t element = columns[lane] + first;
      const BlockGroup block = load_group(form.encoding, weights, element);
      const std::uint16_t words[2] = {word_of(block.scale), word_of(block.offset)};
      std::memcpy(to + 2 * lane, &words[0], 2);
      if constexpr (form.offsets()) std::memcpy(to + 2 * (kQ8Lanes + lane), &words[1], 2);
      to += form.scales_bytes() * kQ8Lanes;
      for (int g = 0; g < (form.factors ? form.elements() / form.group() : 0); ++g) {
        const BlockGroup group = load_group(form.encoding, weights, element + g * form.group());
        *place(to, lane, g) = static_cast<std::byte>(group.factor);
        if constexpr (form.shares) *place(to, lane, form.factors_bytes() + g) = static_cast<std::byte>(group.share);
      }
      to += (form.factors_bytes() + form.shares_bytes()) * kQ8Lanes;
      for (int i = 0; i < form.elements(); ++i) {
        const int code = load_code(form.encoding, weights, element + i) + form.zero;
        std::byte* const codes = to + i / 32 * form.codes_bytes() * kQ8Lanes;
        const int k = i % 32;
        if constexpr (form.nibbles()) {
          std::byte& both = *place(codes, lane, k % 16);
          both = k < 16 ? static_cast<std::byte>(code) : both | static_cast<std::byte>(code << 4);
        } else {
          *place(codes, lane, k) = static_cast<std::byte>(code);
        }
      }
    }
    panel += q8_panel_bytes<kForm>(form.elements() / order::kQ8Block);
  }
}

#else

using Q8D = hn::CappedTag<std::int32_t, kQ8Lanes>;
using Q8V = hn::Vec<Q8D>;
using Q8D16 = hn::Repartition<std::int16_t, Q8D>;
using Q8V16 = hn::Vec<Q8D16>;
using Q8D8 = hn::Repartition<std::int8_t, Q8D>;
using Q8V8 = hn::Vec<Q8D8>;

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

// Every lane's signed byte number `g` of words.
HWY_INLINE hn::Vec<Tag<float> > number_of_group(const std::byte* words, int g) {
  const Q8D d;
  const auto four = hn::LoadU(d, reinterpret_cast<const std::int32_t*>(words + g / 4 * 4 * kQ8Lanes));
  return hn::ConvertTo(Tag<float>(), hn::ShiftRight<24>(hn::ShiftLeftSame(four, 24 - g % 4 * 8)));
}

using Q8Bytes = hn::CappedTag<std::uint8_t, 4 * kQ8Lanes>;
using Q8VBytes = hn::Vec<Q8Bytes>;

/// Asks for a line of weights that come after those at hand. Into the second cache: the first has no room for all of
/// them, and few requests of its own (AVX-512, Zen 4: 19 GB/s of a thread instead of 10, 10 without asking).
template <typename T> HWY_INLINE void fetch_later(const T* line) {
  __builtin_prefetch(line, 0, 2);
}

/// 16 bytes of lanes 0, 4, 8 ... of `lanes`, `byte` bytes from where each begins.
template <class D> HWY_INLINE hn::Vec<D> load_each_fourth(D d, const std::uint8_t* const* lanes, std::ptrdiff_t byte) {
  if constexpr (hn::MaxLanes(d) == 16) {
    return hn::LoadU(d, lanes[0] + byte);
  } else {
    const hn::Half<D> half;
    constexpr std::size_t kHalf = hn::MaxLanes(half) / 4;
    return hn::Combine(d, load_each_fourth(half, lanes + kHalf, byte), load_each_fourth(half, lanes, byte));
  }
}

/// 16 bytes of every lane, load(i) those of lanes i, i + 4 ...: four bytes of each side by side, then the next four.
template <class Load> HWY_INLINE void interleave(Load load, std::byte* to) {
  const hn::Repartition<std::uint32_t, Q8Bytes> d;
  const hn::Repartition<std::uint64_t, Q8Bytes> d2;
  const auto a = hn::BitCast(d, load(0));
  const auto b = hn::BitCast(d, load(1));
  const auto c = hn::BitCast(d, load(2));
  const auto e = hn::BitCast(d, load(3));
  const auto ab = hn::BitCast(d2, hn::InterleaveLower(d, a, b));
  const auto ce = hn::BitCast(d2, hn::InterleaveLower(d, c, e));
  const auto ab_upper = hn::BitCast(d2, hn::InterleaveUpper(d, a, b));
  const auto ce_upper = hn::BitCast(d2, hn::InterleaveUpper(d, c, e));
  auto* const words = reinterpret_cast<std::uint64_t*>(to);
  hn::StoreU(hn::InterleaveLower(d2, ab, ce), d2, words);
  hn::StoreU(hn::InterleaveUpper(d2, ab, ce), d2, words + kQ8Lanes / 2);
  hn::StoreU(hn::InterleaveLower(d2, ab_upper, ce_upper), d2, words + kQ8Lanes);
  hn::StoreU(hn::InterleaveUpper(d2, ab_upper, ce_upper), d2, words + kQ8Lanes / 2 * 3);
}

/// Of 32 elements of all lanes, or of 256: their blocks' bytes, four of each lane in a word.
class Q8Words {
 public:
  explicit Q8Words(const std::byte* words) : words_(words) {}
  Q8VBytes operator[](int word) const {
    return hn::LoadU(Q8Bytes(), reinterpret_cast<const std::uint8_t*>(words_) + word * 4 * kQ8Lanes);
  }

 private:
  const std::byte* words_;
};

/// Which 16 bytes of a block the words are made of, in this order.
struct Q8Pieces {
  int count;
  int from[13];
};
constexpr Q8Pieces pieces_of(Encoding encoding) {
  switch (encoding) {
    case Encoding::q4_0:
    case Encoding::iq4_nl: return {1, {2}};
    case Encoding::q4_1: return {1, {4}};
    case Encoding::mxfp4: return {1, {1}};
    case Encoding::q8_0: return {2, {2, 18}};
    case Encoding::q5_0: return {2, {2, 6}};
    case Encoding::q5_1: return {2, {4, 8}};
    case Encoding::q2_k: return {5, {0, 16, 32, 48, 64}};
    case Encoding::q3_k: return {7, {0, 16, 32, 48, 64, 80, 94}};
    case Encoding::q4_k: return {9, {0, 16, 32, 48, 64, 80, 96, 112, 128}};
    case Encoding::q5_k: return {11, {0, 16, 32, 48, 64, 80, 96, 112, 128, 144, 160}};
    case Encoding::q6_k: return {13, {0, 16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192}};
    case Encoding::iq4_xs: return {9, {0, 8, 24, 40, 56, 72, 88, 104, 120}};
#define ENCODING(...)
#define FLOATS(name, ...) case Encoding::name:
#include <lockstep/encodings.def>
#undef ENCODING
    case Encoding::dense:
    case Encoding::f16:
    case Encoding::bf16: break;
  }
  return {};
}

/// Bits `shift` and up of each byte, those that `mask` has. Shifted as words: what comes from the neighbour is masked
/// off.
HWY_INLINE Q8VBytes bits_of(Q8VBytes bytes, int shift, std::uint8_t mask) {
  const hn::Repartition<std::uint16_t, Q8Bytes> d;
  const auto shifted = shift == 0 ? hn::BitCast(d, bytes) : hn::ShiftRightSame(hn::BitCast(d, bytes), shift);
  return hn::And(hn::BitCast(Q8Bytes(), shifted), hn::Set(Q8Bytes(), mask));
}
/// With `high` as the bits from kShift on; no bit leaves its byte.
template <int kShift> HWY_INLINE Q8VBytes joined(Q8VBytes low, Q8VBytes high) {
  const hn::Repartition<std::uint16_t, Q8Bytes> d;
  return hn::Or(low, hn::BitCast(Q8Bytes(), hn::ShiftLeft<kShift>(hn::BitCast(d, high))));
}
HWY_INLINE Q8VBytes minus(Q8VBytes bytes, std::uint8_t less) {
  return hn::Sub(bytes, hn::Set(Q8Bytes(), less));
}
HWY_INLINE Q8VBytes negative(Q8VBytes bytes) {
  return hn::Sub(hn::Zero(Q8Bytes()), bytes);
}

/// Bits 4 * word to 4 * word + 3 of every lane's 32, as bit 4 of its four bytes.
HWY_INLINE Q8VBytes fifth_bits(Q8VBytes bits, int word) {
  alignas(16) static constexpr std::uint8_t kByte[16] = {0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12};
  alignas(16) static constexpr std::uint8_t kBit[16] = {1, 2, 4, 8, 1, 2, 4, 8, 1, 2, 4, 8, 1, 2, 4, 8};
  const Q8Bytes d;
  const auto of = hn::Add(hn::LoadDup128(d, kByte), hn::Set(d, static_cast<std::uint8_t>(word / 2)));
  const auto four = bits_of(hn::TableLookupBytes(bits, of), word % 2 * 4, 15);
  return hn::IfThenElseZero(hn::TestBit(four, hn::LoadDup128(d, kBit)), hn::Set(d, 16));
}

/// What 4-bit codes stand for, raised as codes are.
struct Q8Levels {
  alignas(16) std::uint8_t uneven[16];
  alignas(16) std::uint8_t e2m1[16];
};
inline const Q8Levels& q8_levels() {
  static const Q8Levels kLevels = [] {
    Q8Levels levels{};
    for (int i = 0; i < 16; ++i) {
      const int size = scalar::e2m1_level(static_cast<std::uint32_t>(i & 7));
      levels.uneven[i] = static_cast<std::uint8_t>(scalar::uneven_level(i));
      levels.e2m1[i] = static_cast<std::uint8_t>(12 + (i < 8 ? size : -size));
    }
    return levels;
  }();
  return kLevels;
}

/// Word `word` of the codes, as panels have them, of the 32 elements number b. A constant b makes shifts constant.
template <Encoding kEncoding, int b> HWY_INLINE Q8VBytes codes_of(Q8Words at, int word) {
  const Q8Bytes d;
  if constexpr (kEncoding == Encoding::q5_0 || kEncoding == Encoding::q5_1) {
    return hn::Or(bits_of(at[4 + word % 4], word / 4 * 4, 15), fifth_bits(at[0], word));
  } else if constexpr (kEncoding == Encoding::iq4_nl) {
    return hn::TableLookupBytes(hn::LoadDup128(d, q8_levels().uneven), bits_of(at[word % 4], word / 4 * 4, 15));
  } else if constexpr (kEncoding == Encoding::mxfp4) {
    return hn::TableLookupBytes(hn::LoadDup128(d, q8_levels().e2m1), bits_of(at[word % 4], word / 4 * 4, 15));
  } else if constexpr (kEncoding == Encoding::iq4_xs) {
    const auto codes = bits_of(at[4 + 4 * b + word % 4], word / 4 * 4, 15);
    return hn::TableLookupBytes(hn::LoadDup128(d, q8_levels().uneven), codes);
  } else if constexpr (kEncoding == Encoding::q4_k) {
    const int first = 4 + b / 2 * 8 + word;
    return joined<4>(bits_of(at[first], b % 2 * 4, 15), bits_of(at[first + 4], b % 2 * 4, 15));
  } else if constexpr (kEncoding == Encoding::q5_k) {
    return joined<4>(bits_of(at[12 + b / 2 * 8 + word], b % 2 * 4, 15), bits_of(at[4 + word], b, 1));
  } else if constexpr (kEncoding == Encoding::q6_k) {
    const auto low = bits_of(at[b / 4 * 16 + b % 2 * 8 + word], b % 4 / 2 * 4, 15);
    return joined<4>(low, bits_of(at[32 + b / 4 * 8 + word], b % 4 * 2, 3));
  } else if constexpr (kEncoding == Encoding::q2_k) {
    const int first = 4 + b / 4 * 8 + word;
    return joined<4>(bits_of(at[first], b % 4 * 2, 3), bits_of(at[first + 4], b % 4 * 2, 3));
  } else {
    static_assert(kEncoding == Encoding::q3_k);
    const auto three = [&](int part) {
      return joined<2>(bits_of(at[8 + b / 4 * 8 + part], b % 4 * 2, 3), bits_of(at[part], b, 1));
    };
    return joined<4>(three(word), three(word + 4));
  }
}

/// Word `word` of the factors of a block of 256, and of its shares.
template <Encoding kEncoding> HWY_INLINE Q8VBytes factors_of(Q8Words at, int word) {
  if constexpr (kEncoding == Encoding::q4_k || kEncoding == Encoding::q5_k) {  // six bits: two of the last four aside
    return word == 0 ? bits_of(at[1], 0, 63) : hn::Or(bits_of(at[3], 0, 15), bits_of(at[1], 2, 0x30));
  } else if constexpr (kEncoding == Encoding::q6_k) {
    return at[48 + word];
  } else if constexpr (kEncoding == Encoding::q2_k) {
    return bits_of(at[word], 0, 15);
  } else if constexpr (kEncoding == Encoding::q3_k) {
    return minus(joined<4>(bits_of(at[24 + word % 2], word / 2 * 4, 15), bits_of(at[26], word * 2, 3)), 32);
  } else {
    static_assert(kEncoding == Encoding::iq4_xs);
    // Of each lane: two bits of all eight behind the scale, then four bits of each.
    const hn::Repartition<std::uint32_t, Q8Bytes> d;
    auto four = hn::Zero(d);
    for (int i = 0; i < 4; ++i) {
      const int number = 4 * word + i;
      const auto low = hn::And(hn::ShiftRightSame(hn::BitCast(d, at[1]), 4 * number), hn::Set(d, 15));
      const auto high = hn::And(hn::ShiftRightSame(hn::BitCast(d, at[0]), 16 + 2 * number), hn::Set(d, 3));
      four = hn::Or(four, hn::ShiftLeftSame(hn::Or(low, hn::ShiftLeft<4>(high)), 8 * i));
    }
    return minus(hn::BitCast(Q8Bytes(), four), 32);
  }
}
template <Encoding kEncoding> HWY_INLINE Q8VBytes shares_of(Q8Words at, int word) {
  if constexpr (kEncoding == Encoding::q2_k) {
    return negative(bits_of(at[word], 4, 15));
  } else {
    static_assert(kEncoding == Encoding::q4_k || kEncoding == Encoding::q5_k);
    return negative(word == 0 ? bits_of(at[2], 0, 63) : hn::Or(bits_of(at[3], 4, 15), bits_of(at[2], 2, 0x30)));
  }
}

/// The numbers of 16 bits of a lane's block, as panels have them.
template <Q8Form form> HWY_INLINE void store_scales(const std::uint8_t* block, int lane, std::byte* to) {
  const std::uint8_t* const scales = block + form.first_half();
  if constexpr (form.power_scales()) {
    const int power = *scales;  // of two, and 128
    const auto word = static_cast<std::uint16_t>(power < 3 ? 0 : (power - 1) << 7);
    std::memcpy(to + 2 * lane, &word, 2);
  } else {
    std::memcpy(to + 2 * lane, scales, 2);
  }
  if constexpr (form.offsets()) std::memcpy(to + 2 * (kQ8Lanes + lane), scales + 2, 2);
}

/// Those of all lanes' blocks, `next` bytes from where they are.
template <Q8Form form>
HWY_INLINE void store_scales_of_block(const std::uint8_t* const* at, std::ptrdiff_t next, std::byte* to) {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  if constexpr (!form.power_scales()) {
    store_words(at, next + form.first_half(), to);
    if constexpr (form.offsets()) store_words(at, next + form.first_half() + 2, to + 2 * kQ8Lanes);
    return;
  }
#endif
  for (int lane = 0; lane < kQ8Lanes; ++lane) store_scales<form>(at[lane] + next, lane, to);
}

/// Those of all lanes' blocks `next` bytes from where they are, of a panel's next blocks; of how many, at most `count`.
template <Q8Form form>
HWY_INLINE int store_scales_of_blocks(const std::uint8_t* const* at, std::ptrdiff_t next,
                                      [[maybe_unused]] std::int64_t count, std::byte* to) {
#if HWY_TARGET == HWY_AVX3
  if constexpr (form.has_18_bytes()) {
    constexpr std::ptrdiff_t kNext = kQ8Lanes * (form.scales_bytes() + form.codes_bytes());
    if (count >= 8) {
      store_first_words_of_18(at, next, to, kNext);
      return 8;
    }
  }
#endif
  store_scales_of_block<form>(at, next, to);
  return 1;
}

template <int kForm>
void q8_pack(const std::byte* weights, const std::int64_t* columns, std::int64_t blocks, std::byte* panel) {
  constexpr Q8Form form = kQ8Forms[kForm];
  constexpr Q8Pieces kPieces = pieces_of(form.encoding);
  // Whether words are what panels have.
  constexpr bool kPlain =
      form.encoding == Encoding::q4_0 || form.encoding == Encoding::q4_1 || form.encoding == Encoding::q8_0;
  const std::uint8_t* at[kQ8Lanes];
  for (int lane = 0; lane < kQ8Lanes; ++lane) {
    at[lane] = reinterpret_cast<const std::uint8_t*>(weights) + columns[lane] / form.elements() * form.bytes();
  }
  // The next panel's blocks, if columns lie one after the other.
  constexpr int kSoon = form.bytes() * kQ8Lanes;
  const std::uint8_t* soon = at[0] + (at[1] - at[0]) * kQ8Lanes;
  std::byte* to = panel;
  const auto store = [&to](Q8VBytes word) {
    hn::StoreU(word, Q8Bytes(), reinterpret_cast<std::uint8_t*>(to));
    to += 4 * kQ8Lanes;
  };
  std::int64_t together = 0;  // blocks whose scales are stored
  std::ptrdiff_t from = 0;    // bytes before the block at hand: pointers that all move are stored and read again
  const std::int64_t count = blocks * order::kQ8Block / form.elements();
  for (std::int64_t block = 0; block < count; ++block, from += form.bytes(), soon += kSoon) {
    for (int byte = 0; byte < kSoon; byte += 64) fetch_later(soon + byte);
    if (block >= together) together = block + store_scales_of_blocks<form>(at, from, count - block, to);
    to += form.scales_bytes() * kQ8Lanes;
    alignas(64) std::byte raw[kPlain ? 1 : kPieces.count * 16 * kQ8Lanes];
    std::byte* const words = kPlain ? to : raw;
#pragma GCC unroll 13
    for (int piece = 0; piece < kPieces.count; ++piece) {
      interleave(
          [&](int i) {
            const auto bytes = load_each_fourth(Q8Bytes(), at + i, from + kPieces.from[piece]);
            // A block ends before 16 bytes from the first factor on do.
            const bool is_last = form.encoding == Encoding::q3_k && piece == kPieces.count - 1;
            return is_last ? hn::ShiftRightBytes<2>(Q8Bytes(), bytes) : bytes;
          },
          words + piece * 16 * kQ8Lanes);
    }
    if constexpr (kPlain) {
      to += form.codes_bytes() * kQ8Lanes;
    } else {
      const Q8Words read(raw);
      if constexpr (form.factors) {
        for (int word = 0; word < form.factors_bytes() / 4; ++word) store(factors_of<form.encoding>(read, word));
      }
      if constexpr (form.shares) {
        for (int word = 0; word < form.shares_bytes() / 4; ++word) store(shares_of<form.encoding>(read, word));
      }
      const auto store_codes = [&]<int... kB>(std::integer_sequence<int, kB...>) HWY_ATTR {
        const auto store_32 = [&]<int b>(std::integral_constant<int, b>) HWY_ATTR {
          constexpr int kWords = kQ8Forms[kForm].codes_bytes() / 4;
#pragma GCC unroll 8
          for (int word = 0; word < kWords; ++word) store(codes_of<form.encoding, b>(read, word));
        };
        (store_32(std::integral_constant<int, kB>()), ...);
      };
      store_codes(std::make_integer_sequence<int, form.elements() / order::kQ8Block>());
    }
  }
}

#endif  // LOCKSTEP_SCALAR_TILE

}  // namespace HWY_NAMESPACE
}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
HWY_AFTER_NAMESPACE();

#endif  // include guard, per target

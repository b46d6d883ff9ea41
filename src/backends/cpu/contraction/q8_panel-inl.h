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

#include <lockstep/encoding.h>

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
  constexpr bool power_scales() const { return encoding == Encoding::mxfp4; }  ///< stored as bf16, others as f16
  /// Groups of four along k whose products are added in 16 bits: two products of codes below 2^bits and 127 each.
  constexpr int quads_at_once() const { return is_signed() ? 1 : std::min(group() / 4, 128 >> bits); }

  /// Elements and bytes of a block in memory.
  constexpr int elements() const { return large ? 256 : 32; }
  constexpr int bytes() const { return static_cast<int>(encoded_bytes(encoding, DType::f32, 1)); }

  /// Of a column, in a panel: of each block in memory, then, of each 32 elements, the codes.
  constexpr int scales_bytes() const { return offsets() ? 4 : 2; }
  constexpr int factors_bytes() const { return factors ? 8 * groups() : 0; }
  constexpr int shares_bytes() const { return shares ? 8 * groups() : 0; }
  constexpr int codes_bytes() const { return nibbles() ? 16 : 32; }
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
const std::byte* q8_pack(const std::byte* weights, const std::int64_t* columns, std::int64_t blocks, std::byte* panel) {
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
  return weights;
}

#else

using Q8Bytes = hn::CappedTag<std::uint8_t, 4 * kQ8Lanes>;
using Q8VBytes = hn::Vec<Q8Bytes>;

/// 16 bytes of lanes 0, 4, 8 ... of `lanes`, `byte` bytes from where each begins.
template <class D> HWY_INLINE hn::Vec<D> load_each_fourth(D d, const std::uint8_t* const* lanes, int byte) {
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

/// Bits `shift` and up of each byte, those that `mask` has. Shifted as words: what comes from the neighbour is masked
/// off.
HWY_INLINE Q8VBytes bits_of(Q8VBytes bytes, int shift, std::uint8_t mask) {
  const hn::Repartition<std::uint16_t, Q8Bytes> d;
  const auto shifted = shift == 0 ? hn::BitCast(d, bytes) : hn::ShiftRightSame(hn::BitCast(d, bytes), shift);
  return hn::And(hn::BitCast(Q8Bytes(), shifted), hn::Set(Q8Bytes(), mask));
}
/// `high` as the bits from `shift` on; no bit leaves its byte.
HWY_INLINE Q8VBytes joined(Q8VBytes low, Q8VBytes high, int shift) {
  const hn::Repartition<std::uint16_t, Q8Bytes> d;
  return hn::Or(low, hn::BitCast(Q8Bytes(), hn::ShiftLeftSame(hn::BitCast(d, high), shift)));
}
/// Bits of 16 lie in each two bytes from `byte` on: as bit 4 of bytes.
HWY_INLINE Q8VBytes fifth_bits(Q8VBytes bytes, int byte) {
  alignas(16) static constexpr std::uint8_t kByte[16] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1};
  alignas(16) static constexpr std::uint8_t kBit[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
  const Q8Bytes d;
  const auto of = hn::Add(hn::LoadDup128(d, kByte), hn::Set(d, static_cast<std::uint8_t>(byte)));
  return hn::IfThenElseZero(hn::TestBit(hn::TableLookupBytes(bytes, of), hn::LoadDup128(d, kBit)), hn::Set(d, 16));
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

/// Codes as panels have them, of the 32 elements number `b` of a block: all 16 bytes of nibbles, or codes 16 * part and
/// on. load(byte): 16 bytes of blocks.
template <Encoding kEncoding, class Load> HWY_INLINE Q8VBytes codes_of(Load load, int b, int part) {
  const Q8Bytes d;
  if constexpr (kEncoding == Encoding::q4_0) {
    return load(2);
  } else if constexpr (kEncoding == Encoding::q4_1) {
    return load(4);
  } else if constexpr (kEncoding == Encoding::q8_0) {
    return load(2 + 16 * part);
  } else if constexpr (kEncoding == Encoding::q5_0 || kEncoding == Encoding::q5_1) {
    constexpr int kFifth = kEncoding == Encoding::q5_0 ? 2 : 4;
    return hn::Or(bits_of(load(kFifth + 4), 4 * part, 15), fifth_bits(load(kFifth), 2 * part));
  } else if constexpr (kEncoding == Encoding::iq4_nl) {
    return hn::TableLookupBytes(hn::LoadDup128(d, q8_levels().uneven), bits_of(load(2), 4 * part, 15));
  } else if constexpr (kEncoding == Encoding::mxfp4) {
    return hn::TableLookupBytes(hn::LoadDup128(d, q8_levels().e2m1), bits_of(load(1), 4 * part, 15));
  } else if constexpr (kEncoding == Encoding::q4_k) {
    const Q8VBytes first = load(16 + b / 2 * 32);
    const Q8VBytes second = load(32 + b / 2 * 32);
    return joined(bits_of(first, b % 2 * 4, 15), bits_of(second, b % 2 * 4, 15), 4);
  } else if constexpr (kEncoding == Encoding::q5_k) {
    const Q8VBytes low = bits_of(load(48 + b / 2 * 32 + 16 * part), b % 2 * 4, 15);
    return joined(low, bits_of(load(16 + 16 * part), b, 1), 4);
  } else if constexpr (kEncoding == Encoding::q6_k) {
    const Q8VBytes low = bits_of(load(b / 4 * 64 + b % 2 * 32 + 16 * part), b % 4 / 2 * 4, 15);
    return joined(low, bits_of(load(128 + b / 4 * 32 + 16 * part), b % 4 * 2, 3), 4);
  } else if constexpr (kEncoding == Encoding::q2_k) {
    const int byte = 16 + b / 4 * 32;
    return joined(bits_of(load(byte), b % 4 * 2, 3), bits_of(load(byte + 16), b % 4 * 2, 3), 4);
  } else if constexpr (kEncoding == Encoding::q3_k) {
    const auto three = [&](int from) {
      return joined(bits_of(load(32 + b / 4 * 32 + from), b % 4 * 2, 3), bits_of(load(from), b, 1), 2);
    };
    return joined(three(0), three(16), 4);
  } else {
    static_assert(kEncoding == Encoding::iq4_xs);
    return hn::TableLookupBytes(hn::LoadDup128(d, q8_levels().uneven), bits_of(load(8 + 16 * b), 4 * part, 15));
  }
}

/// Factors, then shares, of a block of 256; returns the block's scale and offset.
template <Encoding kEncoding> HWY_INLINE const std::uint8_t* factors_of(const std::uint8_t* at, std::uint8_t* to) {
  const auto each = [](std::uint64_t byte) { return byte * 0x0101010101010101u; };
  const auto load = [&](int byte) {
    std::uint64_t eight;
    std::memcpy(&eight, at + byte, sizeof eight);
    return eight;
  };
  const auto store = [&](int byte, std::uint64_t eight) { std::memcpy(to + byte, &eight, sizeof eight); };
  // Bytes below 128, from which as much is taken as `less` says.
  const auto minus = [&](std::uint64_t bytes, std::uint64_t less) { return ((bytes | each(128)) - less) ^ each(128); };
  if constexpr (kEncoding == Encoding::q6_k) {
    store(0, load(192));
    store(8, load(200));
    return at + 208;
  } else if constexpr (kEncoding == Encoding::q4_k || kEncoding == Encoding::q5_k) {
    const std::uint64_t first = load(4);        // factors 0 to 3, minima 0 to 3: six bits, and two of the next four
    const std::uint64_t third = load(8) >> 32;  // four bits of factors 4 to 7, and of minima
    const std::uint64_t six = first & each(63);
    const std::uint64_t two = first >> 2 & each(0x30);
    const std::uint64_t factors = (third & 0x0f0f0f0f) | (two & 0xffffffff);
    const std::uint64_t minima = (third >> 4 & 0x0f0f0f0f) | two >> 32;
    store(0, (six & 0xffffffff) | factors << 32);
    store(8, minus(0, six >> 32 | minima << 32));
    return at;
  } else if constexpr (kEncoding == Encoding::q2_k) {
    for (int i = 0; i < 16; i += 8) {
      store(i, load(i) & each(15));
      store(16 + i, minus(0, load(i) >> 4 & each(15)));
    }
    return at + 80;
  } else if constexpr (kEncoding == Encoding::q3_k) {
    const std::uint64_t low = load(96);
    const std::uint64_t high = load(102) >> 16;  // two bits of factors 0 to 3, 4 to 7 ...
    for (int i = 0; i < 2; ++i) {
      const std::uint64_t two = (high >> 4 * i & 0x03030303) | (high >> (4 * i + 2) & 0x03030303) << 32;
      store(8 * i, minus((low >> 4 * i & each(15)) | two << 4, each(32)));
    }
    return at + 108;
  } else {
    static_assert(kEncoding == Encoding::iq4_xs);
    const std::uint64_t words = load(0);  // two bits of each factor from bit 16 on, four from bit 32 on
    for (int i = 0; i < 8; ++i) {
      const auto factor = (words >> (32 + 4 * i) & 15) | (words >> (16 + 2 * i) & 3) << 4;
      to[i] = static_cast<std::uint8_t>(factor - 32);
    }
    store(8, 0);
    return at;
  }
}

template <int kForm>
const std::byte* q8_pack(const std::byte* weights, const std::int64_t* columns, std::int64_t blocks, std::byte* panel) {
  constexpr Q8Form form = kQ8Forms[kForm];
  const std::uint8_t* at[kQ8Lanes];
  for (int lane = 0; lane < kQ8Lanes; ++lane) {
    at[lane] = reinterpret_cast<const std::uint8_t*>(weights) + columns[lane] / form.elements() * form.bytes();
  }
  // The next panel's blocks, if columns lie one after the other: half of them is asked for here, half while this panel
  // is multiplied, so that memory always has something to do.
  constexpr int kSoon = form.bytes() * kQ8Lanes / 2;
  const std::uint8_t* soon = at[0] + (at[1] - at[0]) * kQ8Lanes;
  std::byte* to = panel;
  for (std::int64_t block = 0; block < blocks * order::kQ8Block / form.elements(); ++block, soon += kSoon) {
    for (int byte = 0; byte < kSoon; byte += 64) hwy::Prefetch(soon + byte);
    alignas(16) std::uint8_t factors[kQ8Lanes][32];
    for (int lane = 0; lane < kQ8Lanes; ++lane) {
      const std::uint8_t* scales = at[lane];
      if constexpr (form.factors) scales = factors_of<form.encoding>(scales, factors[lane]);
      if constexpr (form.power_scales()) {
        const int power = *scales;  // of two, and 128
        const auto word = static_cast<std::uint16_t>(power < 3 ? 0 : (power - 1) << 7);
        std::memcpy(to + 2 * lane, &word, 2);
      } else {
        std::memcpy(to + 2 * lane, scales, 2);
      }
      if constexpr (form.offsets()) std::memcpy(to + 2 * (kQ8Lanes + lane), scales + 2, 2);
    }
    to += form.scales_bytes() * kQ8Lanes;
    const std::uint8_t* lines[kQ8Lanes];
    for (int lane = 0; lane < kQ8Lanes; ++lane) lines[lane] = factors[lane];
    for (int byte = 0; byte < form.factors_bytes() + form.shares_bytes(); byte += 16) {
      std::byte sixteen[16 * kQ8Lanes];
      interleave([&](int i) { return load_each_fourth(Q8Bytes(), lines + i, byte); }, sixteen);
      const int some = std::min(16, form.factors_bytes() + form.shares_bytes() - byte) * kQ8Lanes;
      std::memcpy(to, sixteen, static_cast<std::size_t>(some));
      to += some;
    }
#pragma GCC unroll 8
    for (int b = 0; b < form.elements() / order::kQ8Block; ++b) {
#pragma GCC unroll 2
      for (int part = 0; part < form.codes_bytes() / 16; ++part, to += 16 * kQ8Lanes) {
        interleave(
            [&](int i) {
              return codes_of<form.encoding>([&](int byte) { return load_each_fourth(Q8Bytes(), at + i, byte); }, b,
                                             part);
            },
            to);
      }
    }
    for (int lane = 0; lane < kQ8Lanes; ++lane) at[lane] += form.bytes();
  }
  return reinterpret_cast<const std::byte*>(soon);
}

#endif  // LOCKSTEP_SCALAR_TILE

}  // namespace HWY_NAMESPACE
}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
HWY_AFTER_NAMESPACE();

#endif  // include guard, per target

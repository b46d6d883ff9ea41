// Lines of packed elements (encodings.def) as floats, per instruction set. The encodings that most models have are
// taken apart a few hundred elements at a time, into codes and what they stand for; of the others, and of blocks whose
// scale is no finite number, each element is decoded by its rule. Either way the values are those of
// kernels/encodings.h.

#if defined(LOCKSTEP_CONTRACTION_BLOCKS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCKSTEP_CONTRACTION_BLOCKS_INL_H_
#undef LOCKSTEP_CONTRACTION_BLOCKS_INL_H_
#else
#define LOCKSTEP_CONTRACTION_BLOCKS_INL_H_
#endif

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include <lockstep/encoding.h>

#include "backends/cpu/contraction/tile-inl.h"
#include "kernels/storage.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep {
inline namespace v0 {
namespace contraction {
namespace HWY_NAMESPACE {

/// As many elements as are taken apart at once.
inline constexpr int kChunk = 256;

/// They are scale * code, or that + offset; scales and offsets are those of a group of neighbours.
struct Codes {
  alignas(64) std::int8_t codes[kChunk];
  float scales[16];
  float offsets[16];
};

/// How an encoding's chunks are taken apart, or written at once (blocks of floats).
struct Form {
  int group;     ///< elements that share a scale
  bool shifted;  ///< whether there are offsets
  /// `blocks` blocks, at most kChunk elements. False where a scale or an offset is no finite number.
  bool (*take_apart)(const std::uint8_t* at, int blocks, Codes& to);
  bool (*write)(const std::uint8_t* at, int blocks, float* to) = nullptr;  ///< alike
};

// f16 numbers as floats; false if one of them is none.
inline bool halves_of(const std::uint16_t* bits, int count, float* to) {
#if LOCKSTEP_SCALAR_TILE
  bool finite = true;
  for (int i = 0; i < count; ++i) {
    to[i] = scalar::decode_f16(bits[i]);
    finite = finite && (bits[i] & 0x7c00u) != 0x7c00u;
  }
  return finite;
#else
  const hn::FixedTag<float, 4> d;
  const hn::Rebind<hwy::float16_t, decltype(d)> dh;
  const hn::Rebind<std::uint16_t, decltype(d)> du;
  auto top = hn::Zero(du);  // the largest exponents
  for (int i = 0; i < count; i += 4) {
    const auto half = hn::LoadU(du, bits + i);
    top = hn::Max(top, hn::And(half, hn::Set(du, 0x7c00)));
    hn::StoreU(hn::PromoteTo(d, hn::BitCast(dh, half)), d, to + i);
  }
  return hn::AllTrue(du, hn::Lt(top, hn::Set(du, 0x7c00)));
#endif
}

/// Room for the f16 numbers of a chunk, whole vectors of them.
struct Halves {
  std::uint16_t bits[8] = {};
  void take(const std::uint8_t* at, int number) { std::memcpy(bits + number, at, sizeof bits[0]); }
};

// 16 bytes as 4-bit codes less kZero: the low ones to `first`, the high ones to `second`. Where there are fifth bits,
// those of the low ones are the lower half of `fifth`.
template <bool kFifth, int kZero>
HWY_INLINE void split_nibbles(const std::uint8_t* at, std::uint32_t fifth, std::int8_t* first, std::int8_t* second) {
#if LOCKSTEP_SCALAR_TILE
  for (int i = 0; i < 16; ++i) {
    int low = at[i] & 15;
    int high = at[i] >> 4;
    if constexpr (kFifth) {
      low |= static_cast<int>(fifth >> i & 1u) << 4;
      high |= static_cast<int>(fifth >> (i + 16) & 1u) << 4;
    }
    first[i] = static_cast<std::int8_t>(low - kZero);
    second[i] = static_cast<std::int8_t>(high - kZero);
  }
#else
  const hn::FixedTag<std::uint8_t, 16> d;
  const hn::RebindToSigned<decltype(d)> ds;
  const auto both = hn::LoadU(d, at);
  auto low = hn::And(both, hn::Set(d, 15));
  auto high = hn::ShiftRight<4>(both);
  if constexpr (kFifth) {
    alignas(16) static constexpr std::uint8_t kByte[16] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1};
    alignas(16) static constexpr std::uint8_t kBit[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    const auto bytes = hn::BitCast(d, hn::Set(hn::FixedTag<std::uint32_t, 4>(), fifth));
    const auto of_low = hn::Load(d, kByte);
    const auto bit = hn::Load(d, kBit);
    const auto sixteen = hn::Set(d, 16);
    const auto is_set = [&](auto of) { return hn::TestBit(hn::TableLookupBytes(bytes, of), bit); };
    low = hn::Or(low, hn::IfThenElseZero(is_set(of_low), sixteen));
    high = hn::Or(high, hn::IfThenElseZero(is_set(hn::Add(of_low, hn::Set(d, 2))), sixteen));
  }
  const auto zero = hn::Set(ds, kZero);
  hn::StoreU(hn::Sub(hn::BitCast(ds, low), zero), ds, first);
  hn::StoreU(hn::Sub(hn::BitCast(ds, high), zero), ds, second);
#endif
}

// Bits `shift` and up of 16 bytes, those that `mask` has, added to codes as their bits 4 and up; then all less `zero`.
inline void add_high_bits(const std::uint8_t* at, int shift, int mask, int zero, std::int8_t* codes) {
#if LOCKSTEP_SCALAR_TILE
  for (int i = 0; i < 16; ++i) codes[i] = static_cast<std::int8_t>((codes[i] | (at[i] >> shift & mask) << 4) - zero);
#else
  const hn::FixedTag<std::uint8_t, 16> d;
  const hn::RebindToSigned<decltype(d)> ds;
  const hn::Repartition<std::uint16_t, decltype(d)> dw;
  // Shifted as words: what comes from the neighbour is masked off.
  const auto bits = hn::BitCast(d, hn::ShiftRightSame(hn::BitCast(dw, hn::LoadU(d, at)), shift));
  const auto high = hn::ShiftLeft<4>(hn::And(bits, hn::Set(d, static_cast<std::uint8_t>(mask))));
  const auto code = hn::Or(hn::LoadU(ds, codes), hn::BitCast(ds, high));
  hn::StoreU(hn::Sub(code, hn::Set(ds, static_cast<std::int8_t>(zero))), ds, codes);
#endif
}

// Blocks of 32: `halves` f16 numbers, 4 bytes of fifth bits if there are any, nibbles.
template <int kHalves, bool kFifth, int kZero> bool nibbles(const std::uint8_t* at, int blocks, Codes& to) {
  Halves scales;
  Halves offsets;
  for (int b = 0; b < blocks; ++b) {
    scales.take(at, b);
    if constexpr (kHalves == 2) offsets.take(at + 2, b);
    at += 2 * kHalves;
    std::uint32_t fifth = 0;
    if constexpr (kFifth) {
      std::memcpy(&fifth, at, sizeof fifth);
      at += 4;
    }
    split_nibbles<kFifth, kZero>(at, fifth, to.codes + 32 * b, to.codes + 32 * b + 16);
    at += 16;
  }
  const bool finite = halves_of(scales.bits, blocks, to.scales);
  return (kHalves == 1 || halves_of(offsets.bits, blocks, to.offsets)) && finite;
}

inline bool signed_bytes(const std::uint8_t* at, int blocks, Codes& to) {
  Halves scales;
  for (int b = 0; b < blocks; ++b, at += 34) {
    scales.take(at, b);
    std::memcpy(to.codes + 32 * b, at + 2, 32);
  }
  return halves_of(scales.bits, blocks, to.scales);
}

// Q4_K and Q5_K: eight groups of 32.
template <bool kFifth> bool k_nibbles(const std::uint8_t* at, int, Codes& to) {
  Halves halves;
  halves.take(at, 0);
  halves.take(at + 2, 1);
  float both[4];
  const bool finite = halves_of(halves.bits, 2, both);
  const float scale = both[0];
  const float minimum = -both[1];
  const std::uint8_t* const six = at + 4;
  for (int g = 0; g < 4; ++g) {
    to.scales[g] = scale * static_cast<float>(six[g] & 63);
    to.offsets[g] = minimum * static_cast<float>(six[g + 4] & 63);
    to.scales[g + 4] = scale * static_cast<float>((six[g + 8] & 15) | (six[g] >> 6) << 4);
    to.offsets[g + 4] = minimum * static_cast<float>(six[g + 8] >> 4 | (six[g + 4] >> 6) << 4);
  }
  const std::uint8_t* low = at + (kFifth ? 48 : 16);
  for (int pair = 0; pair < 4; ++pair, low += 32) {
    std::int8_t* const codes = to.codes + 64 * pair;
    split_nibbles<false, 0>(low, 0, codes, codes + 32);
    split_nibbles<false, 0>(low + 16, 0, codes + 16, codes + 48);
  }
  if constexpr (kFifth) {
    for (int g = 0; g < 8; ++g) {
      for (int i = 0; i < 32; i += 16) add_high_bits(at + 16 + i, g, 1, 0, to.codes + 32 * g + i);
    }
  }
  return finite;
}

// Q6_K: sixteen groups of 16.
inline bool six_bits(const std::uint8_t* at, int, Codes& to) {
  Halves halves;
  halves.take(at + 208, 0);
  float scale[4];
  const bool finite = halves_of(halves.bits, 1, scale);
  for (int g = 0; g < 16; ++g) to.scales[g] = scale[0] * static_cast<float>(static_cast<std::int8_t>(at[192 + g]));
  for (int half = 0; half < 2; ++half) {
    const std::uint8_t* const low = at + 64 * half;
    const std::uint8_t* const high = at + 128 + 32 * half;
    std::int8_t* const codes = to.codes + 128 * half;
    for (int i = 0; i < 64; i += 16) split_nibbles<false, 0>(low + i, 0, codes + i, codes + 64 + i);
    for (int layer = 0; layer < 4; ++layer) {
      for (int i = 0; i < 32; i += 16) add_high_bits(high + i, 2 * layer, 3, 32, codes + 32 * layer + i);
    }
  }
  return finite;
}

// Floats of 8 bits are f16 numbers after a shift, those with 4 bits of exponent times 2^8. False where products with
// the scale may be no normal numbers.
template <bool kE4m3> bool write_floats(const std::uint8_t* at, int blocks, float* to) {
  constexpr int kOfBlock = 128;
  for (int b = 0; b < blocks; ++b, at += sizeof(float) + kOfBlock, to += kOfBlock) {
    float scale;
    std::memcpy(&scale, at, sizeof scale);
    if (!(std::abs(scale) > 0x1p-100f && std::abs(scale) < 0x1p100f)) return false;
    const std::uint8_t* const codes = at + sizeof scale;
#if LOCKSTEP_SCALAR_TILE
    for (int i = 0; i < kOfBlock; ++i)
      to[i] = scale * (kE4m3 ? scalar::e4m3_value(codes[i]) : scalar::e5m2_value(codes[i]));
#else
    using D = hn::CappedTag<float, 16>;
    const D d;
    const hn::Rebind<std::uint8_t, D> d8;
    const hn::Rebind<std::uint16_t, D> du;
    const hn::Rebind<hwy::float16_t, D> dh;
    const auto factor = hn::Set(d, kE4m3 ? scale * 0x1p8f : scale);
    for (int i = 0; i < kOfBlock; i += static_cast<int>(hn::Lanes(d))) {
      auto half = hn::ShiftLeft<8>(hn::PromoteTo(du, hn::LoadU(d8, codes + i)));
      if constexpr (kE4m3) {
        const auto sign = hn::And(half, hn::Set(du, 0x8000));
        const auto size = hn::AndNot(hn::Set(du, 0x8000), half);
        const auto number = hn::ShiftRight<1>(size);
        half = hn::Or(sign, hn::IfThenElse(hn::Eq(size, hn::Set(du, 0x7f00)), hn::Set(du, 0x7e00), number));
      }
      hn::StoreU(hn::Mul(hn::PromoteTo(d, hn::BitCast(dh, half)), factor), d, to + i);
    }
#endif
  }
  return true;
}

/// Null for encodings whose elements are decoded one by one.
inline const Form* form_of(Encoding encoding) {
  static constexpr Form kBytes{32, false, &signed_bytes}, kQ4_0{32, false, &nibbles<1, false, 8>},
      kQ4_1{32, true, &nibbles<2, false, 0>}, kQ5_0{32, false, &nibbles<1, true, 16>},
      kQ5_1{32, true, &nibbles<2, true, 0>}, kQ4_k{32, true, &k_nibbles<false>}, kQ5_k{32, true, &k_nibbles<true>},
      kQ6_k{16, false, &six_bits}, kE4m3{128, false, nullptr, &write_floats<true>},
      kE5m2{128, false, nullptr, &write_floats<false>};
  switch (encoding) {
    case Encoding::q8_0: return &kBytes;
    case Encoding::q4_0: return &kQ4_0;
    case Encoding::q4_1: return &kQ4_1;
    case Encoding::q5_0: return &kQ5_0;
    case Encoding::q5_1: return &kQ5_1;
    case Encoding::q4_k: return &kQ4_k;
    case Encoding::q5_k: return &kQ5_k;
    case Encoding::q6_k: return &kQ6_k;
    case Encoding::e4m3:
    case Encoding::e4m3_rows:
    case Encoding::e4m3_squares: return &kE4m3;
    case Encoding::e5m2: return &kE5m2;
    case Encoding::dense:
    case Encoding::q2_k:
    case Encoding::q3_k:
    case Encoding::iq4_nl:
    case Encoding::iq4_xs:
    case Encoding::mxfp4:
    case Encoding::f16:
    case Encoding::bf16: break;
  }
  return nullptr;
}

// The product is exact, so that multiplying and adding at once rounds as one after the other does.
template <int kGroup, bool kShifted> void write_values(const Codes& from, int count, float* to) {
  using D = hn::CappedTag<float, 16>;
  const D d;
  const hn::Rebind<std::int32_t, D> di;
  const hn::Rebind<std::int8_t, D> d8;
  const int lanes = static_cast<int>(hn::Lanes(d));
  for (int g = 0; g * kGroup < count; ++g) {
    const auto scale = hn::Set(d, from.scales[g]);
    [[maybe_unused]] const auto offset = hn::Set(d, kShifted ? from.offsets[g] : 0.0f);
    for (int i = g * kGroup; i < (g + 1) * kGroup; i += lanes) {
      const auto code = hn::ConvertTo(d, hn::PromoteTo(di, hn::LoadU(d8, from.codes + i)));
      if constexpr (kShifted) {
        hn::StoreU(hn::MulAdd(code, scale, offset), d, to + i);
      } else {
        hn::StoreU(hn::Mul(code, scale), d, to + i);
      }
    }
  }
}

/// Blocks in memory, of which stretches of elements are read.
class Lines {
 public:
  Lines(Encoding encoding, const std::byte* data)
      : encoding_(encoding),
        info_(info_of(encoding)),
        form_(form_of(encoding)),
        shift_(std::countr_zero(static_cast<std::uint64_t>(info_.elements))),
        data_(data) {
    HWY_ASSERT(info_.elements == std::int64_t{1} << shift_);
  }

  /// Elements [first, first + count).
  void decode(std::int64_t first, std::int64_t count, float* to) const {
    const std::int64_t head = form_ == nullptr ? count : -first & (info_.elements - 1);
    const std::int64_t end = first + count;
    std::int64_t at = one_by_one(first, std::min(count, head), to);
    while (end - at >= info_.elements) {
      const std::int64_t some = std::min<std::int64_t>((end - at) >> shift_ << shift_, kChunk);
      if (!write_blocks(at, some, to + (at - first))) one_by_one(at, some, to + (at - first));
      at += some;
    }
    one_by_one(at, end - at, to + (at - first));
  }

 private:
  const std::uint8_t* block(std::int64_t element) const {
    return reinterpret_cast<const std::uint8_t*>(data_) + static_cast<std::size_t>(element >> shift_) * info_.bytes;
  }

  // Returns the element behind them.
  std::int64_t one_by_one(std::int64_t first, std::int64_t count, float* to) const {
    for (std::int64_t i = 0; i < count; ++i) {
      const auto word = static_cast<std::uint32_t>(load_word(encoding_, DType::f32, data_, first + i));
      to[i] = std::bit_cast<float>(word);
    }
    return first + count;
  }

  bool write_blocks(std::int64_t first, std::int64_t count, float* to) const {
    const int blocks = static_cast<int>(count >> shift_);
    if (form_->write != nullptr) return form_->write(block(first), blocks, to);
    Codes codes;
    if (!form_->take_apart(block(first), blocks, codes)) return false;
    const int whole = static_cast<int>(count);
    if (form_->group == 16) {
      form_->shifted ? write_values<16, true>(codes, whole, to) : write_values<16, false>(codes, whole, to);
    } else {
      form_->shifted ? write_values<32, true>(codes, whole, to) : write_values<32, false>(codes, whole, to);
    }
    return true;
  }

  Encoding encoding_;
  const EncodingInfo& info_;
  const Form* form_;
  int shift_;  ///< a block has 2^shift_ elements
  const std::byte* data_;
};

}  // namespace HWY_NAMESPACE
}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
HWY_AFTER_NAMESPACE();

#endif  // include guard, per target

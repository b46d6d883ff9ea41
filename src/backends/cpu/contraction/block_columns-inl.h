// A few rows times packed columns whose weights are decoded, per instruction set: columns go through panels (q8.h), and
// the order of terms is that of thin-inl.h, which includes this.

#if defined(LOCKSTEP_CONTRACTION_BLOCK_COLUMNS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCKSTEP_CONTRACTION_BLOCK_COLUMNS_INL_H_
#undef LOCKSTEP_CONTRACTION_BLOCK_COLUMNS_INL_H_
#else
#define LOCKSTEP_CONTRACTION_BLOCK_COLUMNS_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "backends/cpu/contraction/q8_panel-inl.h"
#include "backends/cpu/contraction/thin_args.h"
#include "backends/cpu/contraction/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep {
inline namespace v0 {
namespace contraction {
namespace HWY_NAMESPACE {

#if !LOCKSTEP_SCALAR_TILE

/// Encodings whose elements are scale * code, or that + offset, with scales and offsets of f16 and small integers.
constexpr bool has_f32_panels(Encoding encoding) {
  switch (encoding) {
    case Encoding::q8_0:
    case Encoding::q4_0:
    case Encoding::q4_1:
    case Encoding::q5_0:
    case Encoding::q5_1:
    case Encoding::q4_k:
    case Encoding::q5_k:
    case Encoding::q6_k: return true;
    default: return false;
  }
}

inline const Q8Form& q8_form(Encoding encoding) {
  return kQ8Forms[static_cast<int>(encoding) - 1];  // rows are in the order of encodings.def
}

/// Reads a panel from its beginning, 32 k at a time. kNibbles, kShifted: what the form is.
template <bool kNibbles, bool kShifted> class PanelReader {
 public:
  using D = Tag<float>;
  using V = hn::Vec<D>;

  /// Elements are code * scale + offset. The product is exact: it is rounded as if it were added by itself.
  struct Numbers {
    V scale, offset;

    HWY_INLINE V value(V code) const { return kShifted ? hn::MulAdd(code, scale, offset) : hn::Mul(code, scale); }
  };

  PanelReader() = default;
  PanelReader(const Q8Form& form, const std::byte* panel)
      : form_(&form), at_(panel), zero_(hn::Set(Q8D8(), static_cast<std::int8_t>(form.zero))) {}

  /// The next 32 k. False where a scale or an offset is no finite number.
  HWY_INLINE bool begin_block() {
    if (form_->large && block_ % 8 != 0) return true;
    scales_ = at_;
    at_ += (form_->scales_bytes() + form_->factors_bytes() + form_->shares_bytes()) * kQ8Lanes;
    return is_finite(scales_) && (!kShifted || is_finite(scales_ + 2 * kQ8Lanes));
  }
  HWY_INLINE void end_block() {
    at_ += form_->codes_bytes() * kQ8Lanes;
    ++block_;
  }

  /// Of 16 k of them.
  HWY_INLINE Numbers numbers(int half) const {
    const D d;
    const std::byte* const factors = scales_ + form_->scales_bytes() * kQ8Lanes;
    const int number = form_->groups() == 2 ? block_ % 8 * 2 + half : block_ % 8;
    Numbers result{load_scales<false>(scales_), hn::Zero(d)};
    if (form_->factors) result.scale = hn::Mul(result.scale, number_of_group(factors, number));
    if constexpr (kShifted) {
      result.offset = load_scales<false>(scales_ + 2 * kQ8Lanes);
      // A share is minus what the block has; the sign of a zero is that of the encoding's rule.
      if (form_->shares) {
        const auto share = hn::Abs(number_of_group(factors + form_->factors_bytes() * kQ8Lanes, number));
        result.offset = hn::Mul(hn::Neg(result.offset), share);
      }
    }
    return result;
  }

  /// Four neighbours' codes of every column, number `word` of 16 k.
  HWY_INLINE Q8V four(int half, int word) const {
    const int number = kNibbles ? word : 4 * half + word;
    const auto bytes = hn::LoadU(Q8D8(), reinterpret_cast<const std::int8_t*>(at_ + number * 4 * kQ8Lanes));
    if constexpr (!kNibbles) return hn::BitCast(Q8D(), hn::Sub(bytes, zero_));
    return hn::BitCast(Q8D(), kSignedNibbles ? hn::Xor(bytes, hn::Set(Q8D8(), kEights)) : bytes);
  }
  /// One of them, as an f32 number.
  static HWY_INLINE V code(Q8V four, int half, int i) {
    if constexpr (kNibbles) {
      const int bit = 8 * i + 4 * half;
      if constexpr (kSignedNibbles) return hn::ConvertTo(D(), hn::ShiftRight<28>(hn::ShiftLeftSame(four, 28 - bit)));
      const Q8V shifted = hn::BitCast(Q8D(), hn::ShiftRightSame(hn::BitCast(Q8DU(), four), bit));
#if HWY_TARGET == HWY_AVX3
      // Only four bits of an index count.
      return V{_mm512_permutexvar_ps(shifted.raw, hn::Iota(D(), kShifted ? 0.0f : -8.0f).raw)};
#else
      return hn::ConvertTo(D(), hn::And(shifted, hn::Set(Q8D(), 15)));
#endif
    } else {
      return hn::ConvertTo(D(), hn::ShiftRight<24>(hn::ShiftLeftSame(four, 24 - 8 * i)));
    }
  }

 private:
  using Q8DU = hn::RebindToUnsigned<Q8D>;

  /// Codes less 8 are signed numbers of four bits; AVX-512 looks numbers up instead.
  static constexpr bool kSignedNibbles = kNibbles && !kShifted && HWY_TARGET != HWY_AVX3;
  static constexpr auto kEights = static_cast<std::int8_t>(0x88);

  static HWY_INLINE bool is_finite(const std::byte* scales) {
    const hn::Rebind<std::uint16_t, D> d;
    const auto exponents = hn::Set(d, std::uint16_t{0x7c00});
    const auto bits = hn::LoadU(d, reinterpret_cast<const std::uint16_t*>(scales));
    return hn::AllFalse(d, hn::Eq(hn::And(bits, exponents), exponents));
  }

  const Q8Form* form_ = nullptr;
  const std::byte* at_ = nullptr;
  const std::byte* scales_ = nullptr;
  int block_ = 0;
  Q8V8 zero_ = hn::Zero(Q8D8());
};

constexpr bool suits_reader(const Q8Form& form) {
  return !has_f32_panels(form.encoding) || !form.nibbles() || form.zero == (form.offsets() ? 0 : 8);
}
static_assert(std::ranges::all_of(kQ8Forms, suits_reader));

/// kPieces vectors of columns, whose codes become numbers in registers. False where one must be decoded element by
/// element. A panel is packed for all of k: memory is read column after column. While columns are multiplied, those
/// that are packed next come to the second cache: packing would do nothing but wait for them.
template <bool kNibbles, bool kShifted, int kRows, int kPieces>
bool thin_block_pieces_of(const ThinArgs& args, std::int64_t piece) {
  using Reader = PanelReader<kNibbles, kShifted>;
  const Tag<float> d;
  constexpr int kN = kLanes<float>;
  const Q8Form& form = q8_form(args.encoding);
  Reader readers[kPieces];
  std::int64_t columns[kN];
  for (int p = 0; p < kPieces; ++p) {
    for (int i = 0; i < kN; ++i)
      columns[i] = args.first + args.table->address[static_cast<std::size_t>((piece + p) * kN + i)];
    std::byte* const panel = args.packed + p * args.packed_bytes;
    args.pack_blocks(args.blocks, columns, args.k / order::kQ8Block, panel);
    readers[p] = Reader(form, panel);
  }
  const std::byte* soon = args.blocks;  // if columns lie one after the other
  if (piece + kPieces < args.table->pieces()) {
    soon += (args.first + args.table->address[static_cast<std::size_t>((piece + kPieces) * kN)]) / form.elements() *
            form.bytes();
  }
  const std::int64_t bytes = kPieces * kN * form.bytes() * order::kQ8Block / form.elements();
  const float* row = args.rows;
  float* const to = args.results + (piece - args.piece_begin) * kN;
  for (std::int64_t k = 0; k < args.k; k += kBlock) {
    const std::int64_t blocks = std::min(kBlock, args.k - k) / order::kQ8Block;
    hn::Vec<Tag<float> > acc[kRows][kPieces];
    for (int r = 0; r < kRows; ++r) {
      for (int p = 0; p < kPieces; ++p) acc[r][p] = hn::Zero(d);
    }
    for (std::int64_t b = 0; b < blocks; ++b) {
      for (int p = 0; p < kPieces; ++p) {
        if (!readers[p].begin_block()) return false;
      }
      for (std::int64_t byte = 0; byte < bytes; byte += 64) fetch_later(soon + byte);
      soon += bytes;
#pragma GCC unroll 2
      for (int half = 0; half < 2; ++half) {
        typename Reader::Numbers numbers[kPieces];
        for (int p = 0; p < kPieces; ++p) numbers[p] = readers[p].numbers(half);
        for (int word = 0; word < 4; ++word) {
          Q8V four[kPieces];
          for (int p = 0; p < kPieces; ++p) four[p] = readers[p].four(half, word);
#pragma GCC unroll 4
          for (int i = 0; i < 4; ++i, row += args.rows_stride) {
            hn::Vec<Tag<float> > value[kPieces];
#pragma GCC unroll 4
            for (int p = 0; p < kPieces; ++p) value[p] = numbers[p].value(Reader::code(four[p], half, i));
#pragma GCC unroll 8
            for (int r = 0; r < kRows; ++r) {
              const auto weight = hn::Set(d, row[r]);
#pragma GCC unroll 4
              for (int p = 0; p < kPieces; ++p) acc[r][p] = hn::MulAdd(weight, value[p], acc[r][p]);
            }
          }
        }
      }
      for (int p = 0; p < kPieces; ++p) readers[p].end_block();
    }
    for (int r = 0; r < kRows; ++r) {
      for (int p = 0; p < kPieces; ++p) {
        float* const sum = to + r * args.results_stride + p * kN;
        hn::StoreU(k == 0 ? acc[r][p] : hn::Add(hn::LoadU(d, sum), acc[r][p]), d, sum);
      }
    }
  }
  return true;
}

template <int kRows, int kPieces> bool thin_block_pieces(const ThinArgs& args, std::int64_t piece) {
  const Q8Form& form = q8_form(args.encoding);
  if (form.nibbles()) {
    return form.offsets() ? thin_block_pieces_of<true, true, kRows, kPieces>(args, piece)
                          : thin_block_pieces_of<true, false, kRows, kPieces>(args, piece);
  }
  return form.offsets() ? thin_block_pieces_of<false, true, kRows, kPieces>(args, piece)
                        : thin_block_pieces_of<false, false, kRows, kPieces>(args, piece);
}

// Whether a vector of columns has whole blocks alone, of an encoding that panels can be decoded from.
inline bool has_whole_blocks(const ThinArgs& args, std::int64_t piece) {
  const std::int64_t elements = info_of(args.encoding).elements;
  if (!has_f32_panels(args.encoding) || args.k == 0 || args.k % elements != 0) return false;
  for (int i = 0; i < kLanes<float>; ++i) {
    const std::int64_t address = args.table->address[static_cast<std::size_t>(piece * kLanes<float> + i)];
    if ((args.first + address) % elements != 0) return false;
  }
  return true;
}

#endif  // !LOCKSTEP_SCALAR_TILE

}  // namespace HWY_NAMESPACE
}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
HWY_AFTER_NAMESPACE();

#endif  // include guard, per target

// Panels of packed columns (q8.h) as f32 numbers, per instruction set, some k at a time: for rows that are multiplied
// by decoded weights.

#if defined(LOCKSTEP_CONTRACTION_BLOCK_COLUMNS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCKSTEP_CONTRACTION_BLOCK_COLUMNS_INL_H_
#undef LOCKSTEP_CONTRACTION_BLOCK_COLUMNS_INL_H_
#else
#define LOCKSTEP_CONTRACTION_BLOCK_COLUMNS_INL_H_
#endif

#include <cstdint>

#include "backends/cpu/contraction/q8_panel-inl.h"
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

/// Reads a panel from its beginning.
class PanelReader {
 public:
  PanelReader() = default;
  PanelReader(const Q8Form& form, const std::byte* panel) : form_(&form), at_(panel) {}

  /// The next 32 k, as [k][column]. False, and nothing written, where a scale or an offset is no finite number.
  HWY_INLINE bool next(float* to) {
    const Q8Form& form = *form_;
    if (!form.large || block_ % 8 == 0) {
      scales_ = at_;
      at_ += (form.scales_bytes() + form.factors_bytes() + form.shares_bytes()) * kQ8Lanes;
      if (!is_finite(scales_) || (form.offsets() && !is_finite(scales_ + 2 * kQ8Lanes))) return false;
    }
    for (int g = 0; g < form.groups(); ++g) {
      form.offsets() ? write_group<true>(g, to) : write_group<false>(g, to);
      to += form.group() * kQ8Lanes;
    }
    at_ += form.codes_bytes() * kQ8Lanes;
    ++block_;
    return true;
  }

 private:
  static bool is_finite(const std::byte* scales) {
    const hn::Rebind<std::uint16_t, Tag<float> > d;
    const auto exponents = hn::Set(d, std::uint16_t{0x7c00});
    const auto bits = hn::LoadU(d, reinterpret_cast<const std::uint16_t*>(scales));
    return hn::AllFalse(d, hn::Eq(hn::And(bits, exponents), exponents));
  }

  // A word of four codes of each column, signed.
  HWY_INLINE Q8V codes(int quad) const {
    const Q8D8 d;
    const int word = form_->nibbles() ? quad % 4 : quad;
    auto bytes = hn::LoadU(d, reinterpret_cast<const std::int8_t*>(at_ + word * 4 * kQ8Lanes));
    if (form_->nibbles()) {
      if (quad >= 4) bytes = hn::BitCast(d, hn::ShiftRight<4>(hn::BitCast(Q8D16(), bytes)));
      bytes = hn::And(bytes, hn::Set(d, 15));
    }
    return hn::BitCast(Q8D(), hn::Sub(bytes, hn::Set(d, static_cast<std::int8_t>(form_->zero))));
  }

  template <bool kShifted> HWY_INLINE void write_group(int g, float* to) const {
    const Tag<float> d;
    const std::byte* const factors = scales_ + form_->scales_bytes() * kQ8Lanes;
    const int number = block_ % 8 * form_->groups() + g;
    auto scale = load_scales<false>(scales_);
    if (form_->factors) scale = hn::Mul(scale, number_of_group(factors, number));
    auto offset = hn::Zero(d);
    if constexpr (kShifted) {
      offset = load_scales<false>(scales_ + 2 * kQ8Lanes);
      // A share is minus what the block has; the sign of a zero is that of the encoding's rule.
      if (form_->shares) {
        const auto share = hn::Abs(number_of_group(factors + form_->factors_bytes() * kQ8Lanes, number));
        offset = hn::Mul(hn::Neg(offset), share);
      }
    }
    const int quads = form_->group() / 4;
    for (int quad = g * quads; quad < (g + 1) * quads; ++quad, to += 4 * kQ8Lanes) {
      const Q8V four = codes(quad);
      write<kShifted>(hn::ShiftRight<24>(hn::ShiftLeft<24>(four)), scale, offset, to);
      write<kShifted>(hn::ShiftRight<24>(hn::ShiftLeft<16>(four)), scale, offset, to + kQ8Lanes);
      write<kShifted>(hn::ShiftRight<24>(hn::ShiftLeft<8>(four)), scale, offset, to + 2 * kQ8Lanes);
      write<kShifted>(hn::ShiftRight<24>(four), scale, offset, to + 3 * kQ8Lanes);
    }
  }

  // The product is exact: multiplying and adding at once rounds as one after the other.
  template <bool kShifted>
  static HWY_INLINE void write(Q8V code, hn::Vec<Tag<float> > scale, hn::Vec<Tag<float> > offset, float* to) {
    const Tag<float> d;
    const auto number = hn::ConvertTo(d, code);
    hn::StoreU(kShifted ? hn::MulAdd(number, scale, offset) : hn::Mul(number, scale), d, to);
  }

  const Q8Form* form_ = nullptr;
  const std::byte* at_ = nullptr;
  const std::byte* scales_ = nullptr;
  int block_ = 0;
};

#endif  // !LOCKSTEP_SCALAR_TILE

}  // namespace HWY_NAMESPACE
}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
HWY_AFTER_NAMESPACE();

#endif  // include guard, per target

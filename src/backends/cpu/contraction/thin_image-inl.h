// Depthwise convolutions of three by three taps and stride 1 that read their image where it is: lanes run along its
// lines, padding is what masks leave out, and lines that do not exist are zeros. Of images without subnormals, and with
// AVX-512, where masks cost nothing. The order of terms is that of thin-inl.h, which includes this.

#if defined(LOCKSTEP_CONTRACTION_THIN_IMAGE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCKSTEP_CONTRACTION_THIN_IMAGE_INL_H_
#undef LOCKSTEP_CONTRACTION_THIN_IMAGE_INL_H_
#else
#define LOCKSTEP_CONTRACTION_THIN_IMAGE_INL_H_
#endif

#include <algorithm>
#include <array>
#include <cstdint>

#include "backends/cpu/contraction/packing-inl.h"
#include "backends/cpu/contraction/thin_args.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep {
inline namespace v0 {
namespace contraction {
namespace HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX3

inline constexpr std::array<float, ThinImage::kMostColumns> kNoLine{};

/// What the lines of a strip of kVectors vectors have in common. Only the first and the last vector may meet padding.
template <int kVectors> struct ImageStrip {
  static constexpr int kTaps = ThinTable::kSquareSide;
  static constexpr int kN = kLanes<float>;
  using D = Tag<float>;
  using V = hn::Vec<D>;

  HWY_INLINE ImageStrip(const ThinArgs& args_, std::int64_t vector) : args(args_), column(vector * kN) {
    const ThinImage& image = *args.table->image;
    const std::uint16_t* const bits = image.masks.data() + vector / ThinImage::kStripVectors * kTaps * 2;
#pragma GCC unroll 3
    for (int i = 0; i < kTaps; ++i) {
#pragma GCC unroll 3
      for (int j = 0; j < kTaps; ++j) weight[i][j] = hn::Set(D(), args.rows[(i * kTaps + j) * args.rows_stride]);
      tap[i] = image.taps[static_cast<std::size_t>(i)] + column;
      first[i] = hn::LoadMaskBits(D(), reinterpret_cast<const std::uint8_t*>(bits + 2 * i));
      last[i] = hn::LoadMaskBits(D(), reinterpret_cast<const std::uint8_t*>(bits + 2 * i + 1));
    }
  }

  HWY_INLINE const float* line_of_image(std::int64_t line) const {
    const ThinImage& image = *args.table->image;
    const bool exists = image.first_line <= line && line < image.end_line;
    return exists ? args.data + line * image.line_stride : kNoLine.data();
  }
  HWY_INLINE V load(const float* line, int j, int v) const {
    const float* const at = line + tap[j] + v * kN;
    if (v == 0) return hn::MaskedLoad(first[j], D(), at);
    if (v == kVectors - 1) return hn::MaskedLoad(last[j], D(), at);
    return hn::LoadU(D(), at);
  }
  // Raw results of a line may go over its end, as the next line overwrites what is there.
  HWY_INLINE void store(std::int64_t line, int v, V sum) const {
    const std::int64_t in_line = column + v * kN;
    float* const to = args.results + line * args.table->line + in_line;
    if (!args.finish) return hn::StoreU(sum, D(), to);
    const V result = canonical_result(D(), sum);
    if (v < kVectors - 1) return hn::StoreU(result, D(), to);
    const std::int64_t left = std::min<std::int64_t>(kN, args.table->line - in_line);
    hn::BlendedStore(result, hn::FirstN(D(), static_cast<std::size_t>(left)), D(), to);
  }

  const ThinArgs& args;
  std::int64_t column;
  V weight[kTaps][kTaps];
  std::int64_t tap[kTaps];
  hn::Mask<D> first[kTaps], last[kTaps];
};

// As thin_lines_of_nine.
template <int kLines, int kVectors> HWY_INLINE void image_lines(const ImageStrip<kVectors>& strip, std::int64_t line) {
  constexpr int kTaps = ThinTable::kSquareSide;
  const Tag<float> d;
  hn::Vec<Tag<float> > acc[kLines][kVectors];
#pragma GCC unroll 8
  for (int l = 0; l < kLines; ++l) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) acc[l][v] = hn::Zero(d);
  }
#pragma GCC unroll 16
  for (int from = 0; from < kLines + kTaps - 1; ++from) {
    const float* const pixels = strip.line_of_image(line + from);
#pragma GCC unroll 3
    for (int j = 0; j < kTaps; ++j) {
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) {
        const auto value = strip.load(pixels, j, v);
#pragma GCC unroll 3
        for (int i = 0; i < kTaps; ++i) {
          const int l = from - i;
          if (l >= 0 && l < kLines) acc[l][v] = hn::MulAdd(strip.weight[i][j], value, acc[l][v]);
        }
      }
    }
  }
#pragma GCC unroll 8
  for (int l = 0; l < kLines; ++l) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) strip.store(line + l, v, acc[l][v]);
  }
}

// As thin_strip_of.
template <int kLines, int kVectors>
HWY_INLINE void image_strip_of(const ThinArgs& args, const ImageStrip<kVectors>& strip) {
  const std::int64_t lines = args.table->lines;
  if constexpr (kLines > 1) {
    if (lines < kLines) return image_strip_of<kLines / 2>(args, strip);
  }
  for (std::int64_t line = 0; line < lines; line += kLines) {
    image_lines<kLines>(strip, std::min(line, lines - kLines));
  }
}

template <int kVectors> HWY_NOINLINE void image_strip(const ThinArgs& args, std::int64_t vector) {
  // Sums, the weights and a value fill the registers.
  constexpr int kLines = kVectors <= 2 ? 8 : kVectors <= 4 ? 4 : 2;
  image_strip_of<kLines>(args, ImageStrip<kVectors>(args, vector));
}

// The last strip first: it may go over the ends of its lines into the first, but no other.
inline void thin_image(const ThinArgs& args) {
  constexpr std::int64_t kWidest = ThinImage::kStripVectors;
  static_assert(kWidest == 8);
  const std::int64_t vectors = (args.table->line + kLanes<float> - 1) / kLanes<float>;
  std::int64_t vector = (vectors - 1) / kWidest * kWidest;
  switch (vectors - vector) {
    case 1: image_strip<1>(args, vector); break;
    case 2: image_strip<2>(args, vector); break;
    case 3: image_strip<3>(args, vector); break;
    case 4: image_strip<4>(args, vector); break;
    case 5: image_strip<5>(args, vector); break;
    case 6: image_strip<6>(args, vector); break;
    case 7: image_strip<7>(args, vector); break;
    default: image_strip<8>(args, vector); break;
  }
  while (vector > 0) {
    vector -= kWidest;
    image_strip<8>(args, vector);
  }
}

#endif

}  // namespace HWY_NAMESPACE
}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
HWY_AFTER_NAMESPACE();

#endif  // include guard, per target

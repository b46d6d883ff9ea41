// What q8.h describes, per instruction set: activations are rounded, and rows times packed panels.

#if defined(LOCKSTEP_CONTRACTION_Q8_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCKSTEP_CONTRACTION_Q8_TILE_INL_H_
#undef LOCKSTEP_CONTRACTION_Q8_TILE_INL_H_
#else
#define LOCKSTEP_CONTRACTION_Q8_TILE_INL_H_
#endif

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>

#include "backends/cpu/contraction/q8.h"
#include "backends/cpu/contraction/q8_dots-inl.h"
#include "backends/cpu/contraction/q8_in_place-inl.h"
#include "backends/cpu/contraction/q8_panel-inl.h"
#include "backends/cpu/contraction/tile-inl.h"

LOCKSTEP_Q8_BEFORE_NAMESPACE();
namespace lockstep {
inline namespace v0 {
namespace contraction {
namespace LOCKSTEP_Q8_NAMESPACE {

// --- activations

template <int kForm>
bool q8_quantize(const float* HWY_RESTRICT row, std::int64_t blocks, Q8Activations* HWY_RESTRICT to) {
  constexpr Q8Form form = kQ8Forms[kForm];
  constexpr int kBlockSize = order::kQ8Block;
  constexpr float kSmall = 0x1p-100f;  // times the smallest f16 this is a normal number
  bool careful = form.power_scales();
  for (std::int64_t b = 0; b < blocks; ++b, row += kBlockSize, ++to) {
    float x[kBlockSize];
    std::int32_t largest = 0;
    for (int i = 0; i < kBlockSize; ++i) {
      const std::int32_t magnitude = std::bit_cast<std::int32_t>(row[i]) & 0x7fffffff;
      x[i] = magnitude < 0x00800000 ? 0.0f : row[i];
      largest = largest > magnitude ? largest : magnitude;
    }
    if (largest < 0x00800000) largest = 0;
    const float scale = scalar::q8_scale(static_cast<std::uint32_t>(largest));
    const float inverse = scale > 0 ? 1.0f / scale : 0.0f;
    to->scale = scale;
    careful = careful || (scale > 0 && scale < kSmall);
    std::int32_t codes[kBlockSize];
    for (int i = 0; i < kBlockSize; ++i) {
      const float shifted = __builtin_fmaf(x[i], inverse, 0x1.8p23f);
      codes[i] = std::bit_cast<std::int32_t>(shifted) - 0x4b400000;
    }
    if (inverse == 0) std::fill_n(codes, kBlockSize, 0);
    for (int i = 0; i < kBlockSize; ++i) to->codes[i] = static_cast<std::int8_t>(codes[i]);
    std::int32_t sums[2] = {};
    for (int i = 0; i < kBlockSize / 2; ++i) {
      sums[0] += codes[i];
      sums[1] += codes[i + kBlockSize / 2];
    }
    if (form.groups() == 1) sums[0] += sums[1];
    for (int g = 0; g < 2; ++g) {
      to->sums[g] = static_cast<float>(sums[g]);
#if !LOCKSTEP_SCALAR_TILE
      to->shifts[g] = shift_of<kForm>(sums[g]);
#endif
    }
  }
  return careful;
}

// --- tiles

#if LOCKSTEP_SCALAR_TILE

inline constexpr int kQ8Rows = 1;

template <int kForm> void q8_multiply(const Q8TileArgs& args) {
  constexpr Q8Form form = kQ8Forms[kForm];
  const auto decode = [](const std::byte* at) {
    const std::uint32_t word = LOAD_U16(at, 0);
    return kQ8Forms[kForm].power_scales() ? FROM_BITS(word << 16) : scalar::decode_f16(word);
  };
  for (std::int64_t r = 0; r < args.row_count; ++r) {
    const Q8Activations* a = args.rows + r * args.row_stride;
    for (int lane = 0; lane < kQ8Lanes; ++lane) {
      const std::byte* at = args.panel;
      const std::byte* scales = at;
      float total = 0;
      float partial = 0;
      // Byte `i` of what the lane has from `from` on.
      const auto byte_at = [lane](const std::byte* from, int i) {
        return static_cast<int>(from[i / 4 * 4 * kQ8Lanes + 4 * lane + i % 4]);
      };
      for (std::int64_t b = 0; b < args.blocks; ++b) {
        if (!form.large || b % 8 == 0) {
          scales = at;
          at += (form.scales_bytes() + form.factors_bytes() + form.shares_bytes()) * kQ8Lanes;
        }
        const std::byte* const factors = scales + form.scales_bytes() * kQ8Lanes;
        const std::byte* const shares = factors + form.factors_bytes() * kQ8Lanes;
        const std::byte* const codes = at;
        std::int32_t sum = 0;
        std::int32_t share_sum = 0;
        for (int k = 0; k < order::kQ8Block; ++k) {
          const int quad = k / 4;
          const int g = static_cast<int>(b % 8) * form.groups() + k / form.group();
          int code = byte_at(codes, form.nibbles() ? k % 16 : k);
          if (form.nibbles()) code = quad < 4 ? code & 15 : code >> 4;
          code = form.is_signed() ? static_cast<std::int8_t>(code) : code - form.zero;
          const int factor = form.factors ? static_cast<std::int8_t>(byte_at(factors, g)) : 1;
          const int share = form.shares ? static_cast<std::int8_t>(byte_at(shares, g)) : 1;
          sum += factor * code * a[b].codes[k];
          share_sum += share * a[b].codes[k];
        }
        const float scale = canonical_result(decode(scales + 2 * lane) * a[b].scale);
        partial = std::fma(static_cast<float>(sum), scale, partial);
        if constexpr (form.offsets()) {
          const float offset = canonical_result(decode(scales + 2 * (kQ8Lanes + lane)) * a[b].scale);
          partial = std::fma(static_cast<float>(share_sum), offset, partial);
        }
        at += form.codes_bytes() * kQ8Lanes;
        if (b % 8 == 7 || b + 1 == args.blocks) {
          total = b < 8 ? partial : total + partial;
          partial = 0;
        }
      }
      args.results[r * args.results_stride + lane] = total;
    }
  }
}

#else

inline constexpr int kQ8Rows = 4;

template <int kForm, int kRows> HWY_NOINLINE void q8_tile(const Q8TileArgs& args) {
  constexpr Q8Form form = kQ8Forms[kForm];
  constexpr int kN = kQ8Lanes;
  const Tag<float> df;
  using VF = hn::Vec<decltype(df)>;
  VF total[kRows];
  VF partial[kRows];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) total[r] = partial[r] = hn::Zero(df);
  const std::byte* at = args.panel;
  const std::byte* factors = at;
  VF scale = hn::Zero(df);
  [[maybe_unused]] VF offset = hn::Zero(df);
  for (std::int64_t b = 0; b < args.blocks; ++b) {
    const Q8Activations* const rows = args.rows + b;
    if (!form.large || (b & 7) == 0) {
      scale = load_scales<form.power_scales()>(at);
      if constexpr (form.offsets()) offset = load_scales<form.power_scales()>(at + 2 * kN);
      factors = at + form.scales_bytes() * kN;
      at = factors + (form.factors_bytes() + form.shares_bytes()) * kN;
    }
    const std::byte* const codes = at;
    at += form.codes_bytes() * kN;
    VF number[kRows];
    block_products<kForm, kRows>(codes, factors, static_cast<int>(b & 7) * form.groups(), rows, args.row_stride,
                                 number);
    [[maybe_unused]] VF share[2] = {hn::Zero(df), hn::Zero(df)};
    if constexpr (form.shares) {
      constexpr int kGroups = form.groups();
#pragma GCC unroll 2
      for (int g = 0; g < kGroups; ++g) {
        const std::byte* const shares = factors + form.factors_bytes() * kN;
        share[g] = number_of_group(shares, static_cast<int>(b & 7) * kGroups + g);
      }
    }
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      const Q8Activations& row = rows[r * args.row_stride];
      const VF own = hn::Set(df, row.scale);
      VF product = hn::Mul(scale, own);
      if (HWY_UNLIKELY(args.careful)) product = canonical_result(df, product);
      partial[r] = hn::MulAdd(number[r], product, partial[r]);
      if constexpr (form.offsets()) {
        VF shared = hn::Set(df, row.sums[0]);
        if constexpr (form.shares) shared = hn::Mul(shared, share[0]);
        if constexpr (form.groups() == 2) shared = hn::MulAdd(hn::Set(df, row.sums[1]), share[1], shared);
        VF below = hn::Mul(offset, own);
        if (HWY_UNLIKELY(args.careful)) below = canonical_result(df, below);
        partial[r] = hn::MulAdd(shared, below, partial[r]);
      }
    }
    if ((b & 7) == 7 || b + 1 == args.blocks) {
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        total[r] = b < 8 ? partial[r] : hn::Add(total[r], partial[r]);
        partial[r] = hn::Zero(df);
      }
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) hn::StoreU(total[r], df, args.results + r * args.results_stride);
}

// Three rows, which few products have, are two and one.
template <int kForm> void q8_multiply(const Q8TileArgs& args) {
  if (args.row_count == kQ8Rows) return q8_tile<kForm, kQ8Rows>(args);
  if (args.row_count == 1) return q8_tile<kForm, 1>(args);
  q8_tile<kForm, 2>(args);
  if (args.row_count == 2) return;
  Q8TileArgs last = args;
  last.rows += 2 * args.row_stride;
  last.results += 2 * args.results_stride;
  q8_tile<kForm, 1>(last);
}

#endif  // LOCKSTEP_SCALAR_TILE

#ifdef LOCKSTEP_Q8_SDOT
#include "backends/cpu/contraction/q8_sdot_in_place-inl.h"
#endif

template <int kForm> constexpr auto in_place_loop() -> decltype(Q8Loops::multiply_in_place) {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || defined(LOCKSTEP_Q8_SDOT)
  if constexpr (is_read_in_place(kQ8Forms[kForm].encoding)) return &q8_in_place<kForm>;
#endif
  return nullptr;
}

template <int kForm> Q8Loops q8_loops_of() {
  constexpr Q8Form form = kQ8Forms[kForm];
  return {.lanes = kQ8Lanes,
          .rows = kQ8Rows,
          .panel_bytes = &q8_panel_bytes<kForm>,
          .pack = &q8_pack<kForm>,
          .quantize = &q8_quantize<kForm>,
          .multiply = &q8_multiply<kForm>,
          .multiply_in_place = in_place_loop<kForm>(),
          .form = {.zero = form.zero,
                   .nibbles = form.nibbles(),
                   .factors = form.factors,
                   .shares = form.shares,
                   .offsets = form.offsets(),
                   .large = form.large,
                   .groups = form.groups()}};
}

using Q8Table = std::array<Q8Loops, std::size(kQ8Forms)>;

inline Q8Table make_q8_table() {
  return []<int... kForms>(std::integer_sequence<int, kForms...>) {
    return Q8Table{q8_loops_of<kForms>()...};
  }(std::make_integer_sequence<int, std::size(kQ8Forms)>());
}

}  // namespace LOCKSTEP_Q8_NAMESPACE
}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
HWY_AFTER_NAMESPACE();

#endif  // include guard, per target

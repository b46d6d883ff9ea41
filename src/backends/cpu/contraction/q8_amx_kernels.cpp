// The loops of q8_kernels.cpp for AVX-512, and units of many rows by AMX (q8.h): a tile of 16 rows times 32 k of 16
// columns is one instruction, whose sums go through memory into what section 14 of docs/numerics.md does with them.
// Panels' codes have the order of AMX's tiles; they are made signed bytes, and scales and factors floats, 256 k of a
// few panels at a time, so that all rows of a unit meet them in the first cache.
#include "backends/cpu/simd_targets.h"

#if (defined(__x86_64__) || defined(__i386__)) && !defined(LOCKSTEP_SANITIZED)

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // what intrinsics leave undefined
#endif
#include <immintrin.h>
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "backends/cpu/contraction/amx_tiles.h"
#include "backends/cpu/contraction/q8.h"

namespace lockstep {
inline namespace v0 {
namespace contraction {
namespace {

constexpr int kLanes = 16;
constexpr int kRows = kQ8RowsTogether;
constexpr int kTogether = 8;  // blocks of 32: a partial sum
constexpr int kMostPanels = 4;

// A panel's columns in so many blocks.
struct alignas(64) Columns {
  std::int8_t codes[kTogether][2][256];
  float scales[kTogether][kLanes];
  float offsets[kTogether][kLanes];
  float factors[2 * kTogether][kLanes];
  float shares[2 * kTogether][kLanes];
};
using Sums = std::int32_t[kRows][kLanes];

LOCKSTEP_AMX const std::byte* read_numbers(const std::byte* from, int count, float (*to)[kLanes]) {
  for (int i = 0; i < count; i += 4, from += 4 * kLanes) {
    const __m512i four = _mm512_loadu_si512(from);
    for (int byte = 0; byte < 4; ++byte) {
      const __m512i top = _mm512_sll_epi32(four, _mm_cvtsi32_si128(24 - 8 * byte));
      _mm512_store_ps(to[i + byte], _mm512_cvtepi32_ps(_mm512_srai_epi32(top, 24)));
    }
  }
  return from;
}

LOCKSTEP_AMX const std::byte* read_scales(const std::byte* from, float* to) {
  _mm512_store_ps(to, _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from))));
  return from + 2 * kLanes;
}

LOCKSTEP_AMX const std::byte* read_codes(const Q8PanelForm& form, const std::byte* from, std::int8_t* to) {
  const __m512i zero = _mm512_set1_epi8(static_cast<char>(form.zero));
  const __m512i low = _mm512_set1_epi8(15);
  for (int word = 0; word < 8; ++word) {
    __m512i codes = _mm512_loadu_si512(from + (form.nibbles ? word % 4 : word) * 4 * kLanes);
    if (form.nibbles) codes = _mm512_and_si512(word < 4 ? codes : _mm512_srli_epi16(codes, 4), low);
    _mm512_store_si512(to + word * 4 * kLanes, _mm512_sub_epi8(codes, zero));
  }
  return from + (form.nibbles ? 4 : 8) * 4 * kLanes;
}

// The panel's next `count` blocks.
LOCKSTEP_AMX const std::byte* read_columns(const Q8PanelForm& form, const std::byte* from, int count, Columns& to) {
  for (int b = 0; b < count; ++b) {
    if (b == 0 || !form.large) {
      from = read_scales(from, to.scales[b]);
      if (form.offsets) from = read_scales(from, to.offsets[b]);
      if (form.factors) from = read_numbers(from, kTogether * form.groups, to.factors);
      if (form.shares) from = read_numbers(from, kTogether * form.groups, to.shares);
    }
    from = read_codes(form, from, to.codes[b][0]);
  }
  return from;
}

// The integer sums of kRows rows, of each block and group. A tile is stored when three more have been begun: it takes
// as long to be ready. Compilers want the numbers of tiles as they stand.
#define LOCKSTEP_NEXT_TILE(tile)                                                             \
  if (i != 0 && i + tile - 4 < count) _tile_stored(tile, sums[i + tile - 4], 4 * kLanes);    \
  if (i + tile < count) {                                                                    \
    _tile_loadd(4, rows[(i + tile) / kGroups].codes + (i + tile) % kGroups * 16, row_bytes); \
    _tile_loadd(5, columns.codes[(i + tile) / kGroups][(i + tile) % kGroups], 4 * kLanes);   \
    _tile_zero(tile);                                                                        \
    _tile_dpbssd(tile, 4, 5);                                                                \
  }
template <int kGroups>
LOCKSTEP_AMX void sum_products(const Q8Activations* rows, std::int64_t row_stride, const Columns& columns, int blocks,
                               Sums* sums) {
  const auto row_bytes = row_stride * static_cast<std::int64_t>(sizeof(Q8Activations));
  const int count = kGroups * blocks;
  for (int i = 0; i < count + 4; i += 4) {
    LOCKSTEP_NEXT_TILE(0)
    LOCKSTEP_NEXT_TILE(1)
    LOCKSTEP_NEXT_TILE(2)
    LOCKSTEP_NEXT_TILE(3)
  }
}
#undef LOCKSTEP_NEXT_TILE

// Partial sums of `row_count` rows; all integers here are floats, too.
template <int kGroups, bool kFactors, bool kOffsets>
LOCKSTEP_AMX void add_sums(const Q8TileArgs& args, const Columns& columns, const Sums* sums, bool first) {
  for (std::int64_t r = 0; r < args.row_count; ++r) {
    const Q8Activations* const row = args.rows + r * args.row_stride;
    __m512 partial = _mm512_setzero_ps();
    for (int b = 0; b < static_cast<int>(args.blocks); ++b) {
      const int scales = kFactors ? 0 : b;
      const __m512 own = _mm512_set1_ps(row[b].scale);
      __m512 number = _mm512_cvtepi32_ps(_mm512_load_si512(sums[kGroups * b][r]));
      if (kFactors) number = _mm512_mul_ps(number, _mm512_load_ps(columns.factors[kGroups * b]));
      if (kGroups == 2) {
        const __m512 second = _mm512_cvtepi32_ps(_mm512_load_si512(sums[kGroups * b + 1][r]));
        number = _mm512_fmadd_ps(second, _mm512_load_ps(columns.factors[kGroups * b + 1]), number);
      }
      partial = _mm512_fmadd_ps(number, _mm512_mul_ps(_mm512_load_ps(columns.scales[scales]), own), partial);
      if (kOffsets) {
        __m512 shared = _mm512_set1_ps(row[b].sums[0]);
        if (kFactors) shared = _mm512_mul_ps(shared, _mm512_load_ps(columns.shares[kGroups * b]));
        if (kGroups == 2) {
          const __m512 share = _mm512_load_ps(columns.shares[kGroups * b + 1]);
          shared = _mm512_fmadd_ps(_mm512_set1_ps(row[b].sums[1]), share, shared);
        }
        partial = _mm512_fmadd_ps(shared, _mm512_mul_ps(_mm512_load_ps(columns.offsets[scales]), own), partial);
      }
    }
    float* const to = args.results + r * args.results_stride;
    _mm512_storeu_ps(to, first ? partial : _mm512_add_ps(_mm512_loadu_ps(to), partial));
  }
}

// kRows rows times 16 columns of up to 256 k.
template <int kGroups, bool kFactors, bool kOffsets>
LOCKSTEP_AMX void multiply_tile(const Q8TileArgs& args, const Columns& columns, bool first) {
  alignas(64) Sums sums[kGroups * kTogether];
  sum_products<kGroups>(args.rows, args.row_stride, columns, static_cast<int>(args.blocks), sums);
  add_sums<kGroups, kFactors, kOffsets>(args, columns, sums, first);
}

using MultiplyTile = void (*)(const Q8TileArgs&, const Columns&, bool);
MultiplyTile tile_of(const Q8PanelForm& form) {
  if (!form.factors) return form.offsets ? &multiply_tile<1, false, true> : &multiply_tile<1, false, false>;
  if (form.groups == 1) return form.offsets ? &multiply_tile<1, true, true> : &multiply_tile<1, true, false>;
  return form.offsets ? &multiply_tile<2, true, true> : &multiply_tile<2, true, false>;
}

// Four tiles of sums, rows, and columns.
constexpr TileSizes tile_sizes(int groups) {
  TileSizes sizes;
  for (int i = 0; i < 6; ++i) {
    sizes.set(i, i == 5 ? order::kQ8Block / 4 / groups : kRows, i == 4 ? order::kQ8Block / groups : 4 * kLanes);
  }
  return sizes;
}
constexpr TileSizes kTileSizes[] = {tile_sizes(1), tile_sizes(2)};

LOCKSTEP_AMX void multiply_unit(const Q8UnitArgs& args) {
  const Q8PanelForm& form = *args.form;
  const MultiplyTile multiply = tile_of(form);
  _tile_loadconfig(&kTileSizes[form.groups - 1]);
  Columns columns[kMostPanels];
  const std::int64_t row_count = args.tile.row_count;
  for (std::int64_t begin = 0; begin < args.panels; begin += kMostPanels) {
    const auto panels = static_cast<int>(std::min<std::int64_t>(kMostPanels, args.panels - begin));
    const std::byte* from[kMostPanels];
    for (int p = 0; p < panels; ++p) from[p] = args.tile.panel + (begin + p) * args.panel_bytes;
    for (std::int64_t b = 0; b < args.tile.blocks; b += kTogether) {
      const auto count = static_cast<int>(std::min<std::int64_t>(kTogether, args.tile.blocks - b));
      for (int p = 0; p < panels; ++p) from[p] = read_columns(form, from[p], count, columns[p]);
      asm volatile("" ::: "memory");  // compilers do not know what tiles read
      Q8TileArgs part = args.tile;
      part.blocks = count;
      for (std::int64_t r = 0; r < row_count; r += kRows) {
        part.rows = args.tile.rows + r * part.row_stride + b;
        part.row_count = std::min<std::int64_t>(kRows, row_count - r);
        for (int p = 0; p < panels; ++p) {
          part.results = args.tile.results + r * part.results_stride + (begin + p) * kLanes;
          multiply(part, columns[p], b == 0);
        }
      }
    }
  }
  _tile_release();
}

}  // namespace

const Q8Loops& q8_amx_loops(Encoding encoding) {
#define ENCODING(name, ...) +1
  constexpr std::size_t kCount = 0
#include <lockstep/encodings.def>
      ;
#undef ENCODING
  static const auto kTable = [] {
    std::array<Q8Loops, kCount> table;
    for (std::size_t i = 0; i < kCount; ++i) {
      table[i] = block_panels(static_cast<Encoding>(i + 1), Isa::avx512);
      table[i].multiply_unit = &multiply_unit;
    }
    return table;
  }();
  return kTable[static_cast<std::size_t>(encoding) - 1];  // rows are in the order of encodings.def
}

}  // namespace contraction
}  // namespace v0
}  // namespace lockstep

#endif

// Copies a block of an operand into panels (panels.h), per instruction set: decoding, flushing subnormals and putting
// the fill where a view has no data. Three ways, chosen by Side::Order:
//   along outer   one panel row (fixed k) at a time; its pieces and, per class of k, their valid lanes are known before
//                 (all are valid, and more is known, where nothing is decoded or bounded)
//   along k       one lane at a time into a staging area (or straight from memory), then transposed
//   by element    views with inserted zeros, and packed blocks (encodings.def)

#if defined(LOCKSTEP_CONTRACTION_PACKING_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCKSTEP_CONTRACTION_PACKING_INL_H_
#undef LOCKSTEP_CONTRACTION_PACKING_INL_H_
#else
#define LOCKSTEP_CONTRACTION_PACKING_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "backends/cpu/contraction/blocks-inl.h"
#include "backends/cpu/contraction/decode.h"
#include "backends/cpu/contraction/tile-inl.h"
#include "kernels/storage.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep {
inline namespace v0 {
namespace contraction {
namespace HWY_NAMESPACE {

inline const std::int64_t* coordinates(const Position& position) {
  return position.coordinates.data();
}

// --- any type, any stride
// ----------------------------------------------------------------------------------------------

template <typename T, typename Source>
void copy_elements(const Source* from, std::int64_t stride, std::int64_t count, bool flush, T* to) {
  if (stride == 1) {
    for (std::int64_t i = 0; i < count; ++i) to[i] = decode<T>(from[i], flush);
  } else {
    for (std::int64_t i = 0; i < count; ++i) to[i] = decode<T>(from[i * stride], flush);
  }
}

// A run of `length` elements of which `span` has data.
template <typename T, typename Source>
void copy_run(const Source* from, std::int64_t stride, Span span, std::int64_t length, bool flush, T fill, T* to) {
  for (std::int64_t i = 0; i < span.first; ++i) to[i] = fill;
  copy_elements(from + span.first * stride, stride, span.last - span.first, flush, to + span.first);
  for (std::int64_t i = span.last; i < length; ++i) to[i] = fill;
}

// The pieces of one panel, and where they have data: spans[class * pieces + piece] as first | last << 8.
inline int prepare_panel(const PackArgs& args, std::int64_t outer, std::int64_t lanes, std::int64_t longest) {
  PackWorkspace& workspace = *args.workspace;
  const Geometry& geometry = args.side->geometry;
  const int pieces = cut_pieces(geometry.outer, geometry.bounds(), outer, lanes, longest, workspace.pieces);
  for (int c = 0; c < workspace.class_count; ++c) {
    for (int p = 0; p < pieces; ++p) {
      const Piece& piece = workspace.pieces[p];
      const Span span = valid_span(geometry, geometry.outer, coordinates(args.batch), coordinates(workspace.classes[c]),
                                   coordinates(piece.position), piece.length);
      workspace.masks[c * pieces + p] = static_cast<std::uint32_t>(span.first | span.last << 8);
    }
  }
  return pieces;
}

// What is neither decoded nor bounded: no spans to ask for, and whole panel rows a constant distance apart (1 or 2: pairs)
// are copied by vectors.
template <typename T, int kWidth> void pack_plain_along_outer(const PackArgs& args) {
  PackWorkspace& workspace = *args.workspace;
  const std::int64_t stride = args.side->geometry.outer.inner_stride();
  const T* data = reinterpret_cast<const T*>(args.data) + args.batch.address;
  T* panel = static_cast<T*>(args.panels);
  for (std::int64_t o = 0; o < args.outer_count; o += kWidth, panel += args.panel_stride) {
    const std::int64_t lanes = std::min<std::int64_t>(kWidth, args.outer_count - o);
    const int pieces = cut_pieces(args.side->geometry.outer, 0, args.outer_begin + o, lanes, kWidth, workspace.pieces);
    const Piece* const first = workspace.pieces;
    const bool is_even = lanes == kWidth && std::all_of(first, first + pieces, [&](const Piece& piece) {
      return piece.position.address == first->position.address + stride * piece.begin;
    });
    for (std::int64_t k = 0; k < args.k_count; ++k) {
      T* row = panel + k * kWidth;
      const T* from = data + workspace.k_address[k];
      if (is_even && stride == 1) {
        std::memcpy(row, from + first->position.address, kWidth * sizeof(T));
        continue;
      }
      if (is_even && stride == 2) {
        for (int lane = 0; lane < kWidth; ++lane) row[lane] = from[first->position.address + 2 * lane];
        continue;
      }
      for (const Piece* piece = first; piece != first + pieces; ++piece) {
        const T* next = from + piece->position.address;
        for (std::int64_t lane = 0; lane < piece->length; ++lane) row[piece->begin + lane] = next[stride * lane];
      }
      for (std::int64_t lane = lanes; lane < kWidth; ++lane) row[lane] = T{};
    }
  }
}

template <typename T, typename Source> void pack_along_outer(const PackArgs& args, int width) {
  PackWorkspace& workspace = *args.workspace;
  const Side& side = *args.side;
  const T fill = decode_fill<T>(side.dtype, side.fill, side.flush);
  const std::int64_t stride = side.geometry.outer.inner_stride();
  const Source* data = reinterpret_cast<const Source*>(args.data) + args.batch.address;
  T* panel = static_cast<T*>(args.panels);
  for (std::int64_t o = 0; o < args.outer_count; o += width, panel += args.panel_stride) {
    const std::int64_t lanes = std::min<std::int64_t>(width, args.outer_count - o);
    const int pieces = prepare_panel(args, args.outer_begin + o, lanes, width);
    for (std::int64_t k = 0; k < args.k_count; ++k) {
      T* row = panel + k * width;
      const Source* from = data + workspace.k_address[k];
      const std::uint32_t* spans = workspace.masks + workspace.k_class[k] * pieces;
      for (int p = 0; p < pieces; ++p) {
        const Piece& piece = workspace.pieces[p];
        const Span span{spans[p] & 0xff, spans[p] >> 8};
        copy_run(from + piece.position.address, stride, span, piece.length, side.flush, fill, row + piece.begin);
      }
      for (std::int64_t lane = lanes; lane < width; ++lane) row[lane] = T{};
    }
  }
}

// --- f32 along outer, contiguous or every second element, zero fill
// -----------------------------------------------------

#if !LOCKSTEP_SCALAR_TILE

template <bool kFlush, class D, class V = hn::Vec<D>> HWY_INLINE V flushed(D d, V value) {
  if constexpr (!kFlush) {
    return value;
  } else {
    const hn::RebindToUnsigned<D> du;
    const auto bits = hn::BitCast(du, value);
    const auto subnormal = hn::Eq(hn::And(bits, hn::Set(du, 0x7f800000u)), hn::Zero(du));
    return hn::BitCast(d, hn::IfThenElse(subnormal, hn::And(bits, hn::Set(du, 0x80000000u)), bits));
  }
}

// The elements whose bits are set, zero elsewhere; memory outside the set is not touched.
template <class D> HWY_INLINE hn::Vec<D> load_lanes(D d, const float* from, const std::uint8_t* bits) {
#if HWY_TARGET == HWY_NEON
  std::uint32_t mask = 0;
  std::memcpy(&mask, bits, 1);
  mask &= (1u << kLanes<float>)-1;
  if (mask == (1u << kLanes<float>)-1) return hn::LoadU(d, from);
  alignas(64) float lanes[kLanes<float>] = {};
  for (int i = 0; i < kLanes<float>; ++i) {
    if ((mask >> i & 1u) != 0) lanes[i] = from[i];
  }
  return hn::Load(d, lanes);
#else
  return hn::MaskedLoad(hn::LoadMaskBits(d, bits), d, from);
#endif
}

#if HWY_TARGET == HWY_NEON
inline constexpr bool kMasksAreBytes = false;  // four lanes: the second half of a mask starts inside a byte
#else
inline constexpr bool kMasksAreBytes = true;
#endif

// A vector of elements kStride apart. `mask` has a bit for every *memory* element of the vector's reach.
template <int kStride, bool kFlush, class D>
HWY_INLINE hn::Vec<D> load_strided(D d, const float* from, const std::uint32_t* mask) {
  const std::uint8_t* bits = reinterpret_cast<const std::uint8_t*>(mask);
  if constexpr (kStride == 1) {
    return flushed<kFlush>(d, load_lanes(d, from, bits));
  } else {
    constexpr int kN = kLanes<float>;
    const auto low = load_lanes(d, from, bits);
    const auto high = load_lanes(d, from + kN, bits + kN / 8);
    return flushed<kFlush>(d, hn::ConcatEven(d, high, low));
  }
}

// Replaces the spans of prepare_panel by masks over memory elements. Returns whether every lane has data.
template <int kStride> bool spans_to_masks(PackWorkspace& workspace, int pieces) {
  bool full = true;
  for (int c = 0; c < workspace.class_count; ++c) {
    for (int p = 0; p < pieces; ++p) {
      std::uint32_t& entry = workspace.masks[c * pieces + p];
      const std::int64_t first = entry & 0xff;
      const std::int64_t last = entry >> 8;
      full = full && first == 0 && last == workspace.pieces[p].length;
      if (first == last) {
        entry = 0;
        continue;
      }
      const std::int64_t reach = (last - first - 1) * kStride + 1;  // at most 31: two loads of 16 lanes
      const std::uint64_t bits = ((std::uint64_t{1} << reach) - 1) << (first * kStride);
      entry = static_cast<std::uint32_t>(bits);
    }
  }
  return full;
}

inline bool contiguous(const Piece* pieces, int count) {
  return std::all_of(pieces, pieces + count, [&](const Piece& piece) {
    return piece.position.address == pieces[0].position.address + piece.begin;
  });
}

template <int kStride, bool kFlush, int kWidth> void pack_f32_along_outer(const PackArgs& args) {
  const Tag<float> d;
  constexpr int kN = kLanes<float>;
  PackWorkspace& workspace = *args.workspace;
  const float* data = reinterpret_cast<const float*>(args.data) + args.batch.address;
  float* panel = static_cast<float*>(args.panels);
  for (std::int64_t o = 0; o < args.outer_count; o += kWidth, panel += args.panel_stride) {
    const std::int64_t lanes = std::min<std::int64_t>(kWidth, args.outer_count - o);
    const int pieces = prepare_panel(args, args.outer_begin + o, lanes, kN);
    const bool full = spans_to_masks<kStride>(workspace, pieces) && lanes == kWidth;
    // Whole panel rows that are contiguous in memory need no masks.
    if (kStride == 1 && kWidth % kN == 0 && full && contiguous(workspace.pieces, pieces)) {
      const float* base = data + workspace.pieces[0].position.address;
      for (std::int64_t k = 0; k < args.k_count; ++k) {
        const float* from = base + workspace.k_address[k];
        for (int i = 0; i < kWidth; i += kN) {
          hn::StoreU(flushed<kFlush>(d, hn::LoadU(d, from + i)), d, panel + k * kWidth + i);
        }
      }
      continue;
    }
    // Vectors are stored whole: what they write past their piece is overwritten by the next piece or row.
    std::int64_t address[kMaxWidth];
    std::int64_t begin[kMaxWidth];
    for (int p = 0; p < pieces; ++p) {
      address[p] = workspace.pieces[p].position.address;
      begin[p] = workspace.pieces[p].begin;
    }
    for (std::int64_t k = 0; k < args.k_count; ++k) {
      float* row = panel + k * kWidth;
      const float* from = data + workspace.k_address[k];
      const std::uint32_t* masks = workspace.masks + workspace.k_class[k] * pieces;
      for (int p = 0; p < pieces; ++p) {
        hn::StoreU(load_strided<kStride, kFlush>(d, from + address[p], masks + p), d, row + begin[p]);
      }
      for (std::int64_t lane = lanes; lane < kWidth; ++lane) row[lane] = 0.0f;
    }
  }
}

// Everything side by side and without bounds: some panels at a time, along memory's rows. Panel by panel, a row's lines
// would be fetched once for each, as rows that lie a power of two apart drive each other out of the caches.
template <bool kFlush, int kWidth> bool pack_f32_side_by_side(const PackArgs& args) {
  const Geometry& geometry = args.side->geometry;
  Walk walk(geometry.outer, 0);
  walk.seek(args.outer_begin);
  if (!kMasksAreBytes || geometry.bounds() != 0 || walk.run() < args.outer_count) return false;
  const Tag<float> d;
  constexpr int kN = kLanes<float>;
  constexpr std::int64_t kTogether = 4 * kWidth;
  const float* const data = reinterpret_cast<const float*>(args.data) + args.batch.address + walk.position().address;
  for (std::int64_t o = 0; o < args.outer_count; o += kTogether) {
    float* const panel = static_cast<float*>(args.panels) + o / kWidth * args.panel_stride;
    const std::int64_t together = std::min(kTogether, args.outer_count - o);
    for (std::int64_t k = 0; k < args.k_count; ++k) {
      const float* from = data + args.workspace->k_address[k] + o;
      float* row = panel + k * kWidth;
      for (std::int64_t left = together; left > 0; left -= kWidth, from += kWidth, row += args.panel_stride) {
        // Vectors are stored whole: what they write past a panel's row is overwritten by its next one.
        for (int i = 0; i < kWidth; i += kN) {
          const auto value = left >= i + kN ? hn::LoadU(d, from + i)
                             : left > i ? hn::MaskedLoad(hn::FirstN(d, static_cast<std::size_t>(left - i)), d, from + i)
                                        : hn::Zero(d);
          hn::StoreU(flushed<kFlush>(d, value), d, row + i);
        }
      }
    }
  }
  return true;
}

template <int kWidth> bool pack_f32_vectors(const PackArgs& args) {
  const Side& side = *args.side;
  const std::int64_t stride = side.geometry.outer.inner_stride();
  if (side.dtype != DType::f32 || (side.fill != 0 && side.geometry.bounds() > 0)) return false;
  if (stride == 1) {
    const bool done =
        side.flush ? pack_f32_side_by_side<true, kWidth>(args) : pack_f32_side_by_side<false, kWidth>(args);
    if (done) return true;
    side.flush ? pack_f32_along_outer<1, true, kWidth>(args) : pack_f32_along_outer<1, false, kWidth>(args);
    return true;
  }
  if (stride == 2 && kMasksAreBytes) {
    side.flush ? pack_f32_along_outer<2, true, kWidth>(args) : pack_f32_along_outer<2, false, kWidth>(args);
    return true;
  }
  return false;
}

// --- transposing
// --------------------------------------------------------------------------------------------------------

// Row pointers p[0], p[4], p[8] ... give the 128-bit blocks of one vector: four consecutive k of every fourth lane.
template <class D> HWY_INLINE hn::Vec<D> load_blocks(D d, const float* const* rows, std::int64_t k) {
  constexpr int kN = static_cast<int>(hn::MaxLanes(D()));
  if constexpr (kN == 4) {
    return hn::LoadU(d, rows[0] + k);
  } else {
    const hn::Half<D> half;
    return hn::Combine(d, load_blocks(half, rows + kN / 2, k), load_blocks(half, rows, k));
  }
}

// Elements k to k + 3 of as many rows as a vector has lanes, as four vectors, each of one element of every row.
template <bool kFlush>
HWY_INLINE void transpose_four(const float* const* rows, std::int64_t k, hn::Vec<Tag<float>> (&out)[4]) {
  const Tag<float> d;
  const hn::Repartition<double, Tag<float>> dd;
  const auto a = flushed<kFlush>(d, load_blocks(d, rows, k));
  const auto b = flushed<kFlush>(d, load_blocks(d, rows + 1, k));
  const auto c = flushed<kFlush>(d, load_blocks(d, rows + 2, k));
  const auto e = flushed<kFlush>(d, load_blocks(d, rows + 3, k));
  const auto ab_low = hn::BitCast(dd, hn::InterleaveLower(d, a, b));
  const auto ab_high = hn::BitCast(dd, hn::InterleaveUpper(d, a, b));
  const auto ce_low = hn::BitCast(dd, hn::InterleaveLower(d, c, e));
  const auto ce_high = hn::BitCast(dd, hn::InterleaveUpper(d, c, e));
  out[0] = hn::BitCast(d, hn::InterleaveLower(dd, ab_low, ce_low));
  out[1] = hn::BitCast(d, hn::InterleaveUpper(dd, ab_low, ce_low));
  out[2] = hn::BitCast(d, hn::InterleaveLower(dd, ab_high, ce_high));
  out[3] = hn::BitCast(d, hn::InterleaveUpper(dd, ab_high, ce_high));
}

#if HWY_TARGET == HWY_AVX3

// Elements k to k + 15 of 16 rows as 16 vectors, each of one element of every row. Whole cache lines are loaded, and their
// blocks exchanged in registers: twice as fast as blocks that are collected from four rows each.
template <bool kFlush>
HWY_INLINE void transpose_lines(const float* const* rows, std::int64_t k, hn::Vec<Tag<float>> (&out)[16]) {
  using V = hn::Vec<Tag<float>>;
  const Tag<float> d;
  const hn::Repartition<double, Tag<float>> dd;
  V blocks[16];  // blocks[4 * i + j]: elements j, 4 + j, 8 + j and 12 + j of rows 4 * i to 4 * i + 3
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
    const V a = flushed<kFlush>(d, hn::LoadU(d, rows[i] + k));
    const V b = flushed<kFlush>(d, hn::LoadU(d, rows[i + 1] + k));
    const V c = flushed<kFlush>(d, hn::LoadU(d, rows[i + 2] + k));
    const V e = flushed<kFlush>(d, hn::LoadU(d, rows[i + 3] + k));
    const auto ab_low = hn::BitCast(dd, hn::InterleaveLower(d, a, b));
    const auto ab_high = hn::BitCast(dd, hn::InterleaveUpper(d, a, b));
    const auto ce_low = hn::BitCast(dd, hn::InterleaveLower(d, c, e));
    const auto ce_high = hn::BitCast(dd, hn::InterleaveUpper(d, c, e));
    blocks[i] = hn::BitCast(d, hn::InterleaveLower(dd, ab_low, ce_low));
    blocks[i + 1] = hn::BitCast(d, hn::InterleaveUpper(dd, ab_low, ce_low));
    blocks[i + 2] = hn::BitCast(d, hn::InterleaveLower(dd, ab_high, ce_high));
    blocks[i + 3] = hn::BitCast(d, hn::InterleaveUpper(dd, ab_high, ce_high));
  }
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    constexpr int kEven = 0x88, kOdd = 0xdd;  // which blocks of each operand
    const __m512 low = _mm512_shuffle_f32x4(blocks[j].raw, blocks[4 + j].raw, kEven);
    const __m512 high = _mm512_shuffle_f32x4(blocks[8 + j].raw, blocks[12 + j].raw, kEven);
    const __m512 low_odd = _mm512_shuffle_f32x4(blocks[j].raw, blocks[4 + j].raw, kOdd);
    const __m512 high_odd = _mm512_shuffle_f32x4(blocks[8 + j].raw, blocks[12 + j].raw, kOdd);
    out[j] = V{_mm512_shuffle_f32x4(low, high, kEven)};
    out[4 + j] = V{_mm512_shuffle_f32x4(low_odd, high_odd, kEven)};
    out[8 + j] = V{_mm512_shuffle_f32x4(low, high, kOdd)};
    out[12 + j] = V{_mm512_shuffle_f32x4(low_odd, high_odd, kOdd)};
  }
}

// They at out, each `width` after the one before.
template <bool kFlush>
HWY_NOINLINE void store_lines(const float* const* rows, std::int64_t k, float* out, std::int64_t width) {
  const Tag<float> d;
  hn::Vec<Tag<float>> lanes[16];
  transpose_lines<kFlush>(rows, k, lanes);
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) hn::StoreU(lanes[i], d, out + i * width);
}

#endif

// Writes out[k * kWidth + lane] for one vector of lanes. A vector may reach past the panel row: ascending k repairs it.
template <bool kFlush, int kWidth> void transpose_lanes(const float* const* rows, std::int64_t k_count, float* out) {
  const Tag<float> d;
  std::int64_t k = 0;
#if HWY_TARGET == HWY_AVX3
  for (; k + 16 <= k_count; k += 16, out += 16 * kWidth) store_lines<kFlush>(rows, k, out, kWidth);
#endif
  for (; k + 4 <= k_count; k += 4, out += 4 * kWidth) {
    hn::Vec<Tag<float>> lanes[4];
    transpose_four<kFlush>(rows, k, lanes);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) hn::StoreU(lanes[i], d, out + i * kWidth);
  }
  for (; k < k_count; ++k, out += kWidth) {
    for (int lane = 0; lane < std::min(kWidth, kLanes<float>); ++lane) out[lane] = decode<float>(rows[lane][k], kFlush);
  }
}

#endif  // !LOCKSTEP_SCALAR_TILE

template <typename T, int kWidth>
void transpose(const T* const* rows, std::int64_t k_count, [[maybe_unused]] bool flush, T* panel) {
#if !LOCKSTEP_SCALAR_TILE
  if constexpr (std::is_same_v<T, float>) {
    constexpr int kN = kLanes<float>;
    static_assert(kWidth <= kN || kWidth % kN == 0, "a store past the panel row would hit the finished next one");
    for (int lane = 0; lane < kWidth; lane += kN) {
      flush ? transpose_lanes<true, kWidth>(rows + lane, k_count, panel + lane)
            : transpose_lanes<false, kWidth>(rows + lane, k_count, panel + lane);
    }
    return;
  }
#endif
  for (std::int64_t k = 0; k < k_count; ++k, panel += kWidth) {
    for (int lane = 0; lane < kWidth; ++lane) panel[lane] = rows[lane][k];
  }
}

template <typename T> using Transpose = void (*)(const T* const* rows, std::int64_t k_count, bool flush, T* panel);

// `lane(place, stage)`: the values of one lane at its place, there or written to `stage`; transposed lane by lane.
template <typename T, typename Lane>
void pack_lanes(const PackArgs& args, int width, Transpose<T> transpose, bool flush, const Lane& lane_at) {
  PackWorkspace& workspace = *args.workspace;
  const Geometry& geometry = args.side->geometry;
  T* stage = reinterpret_cast<T*>(workspace.stage);
  T* panel = static_cast<T*>(args.panels);
  Walk walk(geometry.outer, geometry.bounds());
  walk.seek(args.outer_begin);
  // Room for whole vectors of lanes; those that do not exist read zeros.
  const T* rows[2 * kMaxWidth];
  for (std::int64_t o = 0; o < args.outer_count; o += width, panel += args.panel_stride) {
    const std::int64_t lanes = std::min<std::int64_t>(width, args.outer_count - o);
    for (std::int64_t lane = 0; lane < lanes; ++lane) {
      rows[lane] = lane_at(walk.position(), stage + lane * kStageStride);
      walk.advance(1);
    }
    for (std::int64_t lane = lanes; lane < 2 * kMaxWidth; ++lane) {
      rows[lane] = reinterpret_cast<const T*>(workspace.zeros);
    }
    transpose(rows, args.k_count, flush, panel);
  }
}

template <typename T, typename Source> void pack_along_k(const PackArgs& args, int width, Transpose<T> transpose) {
  PackWorkspace& workspace = *args.workspace;
  const Side& side = *args.side;
  const Geometry& geometry = side.geometry;
  const T fill = decode_fill<T>(side.dtype, side.fill, side.flush);
  const std::int64_t stride = geometry.k.inner_stride();
  const Source* data = reinterpret_cast<const Source*>(args.data) + args.batch.address;
  const int pieces =
      cut_pieces(geometry.k, geometry.bounds(), args.k_begin, args.k_count, args.k_count, workspace.pieces);
  // Lanes that are contiguous as a whole are transposed straight from memory, which also flushes them.
  const bool straight = std::is_same_v<T, float> && std::is_same_v<Source, float> && !LOCKSTEP_SCALAR_TILE &&
                        pieces == 1 && stride == 1 && geometry.bounds() == 0;
  pack_lanes<T>(args, width, transpose, straight && side.flush, [&](const Position& outer, T* stage) -> const T* {
    const Source* from = data + outer.address;
    if (straight) return reinterpret_cast<const T*>(from + workspace.pieces[0].position.address);
    for (int p = 0; p < pieces; ++p) {
      const Piece& piece = workspace.pieces[p];
      const Span span = valid_span(geometry, geometry.k, coordinates(args.batch), coordinates(outer),
                                   coordinates(piece.position), piece.length);
      copy_run(from + piece.position.address, stride, span, piece.length, side.flush, fill, stage + piece.begin);
    }
    return stage;
  });
}

// Packed elements that are neighbours along k.
inline void pack_lines(const PackArgs& args, int width, Transpose<float> transpose) {
  PackWorkspace& workspace = *args.workspace;
  const Geometry& geometry = args.side->geometry;
  const int pieces =
      cut_pieces(geometry.k, geometry.bounds(), args.k_begin, args.k_count, args.k_count, workspace.pieces);
  const Lines lines(args.side->encoding, args.data);
  pack_lanes<float>(args, width, transpose, false, [&](const Position& outer, float* stage) -> const float* {
    for (int p = 0; p < pieces; ++p) {
      const Piece& piece = workspace.pieces[p];
      const std::int64_t first = args.batch.address + outer.address + piece.position.address;
      lines.decode(first, piece.length, stage + piece.begin);
    }
    return stage;
  });
}

// `element(address)`: the decoded value there.
template <typename T, typename Element> void pack_by_element(const PackArgs& args, int width, const Element& element) {
  const Side& side = *args.side;
  const Geometry& geometry = side.geometry;
  const T fill = decode_fill<T>(side.dtype, side.fill, side.flush);
  T* panel = static_cast<T*>(args.panels);
  Walk outer(geometry.outer, geometry.bounds());
  Walk inner(geometry.k, geometry.bounds());
  outer.seek(args.outer_begin);
  for (std::int64_t o = 0; o < args.outer_count; o += width, panel += args.panel_stride) {
    for (std::int64_t lane = 0; lane < width; ++lane) {
      const bool exists = o + lane < args.outer_count;
      inner.seek(args.k_begin);
      for (std::int64_t k = 0; k < args.k_count; ++k) {
        bool inside = exists;
        const std::int64_t address =
            exists ? address_of(geometry, args.batch, outer.position(), inner.position(), inside) : 0;
        panel[k * width + lane] = inside ? element(address) : exists ? fill : T{};
        inner.advance(1);
      }
      if (exists) outer.advance(1);
    }
  }
}

inline void pack_blocks(const PackArgs& args, int width, Transpose<float> transpose) {
  if (args.side->order == Side::Order::along_k) return pack_lines(args, width, transpose);
  pack_by_element<float>(args, width, [&](std::int64_t at) {
    const std::uint64_t word = load_word(args.side->encoding, args.side->dtype, args.data, at);
    return std::bit_cast<float>(static_cast<std::uint32_t>(word));
  });
}

// What is written once for all widths.
template <typename T> void pack_any_width(const PackArgs& args, int width, Transpose<T> transpose) {
  const Side& side = *args.side;
  if constexpr (std::is_same_v<T, float>) {
    if (side.encoding != Encoding::dense) return pack_blocks(args, width, transpose);
  }
  HWY_ASSERT(side.encoding == Encoding::dense);
  const bool known = with_source_type<T>(side.dtype, [&](auto source) {
    using Source = decltype(source);
    switch (side.order) {
      case Side::Order::along_outer: return pack_along_outer<T, Source>(args, width);
      case Side::Order::along_k: return pack_along_k<T, Source>(args, width, transpose);
      case Side::Order::by_element: {
        const Source* data = reinterpret_cast<const Source*>(args.data);
        return pack_by_element<T>(args, width, [&](std::int64_t at) { return decode<T>(data[at], side.flush); });
      }
    }
  });
  HWY_ASSERT(known);
}

template <typename T, int kWidth> void pack(const PackArgs& args) {
  if (args.k_count == 0) return;
  const Side& side = *args.side;
  if (side.encoding == Encoding::dense && side.order == Side::Order::along_outer) {
    prepare_k_block(side.geometry, args.k_begin, args.k_count, *args.workspace);
#if !LOCKSTEP_SCALAR_TILE
    if constexpr (std::is_same_v<T, float>) {
      if (pack_f32_vectors<kWidth>(args)) return;
    }
#endif
    if (side.dtype == dtype_of<T>() && !side.flush && side.geometry.bounds() == 0) {
      return pack_plain_along_outer<T, kWidth>(args);
    }
  }
  pack_any_width<T>(args, kWidth, &transpose<T, kWidth>);
}

}  // namespace HWY_NAMESPACE
}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
HWY_AFTER_NAMESPACE();

#endif  // include guard, per target

// Compiles tile-inl.h, packing-inl.h, thin-inl.h and window-inl.h once per instruction set, and
// prepares what packing walks over.

#define HWY_TARGET_INCLUDE "backends/cpu/contraction/kernels.cpp"
#include "backends/cpu/simd_table.h"

#include <algorithm>
#include <memory>

#include "backends/cpu/contraction/kernels.h"
#include "backends/cpu/contraction/packing-inl.h"
#include "backends/cpu/contraction/thin-inl.h"
#include "backends/cpu/contraction/tile-inl.h"
#include "backends/cpu/contraction/window-inl.h"
#include "core/assert.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep {
inline namespace v0 {
namespace contraction {
namespace HWY_NAMESPACE {

template <typename T> constexpr void (*pack_lanes_of())(const PackArgs&) {
  if constexpr (std::is_same_v<T, float>) {
    return &pack<T, kLanes<T>>;
  } else {
    return nullptr;
  }
}

template <typename T> constexpr KernelSet kernels_of() {
  static_assert(kTileColumns<T> <= kMaxWidth && kTileRows <= kMaxWidth);
  return {.lanes = kLanes<T>,
          .tile_rows = kTileRows,
          .tile_columns = kTileColumns<T>,
          .element_size = sizeof(T),
          .pack_rows = &pack<T, kTileRows>,
          .pack_columns = &pack<T, kTileColumns<T>>,
          .pack_lanes = pack_lanes_of<T>(),
          .multiply = &multiply<T>,
          .thin = std::is_same_v<T, float> ? thin_function() : nullptr,
          .window = std::is_same_v<T, float> ? window_function() : nullptr};
}

const KernelSets& local_kernel_sets() {
  static const KernelSets kSets = {.f32 = kernels_of<float>(),
                                   .f64 = kernels_of<double>(),
                                   .i32 = kernels_of<std::int32_t>(),
                                   .i64 = kernels_of<std::int64_t>()};
  return kSets;
}

}  // namespace HWY_NAMESPACE
}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep {
inline namespace v0 {
namespace contraction {

LOCKSTEP_TABLE_OF_ISA(KernelSets, kernel_sets, local_kernel_sets)

const KernelSet& kernel_set(ComputeType type, Isa isa) {
  const KernelSets& sets = kernel_sets(isa);
  switch (type) {
    case ComputeType::f32: return sets.f32;
    case ComputeType::f64: return sets.f64;
    case ComputeType::i32: return sets.i32;
    case ComputeType::i64: break;
  }
  return sets.i64;
}

int cut_pieces(const Group& group, int bounds, std::int64_t begin, std::int64_t count, std::int64_t longest,
               Piece* pieces) {
  Walk walk(group, bounds);
  walk.seek(begin);
  int used = 0;
  for (std::int64_t at = 0; at < count;) {
    Piece& piece = pieces[used++];
    piece.begin = at;
    piece.length = std::min({walk.run(), count - at, longest});
    piece.position = walk.position();
    walk.advance(piece.length);
    at += piece.length;
  }
  return used;
}

namespace {

bool same_coordinates(const Position& a, const Position& b, int bounds) {
  return std::equal(a.coordinates.begin(), a.coordinates.begin() + bounds, b.coordinates.begin());
}

}  // namespace

void prepare_k_block(const Geometry& geometry, std::int64_t k_begin, std::int64_t k_count, PackWorkspace& workspace) {
  const int bounds = geometry.bounds();
  Walk walk(geometry.k, bounds);
  walk.seek(k_begin);
  constexpr std::uint16_t kUnknown = 0xffff;
  int count = 0;
  int last = -1;
  for (std::int64_t i = 0; i < k_count; ++i, walk.advance(1)) {
    const Position& position = walk.position();
    workspace.k_address[i] = position.address;
    // Classes repeat with a period (the kernel window): guess the one that came next the last time.
    int found = last >= 0 && workspace.next_class[last] != kUnknown ? workspace.next_class[last] : 0;
    if (found >= count || !same_coordinates(workspace.classes[found], position, bounds)) {
      found = 0;
      while (found < count && !same_coordinates(workspace.classes[found], position, bounds)) ++found;
      if (found == count) {
        workspace.classes[count] = position;
        workspace.next_class[count++] = kUnknown;
      }
    }
    if (last >= 0) workspace.next_class[last] = static_cast<std::uint16_t>(found);
    workspace.k_class[i] = static_cast<std::uint16_t>(found);
    last = found;
  }
  workspace.class_count = count;
}

bool classify_k(const Geometry& geometry, std::int64_t k_count, std::vector<std::int64_t>& k_address,
                std::vector<std::uint16_t>& k_class, std::vector<Position>& classes) {
  constexpr std::size_t kMaxClasses = 1024;
  const auto workspace = std::make_unique<PackWorkspace>();
  for (std::int64_t k = 0; k < k_count; k += kBlock) {
    const std::int64_t count = std::min(kBlock, k_count - k);
    prepare_k_block(geometry, k, count, *workspace);
    std::vector<std::uint16_t> renamed;
    for (int c = 0; c < workspace->class_count; ++c) {
      const Position& position = workspace->classes[c];
      const auto found = std::find_if(classes.begin(), classes.end(), [&](const Position& other) {
        return same_coordinates(other, position, geometry.bounds());
      });
      renamed.push_back(static_cast<std::uint16_t>(found - classes.begin()));
      if (found == classes.end()) classes.push_back(position);
    }
    if (classes.size() > kMaxClasses) return false;
    for (std::int64_t i = 0; i < count; ++i) {
      k_address.push_back(workspace->k_address[i]);
      k_class.push_back(renamed[workspace->k_class[i]]);
    }
  }
  return true;
}

}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
#endif  // HWY_ONCE

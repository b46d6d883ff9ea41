// Convolutions whose columns are read straight from the view by the register tile (window-inl.h): every element of the
// input is loaded for each kernel position that uses it, which costs less than copying it there (packing-inl.h) as long
// as the loads hide behind the multiply-adds. Padding taps are lanes that the masks leave zero.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "backends/cpu/contraction/plan.h"

namespace lockstep {
inline namespace v0 {
namespace contraction {

inline constexpr int kMaxWindowLoads = 3;

/// The columns of one plane (one image) cut into whole vectors. A vector that goes over the end of a line of the image
/// takes one masked load for each line that it touches. The same for every plane and batch.
struct WindowTable {
  std::int64_t planes = 1;
  std::int64_t vectors = 0;                 ///< of one plane
  int loads = 1;                            ///< per vector
  std::vector<std::int64_t> plane_address;  ///< added to the batch's address
  std::vector<std::int64_t> k_address;
  std::vector<std::uint32_t> k_masks;  ///< where in `masks` a k's masks begin
  std::vector<std::int64_t> address;   ///< [vector][load]: of the vector's first lane
  std::vector<std::uint16_t> masks;    ///< [class of k][vector][load]: lanes with data
};

struct WindowArgs {
  const WindowTable* table = nullptr;
  const float* data = nullptr;  ///< at the plane's address
  bool flush = false;
  std::int64_t vector_begin = 0;
  std::int64_t vector_end = 0;
  const float* row_panels = nullptr;  ///< of this block of k
  std::int64_t row_panel_stride = 0;
  std::int64_t rows = 0;
  std::int64_t k_begin = 0;  ///< one block of k
  std::int64_t k_end = 0;
  float* results = nullptr;  ///< whole tiles: rows are rounded up to tile_rows
  std::int64_t results_stride = 0;
};

using WindowFunction = void (*)(const WindowArgs&);

/// Whether f32 contractions of `columns`, planes of so many, suit this way; decides the roles in make_plan.
bool suits_windows(const Side& columns, std::int64_t rows, std::int64_t plane, std::int64_t k, std::int64_t lanes);
/// Nothing where suits_windows does not hold or the view is of another form.
std::optional<WindowTable> make_window_table(const Plan& plan, std::int64_t lanes);

/// How the planes of a kernel are cut into units of work.
struct WindowTiling {
  std::int64_t vectors = 0;  ///< of a plane, per unit
  std::int64_t rows = 0;     ///< per unit; multiple of tile_rows
  std::int64_t segments = 1;
  std::int64_t row_groups = 1;
};
WindowTiling choose_window_tiling(const Plan& plan, const WindowTable& table, std::int64_t tile_rows, int threads);

}  // namespace contraction
}  // namespace v0
}  // namespace lockstep

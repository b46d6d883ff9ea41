// Contractions of many rows, few columns and a long k whose rows are read where they are (in_place-inl.h): gradients of
// convolution weights, above all. There a row is a channel under one tap of the kernel, nine rows share their memory,
// and each element meets only a few columns, so packing rows would cost more than multiplying them. What padding adds
// is written into a padded copy of a few images at a time; the other operand is packed as always.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "backends/cpu/contraction/padded_copy.h"
#include "backends/cpu/contraction/panels.h"
#include "backends/cpu/contraction/side.h"
#include "backends/cpu/isa.h"

namespace lockstep {
inline namespace v0 {
namespace contraction {

/// Rows and k as sums of addresses without limits: in the operand itself, or in a padded copy.
struct InPlaceTable {
  std::optional<PaddedCopy> copy;  ///< without it the operand is read where it is

  // The copy's planes: [block of k's own dims][rows' own dims][axes].
  std::vector<std::int64_t> row_planes;  ///< source address of each
  std::vector<std::int64_t> k_planes;
  std::int64_t k_per_plane = 0;           ///< consecutive k that share a plane; without a copy: all
  std::vector<std::int64_t> row_address;  ///< of each row
  std::vector<std::int64_t> run_address;  ///< of each run of k within a plane
  std::int64_t run = 0;                   ///< length of a run
  std::int64_t run_stride = 1;            ///< of neighbouring k in it
};

/// Consecutive k at equal distances.
struct InPlaceRun {
  std::int64_t address = 0;
  std::int64_t length = 0;
};

struct InPlaceArgs {
  const float* data = nullptr;
  const std::int64_t* row_address = nullptr;
  std::int64_t rows = 0;
  const InPlaceRun* runs = nullptr;  ///< one block of k
  std::int64_t run_count = 0;
  std::int64_t run_stride = 1;
  const float* columns = nullptr;  ///< panels of one vector, in_place_panel_stride() from one to the next
  int vectors = 1;                 ///< at most kMaxInPlaceVectors
  float* results = nullptr;        ///< rows of whole vectors
  std::int64_t results_stride = 0;
  bool first = true;  ///< store the partial sums; otherwise add them to what is there
};

inline constexpr int kMaxInPlaceVectors = 3;
/// Elements from one panel of a block of k to the next.
constexpr std::int64_t in_place_panel_stride(std::int64_t lanes) {
  return lanes * kBlock + kPanelSlack / static_cast<std::int64_t>(sizeof(float));
}

using InPlaceFunction = void (*)(const InPlaceArgs&);
/// For f32; null on instruction sets without vectors.
InPlaceFunction in_place_function(Isa isa);

/// Whether f32 contractions of `rows`, with so many rows, columns and k, suit this way; decides the roles in make_plan.
bool suits_in_place(const Side& rows, const Side& columns, std::int64_t row_count, std::int64_t column_count,
                    std::int64_t k);
/// Nothing where suits_in_place does not hold or the view is of another form.
std::optional<InPlaceTable> make_in_place_table(const Side& rows, const Side& columns, std::int64_t row_count,
                                                std::int64_t column_count, std::int64_t k);

/// Elements of a padded copy for the given blocks of k's own dims.
std::int64_t padded_size(const InPlaceTable& table, std::int64_t k_planes);
/// Writes it. `data` is at the batch's address, `batch` has its coordinates.
void copy_padded(const InPlaceTable& table, const Position& batch, const float* data, std::int64_t k_plane_begin,
                 std::int64_t k_plane_end, CopyFunction copy_lines, float* to);
/// The runs of [k_begin, k_begin + count), with addresses from plane `first_plane` on. Returns how many.
std::int64_t cut_runs(const InPlaceTable& table, std::int64_t k_begin, std::int64_t count, std::int64_t first_plane,
                      InPlaceRun* runs);

}  // namespace contraction
}  // namespace v0
}  // namespace lockstep

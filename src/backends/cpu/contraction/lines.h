// Convolutions of few channels whose pixels are the columns: vectors of neighbouring pixels are read from the image
// where it is, or from a padded copy in which those that a stride takes apart are neighbours (images.h), and multiplied
// by broadcast weights (lines-inl.h). Packing would copy every pixel once for each tap of the kernel, which a handful
// of channels do not pay back.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "backends/cpu/contraction/images.h"

namespace lockstep {
inline namespace v0 {
namespace contraction {

struct Plan;

/// Neighbouring pixels of one line, at most as many as a vector has lanes.
struct LineVector {
  std::int64_t address = 0;  ///< of the first, in an image
  std::int64_t column = 0;   ///< its result
  std::int64_t count = 0;
};

struct LineTable {
  Images images;
  std::vector<LineVector> vectors;  ///< of one image, by column
};

struct LineArgs {
  const float* data = nullptr;              ///< the image
  const std::int64_t* k_address = nullptr;  ///< one block of k
  std::int64_t k_count = 0;
  const float* row_panels = nullptr;
  std::int64_t row_panel_stride = 0;
  std::int64_t rows = 0;  ///< more than kThinRows
  const LineVector* vectors = nullptr;
  std::int64_t vector_count = 0;
  bool may_read_on = false;  ///< behind the last element of a line there are others, which may be read
  float* results = nullptr;  ///< of the first vector's first column; with room for a vector more
  std::int64_t results_stride = 0;
  bool first = true;  ///< store the partial sums; otherwise add them to what is there
};

using LineFunction = void (*)(const LineArgs&);

/// Whether f32 contractions of `pixels` suit this way as its columns; decides the roles in make_plan. Channels that
/// fill the columns of whole tiles (`tile_columns`) take fewer instructions there, in the packed and the direct way.
bool suits_lines(const Side& pixels, std::int64_t channels, std::int64_t pixels_per_image, std::int64_t k,
                 std::int64_t lanes, std::int64_t tile_columns);
/// Nothing where suits_lines does not hold or the view is of another form.
std::optional<LineTable> make_line_table(const Plan& plan, std::int64_t lanes, std::int64_t tile_columns);

/// Vectors of an image that are a unit of work, of `images` at once.
std::int64_t choose_line_segment(const LineTable& table, std::int64_t rows, std::int64_t lanes, std::int64_t images,
                                 std::int64_t threads);

}  // namespace contraction
}  // namespace v0
}  // namespace lockstep

// Convolutions whose pixels are read where they are, or from a padded copy, and are broadcast against packed weights
// (direct-inl.h). Packing would copy every pixel once for each tap of the kernel; here it is read through two tables of
// addresses, one of pixels and one of terms.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "backends/cpu/contraction/images.h"
#include "backends/cpu/contraction/side.h"

namespace lockstep {
inline namespace v0 {
namespace contraction {

struct Plan;

/// Rows are pixels, k their channels and taps.
struct DirectTable {
  Images images;
  std::vector<std::int64_t> row_address;  ///< of the rows of one image
};

struct DirectArgs {
  const float* data = nullptr;
  const std::int64_t* row_address = nullptr;
  std::int64_t rows = 0;
  const std::int64_t* k_address = nullptr;  ///< one block of k
  std::int64_t k_count = 0;
  const float* column_panels = nullptr;
  std::int64_t column_panel_stride = 0;
  std::int64_t columns = 0;
  float* results = nullptr;  ///< room for whole panels
  std::int64_t results_stride = 0;
  bool first = true;  ///< store the partial sums; otherwise add them to what is there
};

using DirectFunction = void (*)(const DirectArgs&);

/// Whether f32 contractions of `pixels` suit this way as its rows; decides the roles in make_plan. `channels`: results
/// per pixel.
bool suits_direct(const Side& pixels, std::int64_t channels, std::int64_t rows_per_image, std::int64_t k,
                  std::int64_t lanes);
/// Nothing where suits_direct does not hold or the view is of another form.
std::optional<DirectTable> make_direct_table(const Plan& plan, std::int64_t lanes);

/// How the results of some images are cut into units of work.
struct DirectTiling {
  std::int64_t rows = 0;     ///< per unit; multiple of tile_rows
  std::int64_t columns = 0;  ///< per unit; multiple of tile_columns
  std::int64_t row_blocks = 1;
  std::int64_t column_blocks = 1;
};
DirectTiling choose_direct_tiling(const Plan& plan, std::int64_t images, std::int64_t tile_rows,
                                  std::int64_t tile_columns, std::int64_t threads);

}  // namespace contraction
}  // namespace v0
}  // namespace lockstep

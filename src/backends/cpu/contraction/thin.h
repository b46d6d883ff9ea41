// Contractions of few rows whose columns are read straight from the view, or from a padded copy of it (thin-inl.h): when,
// and the table of where their data lies.
#pragma once

#include <cstdint>
#include <optional>

#include "backends/cpu/contraction/plan.h"
#include "backends/cpu/contraction/thin_args.h"

namespace lockstep {
inline namespace v0 {
namespace contraction {

/// Nothing where the packed way is better or the only one. The rows fit one panel of `tile_rows`.
std::optional<ThinTable> make_thin_table(const Plan& plan, std::int64_t lanes, std::int64_t tile_rows);

}  // namespace contraction
}  // namespace v0
}  // namespace lockstep

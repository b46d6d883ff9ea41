// The part of a projection that one rank computes (lockstep/models/columns.h).
#pragma once

#include <cstdint>
#include <vector>

#include <lockstep/dist.h>

namespace lockstep {
inline namespace v0 {
namespace models {

struct ColumnPart {
  dist::Group group;
  std::vector<std::int64_t> cuts;  ///< rank r has columns cuts[r] ... cuts[r + 1] - 1
  Tensor weight;                   ///< [own, in]

  std::int64_t first() const { return cuts[static_cast<std::size_t>(group.rank())]; }
  std::int64_t count() const { return cuts[static_cast<std::size_t>(group.rank()) + 1] - first(); }
  /// Of all ranks, from this one's [..., own].
  Tensor all_columns(const Tensor& own) const;
};

}  // namespace models
}  // namespace v0
}  // namespace lockstep

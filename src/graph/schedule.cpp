#include "graph/schedule.h"

#include "graph/fusion.h"
#include "graph/lower.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

std::vector<Step> schedule(const std::vector<Entry>& entries) {
  const Fusion fusion = fuse(entries);
  std::vector<Step> steps;
  for (std::size_t g = 0; g < fusion.groups.size(); ++g) {
    if (!fusion.groups[g].members.empty()) steps.push_back(lower(entries, fusion, static_cast<int>(g)));
  }
  return steps;
}

}  // namespace graph
}  // namespace v0
}  // namespace lockstep

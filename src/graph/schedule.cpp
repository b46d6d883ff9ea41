#include "graph/schedule.h"

#include "graph/fusion.h"
#include "graph/lower.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

std::vector<Step> schedule(const std::vector<Entry>& entries) {
  const Fusion fusion = fuse(entries);
  std::vector<Step> steps;
  for (int g = 0; g < static_cast<int>(fusion.groups.size()); ++g) steps.push_back(lower(entries, fusion, g));
  return steps;
}

}  // namespace graph
}  // namespace v0
}  // namespace lockstep

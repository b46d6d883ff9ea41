// Plans that were made before, by the structure of their window: a training step or a decoded token is scheduled
// once. The key holds everything that schedule() looks at, and nothing else (scalars and buffers are bound per run).
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <unordered_map>
#include <vector>

#include "graph/schedule.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

/// Kernels made ready for a device, and when each intermediate value is no longer needed.
struct Plan {
  struct Prepared {
    Step step;
    std::unique_ptr<Executable> executable;
    std::vector<int> released;       ///< entries that no later step reads, given ones among them
    bool may_replace = false;        ///< no later step reads what step.replaces
    std::size_t bytes = 0;           ///< that the kernel moves
    std::size_t bytes_in_place = 0;  ///< where it replaces
  };
  std::vector<Prepared> steps;
  std::size_t checks = 0;  ///< fault words of all steps
};

using PlanKey = std::vector<std::uint64_t>;

/// At most `capacity` plans; the least recently used one is dropped.
class PlanCache {
 public:
  explicit PlanCache(std::size_t capacity) : capacity_(capacity) {}
  std::shared_ptr<const Plan> find(const PlanKey& key);
  void insert(PlanKey key, std::shared_ptr<const Plan> plan);

 private:
  struct Hash {
    std::size_t operator()(const PlanKey& key) const;
  };
  struct Slot {
    std::shared_ptr<const Plan> plan;
    std::list<const PlanKey*>::iterator use;
  };
  std::size_t capacity_;
  std::unordered_map<PlanKey, Slot, Hash> plans_;
  std::list<const PlanKey*> uses_;  ///< most recent first; keys live in plans_
};

}  // namespace graph
}  // namespace v0
}  // namespace lockstep

// Plans that were made before, by the structure of their window (graph/plan_key.h): a training step or a decoded token
// is scheduled once.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <unordered_map>
#include <vector>

#include "graph/plan.h"
#include "graph/plan_key.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

/// At most `capacity` plans; the least recently used one is dropped.
class PlanCache {
 public:
  explicit PlanCache(std::size_t capacity) : capacity_(capacity) {}
  /// The plan of a window with this structure, which is made if it is not known.
  std::shared_ptr<const Plan> plan_for(Backend& backend, const Window& window);
  /// Figures for tests, read at any time.
  std::uint64_t made() const { return made_.load(std::memory_order_relaxed); }
  std::uint64_t reused() const { return reused_.load(std::memory_order_relaxed); }

 private:
  std::shared_ptr<const Plan> find(const PlanKey& key);
  void insert(PlanKey key, std::shared_ptr<const Plan> plan);

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
  std::atomic<std::uint64_t> made_{0};
  std::atomic<std::uint64_t> reused_{0};
};

}  // namespace graph
}  // namespace v0
}  // namespace lockstep

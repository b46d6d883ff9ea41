#include "graph/plan_cache.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

std::size_t PlanCache::Hash::operator()(const PlanKey& key) const {
  std::uint64_t hash = key.size();
  for (const std::uint64_t word : key) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29;
  }
  return hash;
}

std::shared_ptr<const Plan> PlanCache::plan_for(Backend& backend, const Window& window) {
  PlanKey key = key_of(window);
  if (std::shared_ptr<const Plan> known = find(key)) {
    reused_.fetch_add(1, std::memory_order_relaxed);
    return known;
  }
  std::shared_ptr<const Plan> plan = make_plan(backend, window);
  made_.fetch_add(1, std::memory_order_relaxed);
  insert(std::move(key), plan);
  return plan;
}

std::shared_ptr<const Plan> PlanCache::find(const PlanKey& key) {
  const auto found = plans_.find(key);
  if (found == plans_.end()) return nullptr;
  uses_.splice(uses_.begin(), uses_, found->second.use);
  return found->second.plan;
}

void PlanCache::insert(PlanKey key, std::shared_ptr<const Plan> plan) {
  const auto [slot, fresh] = plans_.try_emplace(std::move(key));
  if (fresh) slot->second.use = uses_.insert(uses_.begin(), &slot->first);
  slot->second.plan = std::move(plan);
  if (plans_.size() > capacity_) {
    const PlanKey* oldest = uses_.back();
    uses_.pop_back();
    plans_.erase(plans_.find(*oldest));
  }
}

}  // namespace graph
}  // namespace v0
}  // namespace lockstep

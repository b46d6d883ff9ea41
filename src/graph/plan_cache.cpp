#include "graph/plan_cache.h"

namespace lockstep {
inline namespace v0 {
namespace graph {
namespace {

class KeyWriter {
 public:
  explicit KeyWriter(PlanKey& key) : key_(key) {}

  void operator()(std::uint64_t word) { key_.push_back(word); }
  void operator()(std::int64_t word) { key_.push_back(static_cast<std::uint64_t>(word)); }
  void operator()(int word) { key_.push_back(static_cast<std::uint64_t>(word)); }

  void operator()(const Shape& shape) {
    (*this)(shape.rank());
    for (const std::int64_t size : shape) (*this)(size);
  }

  void operator()(const View& view) {
    (*this)(view.shape);
    (*this)(view.strides);
    (*this)(view.offset);
    (*this)(view.bounds.size());
    if (view.bounds.empty()) return;
    (*this)(view.fill);
    for (const Bound& bound : view.bounds) {
      (*this)(bound.offset);
      (*this)(bound.m);
      (*this)(bound.lo);
      (*this)(bound.hi);
      (*this)(bound.step);
      (*this)(bound.stride);
    }
  }

  void operator()(const Primitive& op) {
    (*this)(static_cast<int>(op.index()));
    if (const auto* elementwise = std::get_if<Elementwise>(&op)) {
      (*this)(static_cast<int>(elementwise->op));
    } else if (const auto* reduce = std::get_if<Reduce>(&op)) {
      (*this)(static_cast<int>(reduce->op));
      (*this)(std::uint64_t{reduce->dims});
    } else if (const auto* random = std::get_if<Random>(&op)) {
      (*this)(static_cast<int>(random->word));
    } else if (const auto* contract = std::get_if<Contract>(&op)) {
      (*this)(contract->b);
      (*this)(contract->m);
      (*this)(contract->n);
      (*this)(contract->k);
    } else if (const auto* gather = std::get_if<Gather>(&op)) {
      (*this)(gather->stride);
      (*this)(gather->size);
    } else if (const auto* scatter = std::get_if<Scatter>(&op)) {
      (*this)(static_cast<int>(scatter->op) << 8 | scatter->dim << 1 | int{scatter->include_self});
    } else if (const auto* scan = std::get_if<Scan>(&op)) {
      (*this)(static_cast<int>(scan->op) << 8 | scan->dim);
    } else if (const auto* sort = std::get_if<Sort>(&op)) {
      (*this)(sort->dim << 1 | int{sort->descending});
    } else if (const auto* update = std::get_if<Update>(&op)) {
      (*this)(update->region);
    }
  }

 private:
  PlanKey& key_;
};

}  // namespace

PlanKey key_of(const std::vector<Entry>& entries) {
  PlanKey key;
  key.reserve(entries.size() * 32);
  KeyWriter write(key);
  for (const Entry& entry : entries) {
    write(int{entry.given} | int{entry.wanted} << 1 | int{entry.canonical} << 2 | static_cast<int>(entry.dtype) << 3);
    write(entry.shape);
    if (entry.given) continue;  // how it was computed no longer matters
    write(*entry.op);
    write(entry.operands.size());
    for (const Entry::Operand& operand : entry.operands) {
      write(operand.entry);
      if (operand.entry >= 0) write(operand.view);
    }
  }
  return key;
}

std::size_t PlanCache::Hash::operator()(const PlanKey& key) const {
  std::uint64_t hash = key.size();
  for (const std::uint64_t word : key) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29;
  }
  return hash;
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

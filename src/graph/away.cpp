#include "graph/away.h"

#include <map>
#include <mutex>
#include <utility>

#include <lockstep/check.h>

#include "core/assert.h"

namespace lockstep {
inline namespace v0 {
namespace graph {
namespace {

// Never destroyed: threads may compute while static objects go.
struct Keepers {
  std::mutex mutex;
  std::map<const Node*, std::pair<std::weak_ptr<const Node>, std::weak_ptr<Keeper>>> by_node;
};
Keepers& keepers() {
  static Keepers* const instance = new Keepers;
  return *instance;
}

std::shared_ptr<Keeper> keeper_of(const Node* node) {
  Keepers& all = keepers();
  const std::lock_guard lock(all.mutex);
  const auto found = all.by_node.find(node);
  return found == all.by_node.end() ? nullptr : found->second.second.lock();
}

}  // namespace

Keeper::~Keeper() = default;

void keep_away(const NodeRef& node, const std::shared_ptr<Keeper>& keeper) {
  any_away.store(true, std::memory_order_release);
  Keepers& all = keepers();
  const std::lock_guard lock(all.mutex);
  std::erase_if(all.by_node, [](const auto& entry) { return entry.second.first.expired(); });
  all.by_node[node.get()] = {node, keeper};
}

void give_memory(Node& node, BufferRef buffer) {
  LOCKSTEP_ASSERT(is_away(node));
  node.buffer = std::move(buffer);
  node.canonical.store(-1, std::memory_order_relaxed);  // of other elements
  node.ready.store(true, std::memory_order_release);
}

void take_memory(Node& node) {
  node.ready.store(false, std::memory_order_release);
  node.buffer = nullptr;
  node.aligned = nullptr;
}

void bring(const std::vector<const Node*>& nodes) {
  for (const Node* node : nodes) {
    if (!is_away(*node)) continue;
    const std::shared_ptr<Keeper> keeper = keeper_of(node);
    if (keeper != nullptr) keeper->bring(nodes);
    check<ValueError>(!is_away(*node), "the value lies with other processes, and nothing brings it here", {},
                      "after training under ZeRO 3: call Parallel::make_whole() before the Parallel goes");
  }
}

}  // namespace graph
}  // namespace v0
}  // namespace lockstep

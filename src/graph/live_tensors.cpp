#include "graph/live_tensors.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "backends/backend.h"

namespace lockstep {
inline namespace v0 {
namespace graph {
namespace {

constexpr std::size_t kListed = 8;
// Smaller values fill no memory, and there are many of them.
constexpr std::size_t kLeastBytes = std::size_t{64} << 10;

/// Weak references that are looked through when they have doubled, so that dead ones do not pile up.
template <typename Weak> class WeakList {
 public:
  using Item = decltype(std::declval<const Weak&>().lock());

  void add(Weak item) {
    if (items_.size() >= limit_) {
      std::erase_if(items_, [](const Weak& weak) { return weak.expired(); });
      limit_ = std::max<std::size_t>(1024, 2 * items_.size());
    }
    items_.push_back(std::move(item));
  }
  std::vector<Item> alive() const {
    std::vector<Item> result;
    for (const Weak& weak : items_) {
      if (Item item = weak.lock()) result.push_back(std::move(item));
    }
    return result;
  }

 private:
  std::vector<Weak> items_;
  std::size_t limit_ = 1024;
};

// Of a value, not of a handle: an optimiser's step binds parameters to new values before the kernels of the forward
// pass, which read the old ones, have run.
struct WeakElements {
  std::weak_ptr<Node> base;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::string name;

  bool expired() const { return base.expired(); }
  std::optional<NamedElements> lock() const {
    NodeRef node = base.lock();
    if (node == nullptr) return std::nullopt;
    return NamedElements{std::move(node), begin, end, name};
  }
};

/// By the value that owns them and where they begin in it. A parameter is given its name again whenever it is read:
/// each name is kept once, the last given one behind.
class ElementNames {
 public:
  void add(const NodeRef& base, std::int64_t begin, std::int64_t end, const std::string& name) {
    if (size_ >= limit_) sweep();
    std::vector<WeakElements>& names = names_[{base.get(), begin}];
    const auto same = [&](const WeakElements& before) { return before.end == end && before.name == name; };
    if (!names.empty() && !names.back().expired() && same(names.back())) return;  // nearly always
    size_ -= std::erase_if(names, [&](const WeakElements& before) { return before.expired() || same(before); });
    names.push_back({base, begin, end, name});
    ++size_;
  }
  std::vector<std::optional<NamedElements>> alive() const {
    std::vector<std::optional<NamedElements>> result;
    for (const auto& [place, names] : names_) {
      for (const WeakElements& elements : names) {
        if (std::optional<NamedElements> item = elements.lock()) result.push_back(std::move(item));
      }
    }
    return result;
  }

 private:
  void sweep() {
    size_ = 0;
    for (auto at = names_.begin(); at != names_.end();) {
      std::erase_if(at->second, [](const WeakElements& elements) { return elements.expired(); });
      size_ += at->second.size();
      at = at->second.empty() ? names_.erase(at) : std::next(at);
    }
    limit_ = std::max<std::size_t>(1024, 2 * size_);
  }

  std::map<std::pair<const Node*, std::int64_t>, std::vector<WeakElements>> names_;
  std::size_t size_ = 0;
  std::size_t limit_ = 1024;
};

struct Registry {
  std::mutex mutex;
  std::map<Device, WeakList<std::weak_ptr<Node>>> stored;
  WeakList<std::weak_ptr<Handle>> named;
  ElementNames elements;
};

// Never destroyed: tensors with static storage may outlive any static object here.
Registry& registry() {
  static Registry* const instance = new Registry;
  return *instance;
}

std::string size_text(std::size_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (bytes < 10'000) return fmt::format("{} B", bytes);
  if (bytes < 10'000'000) return fmt::format("{:.1f} KB", value / 1e3);
  return bytes < 10'000'000'000 ? fmt::format("{:.1f} MB", value / 1e6) : fmt::format("{:.1f} GB", value / 1e9);
}

}  // namespace

void remember_stored(std::span<const NodeRef> nodes) {
  if (std::all_of(nodes.begin(), nodes.end(), [](const NodeRef& node) { return node->bytes() < kLeastBytes; })) return;
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  for (const NodeRef& node : nodes) {
    if (node->bytes() >= kLeastBytes) all.stored[node->device].add(node);
  }
}

void remember_name(const std::shared_ptr<Handle>& handle) {
  if (handle->name.empty()) return;
  const NodeRef& node = handle->node;
  const auto* const view = std::get_if<ViewOf>(&node->op);
  const std::int64_t begin = view == nullptr ? 0 : view->view.offset;
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  all.named.add(handle);
  all.elements.add(view == nullptr ? node : node->inputs[0], begin, begin + node->shape.numel(), handle->name);
}

std::vector<NamedElements> named_elements() {
  std::vector<std::optional<NamedElements>> alive;
  {
    Registry& all = registry();
    const std::lock_guard lock(all.mutex);
    alive = all.elements.alive();
  }
  std::vector<NamedElements> result;
  result.reserve(alive.size());
  for (std::optional<NamedElements>& elements : alive) result.push_back(std::move(*elements));
  return result;
}

std::string largest_tensors(Device device) {
  // Given up after the lock: the last reference to a value may run a user's deleter.
  std::vector<std::shared_ptr<Node>> nodes;
  std::vector<std::shared_ptr<Handle>> handles;
  {
    Registry& all = registry();
    const std::lock_guard lock(all.mutex);
    nodes = all.stored[device].alive();
    handles = all.named.alive();
  }
  std::unordered_map<const Node*, std::vector<std::string>> names;
  for (const std::shared_ptr<Handle>& handle : handles) {
    std::vector<std::string>& list = names[reading_of(handle->node).base.get()];
    if (std::find(list.begin(), list.end(), handle->name) == list.end()) list.push_back(handle->name);
  }
  std::stable_sort(nodes.begin(), nodes.end(), [](const auto& a, const auto& b) { return a->bytes() > b->bytes(); });
  std::string text;
  for (std::size_t i = 0; i < nodes.size() && i < kListed; ++i) {
    const Node& node = *nodes[i];
    const std::vector<std::string>& given = names[&node];
    std::string name = given.empty()       ? fmt::format("{} at {}:{}", node.name, node.where.file, node.where.line)
                       : given.size() == 1 ? given[0]
                                           : fmt::format("{} and {} more", given[0], given.size() - 1);
    text += fmt::format("\n    {:>9}  {} {}  {}", size_text(node.bytes()), type_text(node.dtype, node.encoding),
                        node.shape.to_string(), name);
  }
  return text.empty() ? "" : fmt::format("\n  the largest tensors on {}:{}", device.to_string(), text);
}

BufferRef allocate_tensor(Device device, std::size_t bytes) {
  BufferRef buffer;
  with_largest_tensors(device, [&] { buffer = backend_of(device).allocate(bytes); });
  return buffer;
}

void with_largest_tensors(Device device, const std::function<void()>& action) {
  try {
    action();
  } catch (const OutOfMemoryError& error) {
    throw OutOfMemoryError(error.what() + largest_tensors(device));
  }
}

}  // namespace graph
}  // namespace v0
}  // namespace lockstep

#include "graph/kernel_watch.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace lockstep {
inline namespace v0 {
namespace graph {
namespace {

// Never destroyed: threads may compute while static objects go.
struct Watches {
  std::atomic<bool> any{false};
  std::mutex mutex;
  std::vector<std::shared_ptr<KernelWatch>> list;
};
Watches& all_watches() {
  static Watches* const instance = new Watches;
  return *instance;
}

thread_local bool is_unwatched = false;

std::string listed(const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 8;
  const std::span<const std::string> first(names.data(), std::min(names.size(), kMost));
  return fmt::format("{}{}", fmt::join(first, " + "), names.size() > kMost ? " + ..." : "");
}

void add_once(std::vector<std::string>& names, std::string name) {
  if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(std::move(name));
}

}  // namespace

void add_watch(std::shared_ptr<KernelWatch> watch, bool first) {
  Watches& all = all_watches();
  const std::lock_guard lock(all.mutex);
  all.list.insert(first ? all.list.begin() : all.list.end(), std::move(watch));
  all.any = true;
}

void remove_watch(const KernelWatch* watch) {
  Watches& all = all_watches();
  const std::lock_guard lock(all.mutex);
  std::erase_if(all.list, [&](const auto& one) { return one.get() == watch; });
  all.any = !all.list.empty();
}

bool is_watched() {
  [[maybe_unused]] static const bool asked = watch_by_environment();
  return all_watches().any.load(std::memory_order_relaxed);
}

Unwatched::Unwatched() : before_(std::exchange(is_unwatched, true)) {}
Unwatched::~Unwatched() {
  is_unwatched = before_;
}

std::vector<std::unique_ptr<FlushWatch>> watches_of(Backend& backend, const Window& window, const Plan& plan) {
  std::vector<std::unique_ptr<FlushWatch>> result;
  if (!is_watched() || is_unwatched) return result;
  Watches& all = all_watches();
  std::vector<std::shared_ptr<KernelWatch>> list;
  {
    const std::lock_guard lock(all.mutex);
    list = all.list;
  }
  for (const std::shared_ptr<KernelWatch>& watch : list) {
    if (std::unique_ptr<FlushWatch> one = watch->begin(backend, window, plan)) result.push_back(std::move(one));
  }
  return result;
}

KernelNames::KernelNames(const Window& window, const Plan& plan) : window_(window), stored_(window.nodes.size(), false) {
  for (std::size_t e = 0; e < window.nodes.size(); ++e) stored_[e] = window.values[e].given;
  for (const Plan::Prepared& prepared : plan.steps) {
    for (const int entry : prepared.step.writes) stored_[static_cast<std::size_t>(entry)] = true;
  }
  for (NamedElements& elements : named_elements()) {
    const Node* const base = std::exchange(elements.base, nullptr).get();  // not held: kernels may take its memory
    if (elements.name.find('.') != std::string::npos) named_.emplace(base, std::move(elements));
  }
}

std::vector<std::size_t> KernelNames::members_of(const Step& step) const {
  std::set<std::size_t> members;
  std::vector<int> open = step.writes;
  while (!open.empty()) {
    const auto entry = static_cast<std::size_t>(open.back());
    open.pop_back();
    if (!members.insert(entry).second) continue;
    for (const int operand : window_.operands(entry)) {
      if (operand >= 0 && !stored_[static_cast<std::size_t>(operand)]) open.push_back(operand);
    }
  }
  return {members.begin(), members.end()};
}

std::vector<std::string> KernelNames::called_by(const Step& step) const {
  std::vector<std::string> called;
  for (const std::size_t entry : members_of(step)) add_once(called, window_.nodes[entry]->name);
  return called;
}

std::string KernelNames::ops_of(const Step& step) const {
  std::vector<std::string> steps;
  for (const std::size_t entry : members_of(step)) add_once(steps, name_of(window_.nodes[entry]->op));
  const std::vector<std::string> called = called_by(step);
  return called == steps ? listed(called) : listed(called) + ": " + listed(steps);
}

std::string KernelNames::module_of(const Step& step) const {
  for (const std::size_t entry : members_of(step)) {
    std::string module = module_read_by(*window_.nodes[entry]);
    if (!module.empty()) return module;
  }
  return {};
}

std::string KernelNames::module_read_by(const Node& node) const {
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i] == nullptr) continue;
    const Reading reading = reading_of(node.inputs[i]);
    const View* const own = own_view_of(node.op, i);  // of what reads elsewhere than where its operand begins
    const std::int64_t first = reading.view.offset + (own == nullptr ? 0 : own->offset);
    const auto [begin, end] = named_.equal_range(reading.base.get());
    for (auto found = begin; found != end; ++found) {
      const NamedElements& elements = found->second;
      if (elements.begin <= first && first < elements.end) return elements.name.substr(0, elements.name.rfind('.'));
    }
  }
  return {};
}

std::vector<std::byte> bytes_of(Backend& backend, const Node& node, const BufferRef& buffer) {
  std::vector<std::byte> bytes(node.bytes());
  if (!bytes.empty()) backend.download(bytes.data(), *buffer, bytes.size());
  return bytes;
}

}  // namespace graph
}  // namespace v0
}  // namespace lockstep

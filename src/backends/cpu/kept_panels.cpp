#include "backends/cpu/kept_panels.h"

#include "backends/companion.h"

namespace lockstep {
inline namespace v0 {

KeptPanels::Panels KeptPanels::find(std::uint64_t contents, const std::string& form) const {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find({contents, form});
  return found == entries_.end() ? nullptr : found->second.panels;
}

KeptPanels::Panels KeptPanels::allocate(std::size_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    if (bytes > limit_ || bytes_ > limit_ - bytes) return nullptr;
  }
  auto* const data = static_cast<std::byte*>(memory_->allocate(bytes));
  return {data, [memory = memory_, bytes](std::byte* panels) { memory->release(panels, bytes); }};
}

void KeptPanels::keep(Buffer& buffer, std::string form, Panels panels, std::size_t bytes) {
  const std::uint64_t contents = buffer.contents();
  drop_with_contents(buffer, weak_from_this());
  const std::lock_guard lock(mutex_);
  const auto [entry, is_new] = entries_.try_emplace({contents, std::move(form)}, Entry{std::move(panels), bytes});
  if (is_new) bytes_ += bytes;
}

void KeptPanels::drop(std::uint64_t contents) {
  const std::lock_guard lock(mutex_);
  auto entry = entries_.lower_bound({contents, std::string()});
  while (entry != entries_.end() && entry->first.first == contents) {
    bytes_ -= entry->second.bytes;
    entry = entries_.erase(entry);
  }
}

void KeptPanels::drop_all() {
  const std::lock_guard lock(mutex_);
  entries_.clear();
  bytes_ = 0;
}

std::size_t KeptPanels::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace v0
}  // namespace lockstep

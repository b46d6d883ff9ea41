#include "backends/gpu/kept_forms.h"

#include <utility>

#include <lockstep/error.h>

#include "backends/companion.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {

std::uint64_t KeptForms::find(std::uint64_t contents, const Maker& maker) const {
  const auto found = entries_.find(Key{contents, maker.module.get(), maker.words});
  return found == entries_.end() ? 0 : found->second.address;
}

std::uint64_t KeptForms::keep(Buffer& buffer, const Maker& maker, std::size_t bytes) {
  if (bytes > limit_ || bytes_ > limit_ - bytes) return 0;
  const std::uint64_t contents = buffer.contents();
  std::uint64_t address = 0;
  try {
    address = memory_.allocate(bytes);
  } catch (const OutOfMemoryError&) {
    return 0;  // it is made in every run, as without this
  }
  entries_.emplace(Key{contents, maker.module.get(), maker.words}, Entry{maker.module, address, bytes});
  bytes_ += bytes;
  drop_with_contents(buffer, weak_from_this());
  return address;
}

void KeptForms::release(const Entry& entry) {
  bytes_ -= entry.bytes;
  try {
    memory_.release(entry.address, entry.bytes);
  } catch (const BackendError&) {
    // Releasing cannot fail. What is wrong with the device, every later call will say.
  }
}

bool KeptForms::drop_all() {
  const bool any = !entries_.empty();
  for (const auto& [key, entry] : entries_) release(entry);
  entries_.clear();
  return any;
}

void KeptForms::drop(std::uint64_t contents) {
  const std::lock_guard lock(mutex_);
  auto entry = entries_.lower_bound(Key{contents, nullptr, {}});
  while (entry != entries_.end() && std::get<0>(entry->first) == contents) {
    release(entry->second);
    entry = entries_.erase(entry);
  }
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep

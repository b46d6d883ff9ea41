// Tells who keeps something that was made of a buffer's contents when these are no more.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "core/buffer.h"

namespace lockstep {
inline namespace v0 {

/// keeper->drop(contents) is called when the buffer's present contents go, if the keeper is still there then. For one
/// keeper of a buffer; again does nothing.
template <typename Keeper> void drop_with_contents(Buffer& buffer, std::weak_ptr<Keeper> keeper) {
  if (buffer.accompanied()) return;
  struct Companion {
    std::weak_ptr<Keeper> keeper;
    std::uint64_t contents;
    ~Companion() {
      if (const auto still = keeper.lock()) still->drop(contents);
    }
  };
  auto companion = std::make_shared<Companion>();
  companion->keeper = std::move(keeper);
  companion->contents = buffer.contents();
  buffer.accompany(std::move(companion));
}

}  // namespace v0
}  // namespace lockstep

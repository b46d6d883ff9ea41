// Pages of mapped files. Apart from os.h, which most of the house includes.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace lockstep {
inline namespace v0 {
namespace os {

/// The owner of a mapping of so many bytes, which ends with it.
std::shared_ptr<const void> own_mapping(void* address, std::size_t bytes);
/// Gives back the memory of the pages that lie wholly within `bytes` of such a mapping: they are read from the file
/// again when somebody touches them. Nothing happens to memory of any other kind.
void leave_mapped_pages(std::span<const std::byte> bytes);

/// New memory, all of which goes back to the system with its last owner. Throws std::bad_alloc.
std::shared_ptr<std::byte> fresh_memory(std::size_t bytes);

}  // namespace os
}  // namespace v0
}  // namespace lockstep

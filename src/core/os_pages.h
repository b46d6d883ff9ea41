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
/// Whether that is what `owner` is: a mapped file's, not that of bytes which were read.
bool owns_mapping(const std::shared_ptr<const void>& owner);
/// Gives back the memory of the pages that lie wholly within `bytes` of a mapping: they are read from the file again when
/// somebody touches them. Nothing happens to memory of any other kind.
void leave_mapped_pages(const std::shared_ptr<const void>& owner, std::span<const std::byte> bytes);

}  // namespace os
}  // namespace v0
}  // namespace lockstep

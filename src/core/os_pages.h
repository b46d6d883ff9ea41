// Pages of mapped files. Apart from os.h, which most of the house includes.
#pragma once

#include <cstddef>
#include <span>

namespace lockstep {
inline namespace v0 {
namespace os {

/// Gives back the memory of the pages that lie wholly within `bytes`, a part of what map_file or map_confined_file
/// returned: they are read from the file again when somebody touches them. Not for memory of any other kind, which
/// would lose its contents.
void leave_mapped_pages(std::span<const std::byte> bytes);

}  // namespace os
}  // namespace v0
}  // namespace lockstep

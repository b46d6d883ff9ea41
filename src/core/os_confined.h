// Files that a file names: opened only if they really lie below a folder, whatever the name says.
#pragma once

#include <string>
#include <string_view>

#include "core/os.h"

namespace lockstep {
inline namespace v0 {
namespace os {

/// Maps the file `name` below `folder`. `name` comes from outside: it is relative, of plain parts (no "..", no empty
/// part, no zero byte), no part is a symbolic link, and the file is a regular one with a single name (a second one may
/// stand outside of the folder). Each part is opened from the folder before it, so nothing that changes meanwhile leads
/// elsewhere. Throws IoError.
/// `root`: a symbolic link is followed if it leads to a file below this folder, whose own name has no link in it. Empty:
/// none is.
FileBytes map_confined_file(const std::string& folder, std::string_view name, const std::string& root = {});

}  // namespace os
}  // namespace v0
}  // namespace lockstep

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
FileBytes map_confined_file(const std::string& folder, std::string_view name);

}  // namespace os
}  // namespace v0
}  // namespace lockstep

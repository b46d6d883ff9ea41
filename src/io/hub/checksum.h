// The checksums by which the hub names the content of files.
#pragma once

#include <string>

namespace lockstep {
inline namespace v0 {
namespace io {

/// Whether the file's content has that name: 64 hexadecimal digits are its SHA-256 (large files), 40 the SHA-1 by which
/// git names it as a blob. Any other name says nothing of the content, and fits all.
bool has_content(const std::string& path, const std::string& name);

}  // namespace io
}  // namespace v0
}  // namespace lockstep

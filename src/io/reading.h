// The frame around every reader of a file.
#pragma once

#include <new>
#include <string_view>

#include <fmt/format.h>

#include <lockstep/error.h>

namespace lockstep {
inline namespace v0 {
namespace io {

/// What `read` returns. Memory that runs out meanwhile is an error that names the file.
template <typename Read> auto reading(std::string_view file, const Read& read) {
  try {
    return read();
  } catch (const std::bad_alloc&) {
    throw OutOfMemoryError(fmt::format("{}: there is not enough memory to read it", file));
  }
}

}  // namespace io
}  // namespace v0
}  // namespace lockstep

// The registers of AMX's tiles, which the system gives only to processes that ask. Apart from os.h, which most of the
// house includes.
#pragma once

namespace lockstep {
inline namespace v0 {
namespace os {

/// Asks for them, for all threads and the life of the process; false where the system gives none.
bool allow_tiles() noexcept;

}  // namespace os
}  // namespace v0
}  // namespace lockstep

// What a StopRequest has seen, for long work that is far from it.
#pragma once

namespace lockstep {
inline namespace v0 {
namespace os {

/// The number of the signal that came while the StopRequest lives; 0 where none did, or there is none.
int stop_signal();

}  // namespace os
}  // namespace v0
}  // namespace lockstep

// How many bytes a kernel moves. A property of the kernel and of its buffers' sizes: the same on every device.
#pragma once

#include <cstddef>
#include <span>

#include "kernels/kernel.h"

namespace lockstep {
inline namespace v0 {

/// What the kernel reads and writes of each buffer (the elements of a slot that its views reach, each once), summed:
/// the least that memory has to move where nothing of it stays in a cache. `slot_bytes`: the buffers' sizes.
/// `in_place`: an update whose `self` is its result, so that only the region is written.
std::size_t bytes_moved(const Kernel& kernel, std::span<const std::size_t> slot_bytes, bool in_place = false);

}  // namespace v0
}  // namespace lockstep

// The process's one thread pool (thread_pool.h, or the application's: include/lockstep/threads.h) as the CPU kernels
// see it.
#pragma once

#include <cstdint>
#include <functional>

#include <lockstep/threads.h>

namespace lockstep {
inline namespace v0 {

/// Calls fn(begin, end) for ranges that cover [0, count), each a multiple of `grain` long but for the last.
/// Ranges run in any order and on any threads, every one of them in the specified floating-point state. With one
/// thread, too little work or inside another parallel_for the calling thread does it all. An exception of fn is passed
/// on.
void parallel_for(std::int64_t count, std::int64_t grain, const std::function<void(std::int64_t, std::int64_t)>& fn);

/// Whether the calling thread is inside a parallel_for.
bool in_parallel_region();

}  // namespace v0
}  // namespace lockstep

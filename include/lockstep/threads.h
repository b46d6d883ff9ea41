// How many threads the CPU backend uses, and whose. Results do not depend on either.
#pragma once

#include <cstddef>
#include <functional>

#include <lockstep/export.h>

namespace lockstep {
inline namespace v0 {

/// Runs task(0) ... task(tasks - 1), in any order and on any threads, and returns when all have finished.
/// An exception of a task is passed on to the caller.
using ParallelExecutor = std::function<void(std::size_t tasks, const std::function<void(std::size_t)>& task)>;

/// Lets the application's own thread pool do the work; an empty function returns to the built-in pool, whose threads
/// start at the first parallel work and sleep when there is none. Call it while nothing is being computed.
LOCKSTEP_API void set_parallel_executor(ParallelExecutor executor);

/// Threads of the built-in pool, and the number of parts that work is cut into. The default is what the process may
/// use (affinity and cgroup limits), or the environment's LOCKSTEP_NUM_THREADS. Throws ValueError below 1.
LOCKSTEP_API void set_num_threads(int count);
LOCKSTEP_API int num_threads();

}  // namespace v0
}  // namespace lockstep

// The process's one thread pool (thread_pool.h, or the application's: include/lockstep/threads.h) as the CPU kernels
// see it.
#pragma once

#include <cstdint>

#include <lockstep/threads.h>

namespace lockstep {
inline namespace v0 {

/// What a caller has, called through here; unlike a std::function it costs no code and no type of its own.
class RangeTask {
 public:
  template <typename Task>
  RangeTask(const Task& task)
      : task_(&task), call_([](const void* called, std::int64_t begin, std::int64_t end) {
          (*static_cast<const Task*>(called))(begin, end);
        }) {}
  void operator()(std::int64_t begin, std::int64_t end) const { call_(task_, begin, end); }

 private:
  const void* task_;
  void (*call_)(const void* task, std::int64_t begin, std::int64_t end);
};

/// Calls fn(begin, end) for ranges that cover [0, count), each a multiple of `grain` long but for the last.
/// Ranges run in any order and on any threads, every one of them in the specified floating-point state. With one
/// thread, too little work or inside another parallel_for the calling thread does it all. An exception of fn is passed
/// on.
void parallel_for(std::int64_t count, std::int64_t grain, const RangeTask& fn);

/// Whether the calling thread is inside a parallel_for.
bool in_parallel_region();

}  // namespace v0
}  // namespace lockstep

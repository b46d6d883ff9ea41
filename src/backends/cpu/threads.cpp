#include "backends/cpu/threads.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <memory>
#include <mutex>
#include <string>

#include <lockstep/error.h>

#include "backends/cpu/cpu_limits.h"
#include "backends/cpu/thread_pool.h"
#include "core/fp_state.h"

namespace lockstep {
inline namespace v0 {
namespace {

// More parts than threads, so that a thread that was held up does not hold up the others; where they end, in 32nds of
// a thread's share. The last ones, which others take first, are short: for as long as one of them takes, threads wait.
constexpr std::int64_t kPartEnds[] = {8, 16, 22, 26, 28, 30, 31, 32};
constexpr std::int64_t kPartsPerThread = std::size(kPartEnds);
constexpr std::int64_t kWholeShare = kPartEnds[kPartsPerThread - 1];

/// The grain that a part of some begins with.
std::int64_t part_begin(std::int64_t part, std::int64_t parts, std::int64_t grains, std::int64_t threads) {
  if (parts == grains) return part;
  const std::int64_t within = part % kPartsPerThread;
  const std::int64_t place = part / kPartsPerThread * kWholeShare + (within == 0 ? 0 : kPartEnds[within - 1]);
  return grains * place / (threads * kWholeShare);
}

thread_local bool inside_parallel_for = false;

class InsideParallelFor {
 public:
  InsideParallelFor() : before_(inside_parallel_for) { inside_parallel_for = true; }
  ~InsideParallelFor() { inside_parallel_for = before_; }
  InsideParallelFor(const InsideParallelFor&) = delete;
  InsideParallelFor& operator=(const InsideParallelFor&) = delete;

 private:
  bool before_;
};

int initial_threads() {
  const char* text = std::getenv("LOCKSTEP_NUM_THREADS");
  if (text == nullptr || *text == '\0') return usable_processors();
  int count = 0;
  const char* end = text + std::strlen(text);
  const auto [rest, error] = std::from_chars(text, end, count);
  if (error != std::errc() || rest != end || count < 1) {
    throw ValueError("LOCKSTEP_NUM_THREADS=" + std::string(text) +
                     ": expected a number of threads, 1 or more\n  fix: set one, or unset the variable to use all of " +
                     std::to_string(usable_processors()) + " processors");
  }
  return count;
}

/// What parallel_for uses. Replaced as a whole, so that work under way keeps what it started with.
struct Pool {
  explicit Pool(int threads_, ParallelExecutor executor_ = {}) : threads(threads_), executor(std::move(executor_)) {
    // More threads than processors would only take turns.
    if (!executor)
      built_in = std::make_unique<ThreadPool>(static_cast<std::size_t>(std::min(threads, usable_processors())));
  }

  void run(std::size_t tasks, const std::function<void(std::size_t)>& task) {
    executor ? executor(tasks, task) : built_in->run(tasks, task);
  }

  int threads;
  ParallelExecutor executor;
  std::unique_ptr<ThreadPool> built_in;
};

std::mutex pool_mutex;

// Never destroyed: destructors of static objects may still compute.
std::shared_ptr<Pool>& the_pool() {
  static auto& instance = *new std::shared_ptr<Pool>;
  return instance;
}

std::shared_ptr<Pool> pool() {
  const std::lock_guard lock(pool_mutex);
  if (!the_pool()) the_pool() = std::make_shared<Pool>(initial_threads());
  return the_pool();
}

}  // namespace

void set_parallel_executor(ParallelExecutor executor) {
  const int threads = pool()->threads;
  auto next = std::make_shared<Pool>(threads, std::move(executor));
  const std::lock_guard lock(pool_mutex);
  the_pool() = std::move(next);
}

void set_num_threads(int count) {
  if (count < 1) {
    throw ValueError("set_num_threads: " + std::to_string(count) + ": expected a number of threads, 1 or more");
  }
  const std::lock_guard lock(pool_mutex);
  const std::shared_ptr<Pool> before = the_pool();
  the_pool() = std::make_shared<Pool>(count, before ? before->executor : ParallelExecutor());
}

int num_threads() {
  return pool()->threads;
}

bool in_parallel_region() {
  return inside_parallel_for;
}

void parallel_for(std::int64_t count, std::int64_t grain, const RangeTask& fn) {
  if (count <= 0) return;
  grain = std::max<std::int64_t>(grain, 1);
  const std::int64_t grains = (count + grain - 1) / grain;
  const std::shared_ptr<Pool> current = inside_parallel_for || grains == 1 ? nullptr : pool();
  if (!current || current->threads == 1) {
    const FloatingPointScope scope;
    fn(0, count);
    return;
  }
  const std::int64_t parts = std::min(grains, kPartsPerThread * current->threads);
  current->run(static_cast<std::size_t>(parts), [&](std::size_t part) {
    const FloatingPointScope scope;
    const InsideParallelFor inside;
    const auto i = static_cast<std::int64_t>(part);
    const std::int64_t begin = part_begin(i, parts, grains, current->threads) * grain;
    const std::int64_t end = part_begin(i + 1, parts, grains, current->threads) * grain;
    if (begin < end) fn(begin, std::min(count, end));
  });
}

}  // namespace v0
}  // namespace lockstep

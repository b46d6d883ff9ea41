// Under ThreadSanitizer the tests' parallel work runs on plain threads instead of the built-in pool, whose threads take
// tasks from shared counters: that orders tasks, and so hides their races.
#if defined(__SANITIZE_THREAD__)

#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <lockstep/threads.h>

namespace {

constexpr int kThreads = 4;

void run_on_plain_threads(std::size_t tasks, const std::function<void(std::size_t)>& task) {
  std::mutex mutex;
  std::exception_ptr first_error;
  // Dealt out, not taken from a shared counter: that would order the tasks, and so hide their races.
  auto work = [&](std::size_t first) {
    for (std::size_t i = first; i < tasks; i += kThreads) {
      try {
        task(i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!first_error) first_error = std::current_exception();
      }
    }
  };
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < kThreads; ++i) threads.emplace_back(work, i);
  }
  if (first_error) std::rethrow_exception(first_error);
}

class PlainThreads : public testing::Environment {
 public:
  void SetUp() override {
    // Threads are worth testing on a machine with one processor, too.
    lockstep::set_num_threads(kThreads);
    lockstep::set_parallel_executor(run_on_plain_threads);
  }
};

[[maybe_unused]] testing::Environment* const plain_threads = testing::AddGlobalTestEnvironment(new PlainThreads);

}  // namespace

#endif

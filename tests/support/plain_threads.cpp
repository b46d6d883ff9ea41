// Under ThreadSanitizer the tests' parallel work runs on plain threads instead of the built-in pool: the system's TBB
// is not instrumented, so the sanitizer cannot see that it waits, and would report races that are none.
#if defined(__SANITIZE_THREAD__)

#include <atomic>
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
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  std::exception_ptr first_error;
  auto work = [&] {
    for (std::size_t i = next++; i < tasks; i = next++) {
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
    for (int i = 0; i < kThreads; ++i) threads.emplace_back(work);
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

// Threads that compute results 0, 1, 2, ... ahead of the one caller who takes them in order. At most `ahead` results
// exist that were not taken. An exception is a result like any other: take() throws it in its turn.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <lockstep/data/dataset.h>

namespace lockstep {
inline namespace v0 {
namespace data {

class Prefetcher {
 public:
  /// `make(i)` runs on any of the threads, for i in [first, end).
  Prefetcher(std::int64_t first, std::int64_t end, int threads, int ahead, std::function<Batch(std::int64_t)> make);
  /// Waits for what is being made; what was not begun is never made.
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  /// The next result. Not to be called more than end - first times.
  Batch take();

 private:
  struct Result {
    Batch batch;
    std::exception_ptr error;
  };
  void work();
  void stop();
  std::optional<Result>& slot(std::int64_t i) { return slots_[static_cast<std::size_t>(i) % slots_.size()]; }

  const std::function<Batch(std::int64_t)> make_;
  const std::int64_t end_;
  std::mutex mutex_;
  std::condition_variable room_;   // to the workers: a result was taken, or stop
  std::condition_variable ready_;  // to the caller: a result is there
  std::int64_t begun_;             // results that workers have taken up
  std::int64_t taken_;
  std::vector<std::optional<Result>> slots_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace data
}  // namespace v0
}  // namespace lockstep

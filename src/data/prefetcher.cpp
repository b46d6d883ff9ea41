#include "data/prefetcher.h"

#include <system_error>

#include <fmt/format.h>

#include <lockstep/error.h>

namespace lockstep {
inline namespace v0 {
namespace data {

Prefetcher::Prefetcher(std::int64_t first, std::int64_t end, int threads, int ahead,
                       std::function<Batch(std::int64_t)> make)
    : make_(std::move(make)), end_(end), begun_(first), taken_(first), slots_(static_cast<std::size_t>(ahead)) {
  try {
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
  } catch (const std::system_error& error) {
    stop();  // the destructor does not run for a constructor that throws
    throw IoError(fmt::format("DataLoader: cannot start thread {} of {} that prepare batches: {}\n  fix: fewer workers, or "
                              "a higher limit of threads and memory (ulimit -u, ulimit -v)",
                              threads_.size() + 1, threads, error.code().message()));
  } catch (...) {
    stop();
    throw;
  }
}

Prefetcher::~Prefetcher() {
  stop();
}

void Prefetcher::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  room_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Prefetcher::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    const auto has_room = [&] { return begun_ < taken_ + static_cast<std::int64_t>(slots_.size()); };
    room_.wait(lock, [&] { return stopping_ || begun_ == end_ || has_room(); });
    if (stopping_ || begun_ == end_) return;
    const std::int64_t mine = begun_++;
    lock.unlock();
    Result result;
    try {
      result.batch = make_(mine);
    } catch (...) {
      result.error = std::current_exception();
    }
    lock.lock();
    slot(mine) = std::move(result);
    ready_.notify_one();
    if (begun_ == end_) room_.notify_all();  // others wait for room that they no longer need
  }
}

Batch Prefetcher::take() {
  std::unique_lock lock(mutex_);
  ready_.wait(lock, [&] { return slot(taken_).has_value(); });
  Result result = std::move(*slot(taken_));
  slot(taken_).reset();
  ++taken_;
  lock.unlock();
  room_.notify_one();
  if (result.error) std::rethrow_exception(result.error);
  return std::move(result.batch);
}

}  // namespace data
}  // namespace v0
}  // namespace lockstep

#include "dist/courier.h"

#include <chrono>
#include <utility>

namespace lockstep {
inline namespace v0 {
namespace dist {

Courier::~Courier() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Courier::send(std::function<void()> errand) {
  {
    const std::lock_guard lock(mutex_);
    errands_.push_back(std::move(errand));
    if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  }
  changed_.notify_all();
}

void Courier::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return errands_.empty() && !is_busy_; });
}

void Courier::run() {
  constexpr std::chrono::milliseconds kBetweenLooks{2};  // nobody waits for one
  const auto is_called = [&] { return is_over_ || !errands_.empty(); };
  bool looks = false;
  std::unique_lock lock(mutex_);
  for (;;) {
    while (looks && !changed_.wait_for(lock, kBetweenLooks, is_called)) {
      lock.unlock();
      looks = look_();
      lock.lock();
    }
    changed_.wait(lock, is_called);
    if (errands_.empty()) return;
    looks = true;
    const std::function<void()> errand = std::move(errands_.front());
    errands_.pop_front();
    is_busy_ = true;
    lock.unlock();
    errand();
    lock.lock();
    is_busy_ = false;
    changed_.notify_all();
  }
}

}  // namespace dist
}  // namespace v0
}  // namespace lockstep

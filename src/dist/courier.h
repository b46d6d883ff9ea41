// A thread that does one thing after another beside the one that asks: collectives under way while gradients are
// computed. In between it looks after what devices have in hand. Nothing is started before the first is asked for.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

namespace lockstep {
inline namespace v0 {
namespace dist {

class Courier {
 public:
  /// `look` throws nothing; whether it has to be called again, though nothing new is asked for.
  explicit Courier(std::function<bool()> look) : look_(std::move(look)) {}
  /// Waits for what is under way.
  ~Courier();
  Courier(const Courier&) = delete;
  Courier& operator=(const Courier&) = delete;

  /// Does `errand`, which throws nothing, after those before it.
  void send(std::function<void()> errand);
  /// Returns when all errands are done. Looks are none.
  void wait();

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> errands_;
  bool is_busy_ = false;
  bool is_over_ = false;
  std::function<bool()> look_;
  std::thread thread_;
};

}  // namespace dist
}  // namespace v0
}  // namespace lockstep

// The built-in pool of threads. A kernel of a network takes some ten microseconds, and the next one comes some more
// after it: threads that slept in between would come too late for most kernels, so they look for work for a while
// before they sleep.
//
// Tasks of a call have places: neighbours run on one thread, and the same tasks of the next call on the same thread,
// because what one core has written is far from the others (docs/performance/cpu.md). Who has nothing left takes from
// others' ends.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace lockstep {
inline namespace v0 {

class ThreadPool {
 public:
  /// `threads`: the caller's included; the others start at the first run.
  explicit ThreadPool(std::size_t threads) : threads_(threads) {}
  /// Ends them; nobody is in run().
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  /// Runs task(0) ... task(tasks - 1) and returns when all have finished. Any number of threads may call it. After an
  /// exception, which is passed on, tasks that have not begun are left out. At most 2^32 - 1 tasks.
  void run(std::size_t tasks, const std::function<void(std::size_t)>& task);

 private:
  static constexpr std::size_t kLine = 128;  // what two cores contend for, with the line that is fetched beside it

  /// Tasks that are left of a thread's share: the first and the end, each 32 bits.
  struct alignas(kLine) Share {
    std::atomic<std::uint64_t> range{0};
  };
  /// A call under way, or room for one.
  struct alignas(kLine) Slot {
    std::atomic<std::uint64_t> number{0};    ///< of the call; odd while there is one
    std::atomic<std::uint32_t> visitors{0};  ///< workers who may look at it
    const std::function<void(std::size_t)>* task = nullptr;
    std::atomic<bool> taken{false};  ///< by a caller
    std::atomic<bool> failed{false};
    std::exception_ptr exception;  ///< of the first task that failed
    std::unique_ptr<Share[]> shares;
  };
  static constexpr std::size_t kSlots = 8;

  /// Numbers of the calls in which a worker found no more to do.
  using Seen = std::array<std::uint64_t, kSlots>;

  void start();
  Slot* free_slot();
  void wake(std::size_t count);
  void work(Slot& slot, std::size_t self);
  void work_for_others(std::size_t self);
  bool visit(Slot& slot, std::size_t self, std::uint64_t& seen);
  bool has_work(const Seen& seen) const;

  const std::size_t threads_;
  Slot slots_[kSlots];
  std::once_flag started_;
  std::vector<std::thread> workers_;
  alignas(kLine) std::atomic<std::uint32_t> sleepers_{0};
  std::atomic<std::uint32_t> calls_{0};  ///< what sleepers wait for a change of
  std::atomic<bool> ending_{false};
};

}  // namespace v0
}  // namespace lockstep

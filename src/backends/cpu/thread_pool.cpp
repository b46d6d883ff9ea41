#include "backends/cpu/thread_pool.h"

#include <chrono>
#include <utility>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace lockstep {
inline namespace v0 {
namespace {

// How long a thread looks for work before it sleeps: longer than the host takes from one kernel to the next. Waking one
// takes some 50 microseconds; where other processes want the processor, looking costs them and, by its share of time,
// the thread itself.
constexpr auto kWarm = std::chrono::microseconds(200);
// Looks between two looks at the clock, and before a waiting caller lets others run on its processor.
constexpr int kLooks = 64;
constexpr int kPatience = 1 << 14;

void pause() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  __asm__ __volatile__("yield");
#endif
}

constexpr std::uint64_t range_of(std::uint64_t first, std::uint64_t end) {
  return first << 32 | end;
}

constexpr std::size_t kNone = ~std::size_t{0};

/// The first task of a thread's own share, or the last one of somebody else's.
std::size_t take(std::atomic<std::uint64_t>& share, bool own) {
  std::uint64_t range = share.load(std::memory_order_relaxed);
  for (;;) {
    const std::uint64_t first = range >> 32;
    const std::uint64_t end = range & 0xffffffffu;
    if (first >= end) return kNone;
    const std::uint64_t rest = own ? range_of(first + 1, end) : range_of(first, end - 1);
    if (share.compare_exchange_weak(range, rest, std::memory_order_acq_rel, std::memory_order_relaxed)) {
      return static_cast<std::size_t>(own ? first : end - 1);
    }
  }
}

}  // namespace

ThreadPool::~ThreadPool() {
  ending_ = true;
  calls_.fetch_add(1);
  calls_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::start() {
  for (Slot& slot : slots_) slot.shares = std::make_unique<Share[]>(threads_);
  for (std::size_t self = 1; self < threads_; ++self) workers_.emplace_back([this, self] { work_for_others(self); });
}

ThreadPool::Slot* ThreadPool::free_slot() {
  for (Slot& slot : slots_) {
    if (!slot.taken.load(std::memory_order_relaxed) && !slot.taken.exchange(true)) return &slot;
  }
  return nullptr;
}

void ThreadPool::run(std::size_t tasks, const std::function<void(std::size_t)>& task) {
  std::call_once(started_, [this] { start(); });
  Slot* const slot = threads_ > 1 && tasks > 1 ? free_slot() : nullptr;
  if (slot == nullptr) {
    for (std::size_t i = 0; i < tasks; ++i) task(i);
    return;
  }
  slot->task = &task;
  slot->failed.store(false, std::memory_order_relaxed);
  for (std::size_t i = 0; i < threads_; ++i) {
    slot->shares[i].range.store(range_of(tasks * i / threads_, tasks * (i + 1) / threads_), std::memory_order_relaxed);
  }
  slot->number.fetch_add(1);
  wake(tasks - 1);
  work(*slot, 0);
  // Workers come in before they look whether the call is still there: from here on none stays.
  slot->number.fetch_add(1);
  for (int looks = 0; slot->visitors != 0; ++looks) {
    looks < kPatience ? pause() : std::this_thread::yield();
  }
  const std::exception_ptr exception = std::exchange(slot->exception, nullptr);
  slot->taken = false;
  if (exception != nullptr) std::rethrow_exception(exception);
}

/// So many sleepers, if there are. Either this sees who falls asleep, or that one sees the call: both write before they
/// read.
void ThreadPool::wake(std::size_t count) {
  const std::uint32_t sleepers = sleepers_;
  if (sleepers == 0) return;
  calls_.fetch_add(1);
  if (count >= sleepers) return calls_.notify_all();
  for (std::size_t i = 0; i < count; ++i) calls_.notify_one();
}

void ThreadPool::work(Slot& slot, std::size_t self) {
  for (std::size_t i = 0; i < threads_; ++i) {
    std::atomic<std::uint64_t>& share = slot.shares[(self + i) % threads_].range;
    for (std::size_t number = take(share, i == 0); number != kNone; number = take(share, i == 0)) {
      if (slot.failed.load(std::memory_order_relaxed)) continue;
      try {
        (*slot.task)(number);
      } catch (...) {
        if (!slot.failed.exchange(true)) slot.exception = std::current_exception();
      }
    }
  }
}

bool ThreadPool::visit(Slot& slot, std::size_t self, std::uint64_t& seen) {
  const std::uint64_t number = slot.number.load(std::memory_order_relaxed);
  if (number % 2 == 0 || number == seen) return false;
  slot.visitors.fetch_add(1);
  if (slot.number == number) {
    work(slot, self);
    seen = number;
  }
  slot.visitors.fetch_sub(1);
  return true;
}

bool ThreadPool::has_work(const Seen& seen) const {
  for (std::size_t i = 0; i < kSlots; ++i) {
    const std::uint64_t number = slots_[i].number;
    if (number % 2 != 0 && number != seen[i]) return true;
  }
  return false;
}

void ThreadPool::work_for_others(std::size_t self) {
  Seen seen{};
  auto last_work = std::chrono::steady_clock::now();
  while (!ending_.load(std::memory_order_relaxed)) {
    bool worked = false;
    for (int looks = 0; looks < kLooks && !worked; ++looks) {
      for (std::size_t i = 0; i < kSlots; ++i) worked |= visit(slots_[i], self, seen[i]);
      if (!worked) pause();
    }
    const auto now = std::chrono::steady_clock::now();
    if (worked) last_work = now;
    if (now - last_work < kWarm) continue;
    const std::uint32_t calls = calls_;
    sleepers_.fetch_add(1);
    if (!has_work(seen) && !ending_) calls_.wait(calls);
    sleepers_.fetch_sub(1);
    last_work = std::chrono::steady_clock::now();
  }
}

}  // namespace v0
}  // namespace lockstep

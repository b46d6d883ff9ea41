#include "dispatch.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include <fmt/format.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "memory.h"

namespace emulator {
namespace {

std::atomic<std::size_t> dispatches, threads_run;

/// While it lives, f32 subnormals are zeros, as operands and as results; those of halves are not, as on Apple's GPUs.
class FlushSubnormals {
 public:
  explicit FlushSubnormals(bool flush) : before_(get()) {
    if (flush) set(before_ | kFlush);
  }
  ~FlushSubnormals() { set(before_); }
  FlushSubnormals(const FlushSubnormals&) = delete;
  FlushSubnormals& operator=(const FlushSubnormals&) = delete;

 private:
#if defined(__x86_64__)
  static constexpr std::uint64_t kFlush = 0x8040;  // FTZ and DAZ
  static std::uint64_t get() {
    return _mm_getcsr();
  }
  static void set(std::uint64_t value) {
    _mm_setcsr(static_cast<unsigned>(value));
  }
#else
  static constexpr std::uint64_t kFlush = 1 << 24;  // FZ; FZ16 stays off
  static std::uint64_t get() {
    std::uint64_t value;
    asm volatile("mrs %0, fpcr" : "=r"(value));
    return value;
  }
  static void set(std::uint64_t value) {
    asm volatile("msr fpcr, %0" : : "r"(value));
  }
#endif
  std::uint64_t before_;
};

/// What an OS thread needs to run threadgroups. Stacks are expensive to make, so they are kept.
struct Worker {
  Threadgroup threadgroup;
  // Room for the variables with their gaps, and for the memory whose size the encoder gives.
  GuardedMemory memory{4 * kThreadgroupBytes, "threadgroup memory"};
};

class Workers {
 public:
  static std::unique_ptr<Worker> take() {
    Workers& all = instance();
    const std::lock_guard lock(all.mutex_);
    if (all.idle_.empty()) return std::make_unique<Worker>();
    std::unique_ptr<Worker> worker = std::move(all.idle_.back());
    all.idle_.pop_back();
    return worker;
  }
  static void give_back(std::unique_ptr<Worker> worker) {
    Workers& all = instance();
    const std::lock_guard lock(all.mutex_);
    all.idle_.push_back(std::move(worker));
  }

 private:
  static Workers& instance() {
    static Workers* all = new Workers;  // a static object's destructor may still wait for a command buffer
    return *all;
  }
  std::mutex mutex_;
  std::vector<std::unique_ptr<Worker>> idle_;
};

class Run {
 public:
  explicit Run(const Dispatch& dispatch)
      : dispatch_(dispatch), kernel_(*dispatch.kernel), schedule_(settings::schedule()) {
    const Size3 t = dispatch.threads, g = dispatch.threads_per_threadgroup;
    groups_ = {(t.x + g.x - 1) / g.x, (t.y + g.y - 1) / g.y, (t.z + g.z - 1) / g.z};
    total_ = std::size_t{groups_.x} * groups_.y * groups_.z;
    if (schedule_.order == Schedule::Order::random) {
      shuffled_.resize(total_);
      std::iota(shuffled_.begin(), shuffled_.end(), std::size_t{0});
      std::shuffle(shuffled_.begin(), shuffled_.end(), std::mt19937_64(schedule_.seed));
    }
  }

  std::string run() {
    const std::size_t threads = std::size_t{dispatch_.threads.x} * dispatch_.threads.y * dispatch_.threads.z;
    ++dispatches;
    threads_run += threads;
    // Starting an OS thread costs as much as running a few thousand of a kernel's.
    const std::size_t worth = std::min(total_, std::max<std::size_t>(1, threads / 4096));
    const std::size_t workers = std::min<std::size_t>(worth, settings::workers());
    std::vector<std::thread> others;
    for (std::size_t i = 1; i < workers; ++i) others.emplace_back([this] { work(); });
    work();
    for (std::thread& other : others) other.join();
    return failure_;
  }

 private:
  void work() {
    std::unique_ptr<Worker> worker = Workers::take();
    {
      const FlushSubnormals flush(settings::flush_subnormals());
      set_running_kernel(kernel_.info.name.c_str());
      for (std::size_t i = next_++; i < total_; i = next_++) {
        const std::string failure = run_group(*worker, i);
        if (failure.empty()) continue;
        const std::lock_guard lock(mutex_);
        if (failure_.empty()) failure_ = failure;
        next_ = total_;
        break;
      }
      set_running_kernel(nullptr);
    }
    Workers::give_back(std::move(worker));
  }

  std::string run_group(Worker& worker, std::size_t position) {
    std::size_t number = position;
    if (schedule_.order == Schedule::Order::descending) number = total_ - 1 - position;
    if (schedule_.order == Schedule::Order::random) number = shuffled_[position];
    const Size3 size = dispatch_.threads_per_threadgroup, threads = dispatch_.threads;
    Ids ids{};
    ids.threadgroup_position_in_grid = {static_cast<unsigned>(number % groups_.x),
                                        static_cast<unsigned>(number / groups_.x % groups_.y),
                                        static_cast<unsigned>(number / groups_.x / groups_.y)};
    const Size3 at = ids.threadgroup_position_in_grid;
    ids.thread_position_in_grid = {at.x * size.x, at.y * size.y, at.z * size.z};
    ids.threads_per_threadgroup = {std::min(size.x, threads.x - at.x * size.x),
                                   std::min(size.y, threads.y - at.y * size.y),
                                   std::min(size.z, threads.z - at.z * size.z)};
    ids.threadgroups_per_grid = groups_;
    ids.threads_per_grid = threads;
    const Size3 own = ids.threads_per_threadgroup;
    ids.simdgroups_per_threadgroup = (own.x * own.y * own.z + kLanes - 1) / kLanes;

    Arguments arguments{};
    std::copy(dispatch_.buffers.begin(), dispatch_.buffers.end(), arguments.buffers);
    arguments.variables = worker.memory.data();
    const std::size_t used = lay_out(arguments);
    std::memset(worker.memory.data(), 0xff, used);

    worker.threadgroup.order(schedule_, number);
    if (kernel_.group != nullptr) {
      worker.threadgroup.run(kernel_.group, arguments, ids);
    } else {
      const std::string failure = worker.threadgroup.run(kernel_.thread, arguments, ids);
      if (!failure.empty()) {
        return fmt::format("kernel '{}', threadgroup ({}, {}, {}): {}", kernel_.info.name, at.x, at.y, at.z, failure);
      }
    }
    return overrun(worker.memory.data(), used);
  }

  /// Places the memory whose size the encoder gives behind the variables. The end of all of it.
  std::size_t lay_out(Arguments& arguments) const {
    constexpr std::size_t kGap = 64;
    std::size_t end = kGap;
    if (!kernel_.variables.empty()) end += kernel_.variables.back().offset + kernel_.variables.back().bytes;
    for (std::size_t i = 0; i < kBufferSlots; ++i) {
      if (dispatch_.threadgroup_bytes[i] == 0) continue;
      end = (end + kGap - 1) / kGap * kGap;
      arguments.threadgroup[i] = arguments.variables + end;
      end += dispatch_.threadgroup_bytes[i] + kGap;
    }
    return end;
  }

  /// Between the variables nothing may have been written.
  std::string overrun(const char* memory, std::size_t used) const {
    std::size_t end = 0;
    const char* name = "its threadgroup memory, backwards,";
    const auto written = [&](std::size_t stop) {
      return std::any_of(memory + end, memory + stop, [](char c) { return c != static_cast<char>(0xff); });
    };
    for (const Variable& variable : kernel_.variables) {
      if (written(variable.offset)) return fmt::format("kernel '{}' writes past {}", kernel_.info.name, name);
      end = variable.offset + variable.bytes;
      name = variable.name;
    }
    const bool checked = std::all_of(dispatch_.threadgroup_bytes.begin(), dispatch_.threadgroup_bytes.end(),
                                     [](std::size_t bytes) { return bytes == 0; });
    if (checked && written(used)) return fmt::format("kernel '{}' writes past {}", kernel_.info.name, name);
    return "";
  }

  const Dispatch& dispatch_;
  const Kernel& kernel_;
  const Schedule schedule_;
  Size3 groups_{};
  std::size_t total_ = 0;
  std::vector<std::size_t> shuffled_;
  std::atomic<std::size_t> next_ = 0;
  std::mutex mutex_;
  std::string failure_;
};

}  // namespace

std::string run(const Dispatch& dispatch) {
  return Run(dispatch).run();
}

DispatchCounts dispatch_counts() {
  return {dispatches, threads_run};
}

}  // namespace emulator

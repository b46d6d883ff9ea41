#include "threadgroup.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>

#include <fmt/format.h>
#include <sys/mman.h>

#include "fiber_switch.h"

namespace emulator {
namespace {

constexpr std::size_t kStackBytes = 64 << 10, kGuardBytes = 4 << 10;
/// The one whose threads run on this OS thread.
thread_local Threadgroup* running = nullptr;

template <std::size_t N>
void put_in_order(std::array<unsigned, N>& order, unsigned count, Schedule::Order kind, std::mt19937_64& random) {
  std::iota(order.begin(), order.end(), 0u);
  if (kind == Schedule::Order::descending) std::reverse(order.begin(), order.begin() + count);
  if (kind == Schedule::Order::random) std::shuffle(order.begin(), order.begin() + count, random);
}

}  // namespace

Threadgroup::~Threadgroup() {
  if (stacks_ != nullptr) munmap(stacks_, kMaxThreads * kStackBytes);
}

void Threadgroup::order(const Schedule& schedule, std::uint64_t number) {
  schedule_ = schedule;
  number_ = number;
}

void Threadgroup::run(GroupFunction function, const Arguments& arguments, Ids ids) {
  const Size3 size = ids.threads_per_threadgroup;
  std::array<Place, kMaxThreads> places;
  unsigned count = 0;
  for (unsigned z = 0; z < size.z; ++z) {
    for (unsigned y = 0; y < size.y; ++y) {
      for (unsigned x = 0; x < size.x; ++x, ++count) {
        places[count] = {static_cast<unsigned short>(x), static_cast<unsigned short>(y), static_cast<unsigned short>(z),
                         static_cast<unsigned short>(count)};
      }
    }
  }
  if (schedule_.order == Schedule::Order::descending) std::reverse(places.begin(), places.begin() + count);
  if (schedule_.order == Schedule::Order::random) {
    std::mt19937_64 random(schedule_.seed ^ (number_ * 0x9e3779b97f4a7c15u));
    std::shuffle(places.begin(), places.begin() + count, random);
  }
  function(&arguments, &ids, places.data(), count);
}

std::string Threadgroup::run(ThreadFunction function, const Arguments& arguments, const Ids& ids) {
  if (stacks_ == nullptr) {
    void* memory = mmap(nullptr, kMaxThreads * kStackBytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) misuse("no memory for the stacks of a threadgroup");
    stacks_ = static_cast<char*>(memory);
    for (unsigned i = 0; i < kMaxThreads; ++i) mprotect(stacks_ + i * kStackBytes, kGuardBytes, PROT_NONE);
    threads_.resize(kMaxThreads);
    slots_.resize(kMaxThreads / kLanes);
  }
  const Size3 size = ids.threads_per_threadgroup;
  count_ = size.x * size.y * size.z;
  simdgroups_ = (count_ + kLanes - 1) / kLanes;
  std::mt19937_64 random(schedule_.seed ^ (number_ * 0x9e3779b97f4a7c15u));
  put_in_order(lane_order_, kLanes, schedule_.order, random);
  put_in_order(simdgroup_order_, simdgroups_, schedule_.order, random);

  unsigned i = 0;
  for (unsigned z = 0; z < size.z; ++z) {
    for (unsigned y = 0; y < size.y; ++y) {
      for (unsigned x = 0; x < size.x; ++x, ++i) {
        Thread& thread = threads_[i];
        thread.state = State::ready;
        thread.exchanges = 0;
        // Tops at the same place of their pages would all meet in the same lines of the first-level cache.
        thread.stack = new_stack(stacks_ + (i + 1) * kStackBytes - i % 61 * 192, &Threadgroup::start);
        Ids& own = thread.ids = ids;
        own.thread_position_in_threadgroup = {x, y, z};
        own.thread_position_in_grid = {ids.thread_position_in_grid.x + x, ids.thread_position_in_grid.y + y,
                                       ids.thread_position_in_grid.z + z};
        own.thread_index_in_threadgroup = i;
        own.simdgroup_index_in_threadgroup = i / kLanes;
        own.thread_index_in_simdgroup = i % kLanes;
      }
    }
  }
  function_ = function;
  arguments_ = &arguments;
  failure_.clear();
  simdgroup_ = 0;
  running = this;
  for (lane_ = 0; thread_at(0, lane_) >= count_;) ++lane_;
  current_ = thread_at(0, lane_);
  emulator_switch(&main_stack_, threads_[current_].stack);
  running = nullptr;
  return failure_;
}

const Runtime* Threadgroup::runtime() {
  static constexpr Runtime functions = {
      [](int line) { running->barrier(line); },
      [](const void* value, unsigned size, const void* site, int line, unsigned* active) {
        return running->exchange(value, size, site, line, active);
      },
      [] { return running->current_ % kLanes; },
  };
  return &functions;
}

void Threadgroup::start() {
  Threadgroup& group = *running;
  const unsigned self = group.current_;
  group.function_(group.arguments_, &group.threads_[self].ids);
  group.threads_[self].state = State::done;
  group.next();
  std::abort();  // nobody switches to a thread that is done
}

void Threadgroup::barrier(int line) {
  Thread& thread = threads_[current_];
  thread.state = State::barrier;
  thread.site = nullptr;
  thread.line = line;
  next();
  thread.state = State::ready;
}

char* Threadgroup::exchange(const void* value, unsigned size, const void* site, int line, unsigned* active) {
  const unsigned self = current_, simdgroup = self / kLanes;
  Thread& thread = threads_[self];
  char* slots = slots_[simdgroup].data() + (thread.exchanges++ & 1) * kLanes * kSlot;
  if (size != 0) std::memcpy(slots + kSlot * (self % kLanes), value, size);
  thread.state = State::simdgroup;
  thread.site = site;
  thread.line = line;
  thread.all_lanes = size == 0;
  next();
  thread.state = State::ready;
  *active = active_[simdgroup];
  return slots;
}

void Threadgroup::jump(unsigned thread) {
  const unsigned from = current_;
  if (thread == from) return;
  current_ = thread;
  emulator_switch(&threads_[from].stack, threads_[thread].stack);
}

bool Threadgroup::jump_to_first_lane() {
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    const unsigned thread = thread_at(simdgroup_, lane);
    if (!lives(thread)) continue;
    lane_ = lane;
    jump(thread);
    return true;
  }
  return false;
}

// Whoever calls this waits or is done. It returns when its thread shall go on.
void Threadgroup::next() {
  for (unsigned lane = lane_ + 1; lane < kLanes; ++lane) {
    const unsigned thread = thread_at(simdgroup_, lane);
    if (!lives(thread)) continue;
    lane_ = lane;
    return jump(thread);
  }
  end_of_pass();
}

void Threadgroup::end_of_pass() {
  check_simdgroup();
  const unsigned first = simdgroup_order_[simdgroup_] * kLanes;
  for (unsigned i = first; i < first + kLanes; ++i) {
    if (!lives(i)) continue;
    if (threads_[i].state == State::barrier) break;
    // An exchange is complete. Who is active is decided now: lanes may return while others still read.
    unsigned mask = 0;
    for (unsigned lane = 0; lane < kLanes; ++lane) mask |= (lives(first + lane) ? 1u : 0u) << lane;
    active_[first / kLanes] = mask;
    jump_to_first_lane();
    return;
  }
  while (++simdgroup_ < simdgroups_) {
    if (jump_to_first_lane()) return;
  }
  release_barrier();
}

void Threadgroup::check_simdgroup() {
  const unsigned begin = simdgroup_order_[simdgroup_] * kLanes, end = std::min(begin + kLanes, count_);
  unsigned first = count_;
  bool some_done = false;
  for (unsigned i = begin; i < end; ++i) {
    some_done = some_done || !lives(i);
    if (!lives(i)) continue;
    if (first == count_) first = i;
    const Thread &a = threads_[first], &b = threads_[i];
    if (a.state == State::barrier && b.state == State::barrier) continue;  // compared with the whole threadgroup
    if (a.site != b.site) {
      fail(fmt::format("divergent simdgroup function: {} and {} wait at different places", where(first), where(i)));
    }
  }
  if (first != count_ && threads_[first].state == State::simdgroup && threads_[first].all_lanes && some_done) {
    fail(fmt::format("simdgroup_barrier: {} waits, but other threads of its simdgroup have returned", where(first)));
  }
}

void Threadgroup::release_barrier() {
  unsigned first = count_, done = 0;
  for (unsigned i = 0; i < count_; ++i) {
    if (!lives(i)) {
      ++done;
    } else if (first == count_) {
      first = i;
    } else if (threads_[i].line != threads_[first].line) {
      fail(fmt::format("divergent threadgroup_barrier: {} and {} wait at different barriers", where(first), where(i)));
    }
  }
  if (first == count_) {  // all have returned
    emulator_switch(&threads_[current_].stack, main_stack_);
    std::abort();
  }
  if (done != 0) {
    fail(fmt::format("threadgroup_barrier: {} waits, but {} of {} threads have returned", where(first), done, count_));
  }
  simdgroup_ = 0;
  jump_to_first_lane();
}

void Threadgroup::fail(std::string message) {
  failure_ = std::move(message);
  emulator_switch(&threads_[current_].stack, main_stack_);
  std::abort();
}

std::string Threadgroup::where(unsigned thread) const {
  return fmt::format("thread {} in line {}", thread, threads_[thread].line);
}

}  // namespace emulator

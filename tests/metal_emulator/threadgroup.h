// Runs the threads of one threadgroup on one OS thread: one after another where the kernel has no barriers, else each
// on a stack of its own, changing at every barrier and simdgroup function in an order that can be chosen.
//
// When a simdgroup has run as far as it can, all its lanes must wait at the same place or have returned; when the
// threadgroup has, all its threads must wait at the same barrier.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "include/metal_emulator/abi.h"
#include "settings.h"

namespace emulator {

inline constexpr unsigned kMaxThreads = 1024;
inline constexpr unsigned kLanes = 32;

using ThreadFunction = void (*)(const Arguments*, const Ids*);
using GroupFunction = void (*)(const Arguments*, Ids*, const Place*, unsigned count);

class Threadgroup {
 public:
  Threadgroup() = default;
  ~Threadgroup();
  Threadgroup(const Threadgroup&) = delete;
  Threadgroup& operator=(const Threadgroup&) = delete;

  /// Must be called before the first run of a dispatch. `number` distinguishes the threadgroups under one seed.
  void order(const Schedule& schedule, std::uint64_t number);
  /// `ids` has the threadgroup's numbers; thread_position_in_grid is that of its first thread.
  void run(GroupFunction function, const Arguments& arguments, Ids ids);
  /// The same for a kernel with barriers. What came of it: empty, or the kernel's mistake.
  std::string run(ThreadFunction function, const Arguments& arguments, const Ids& ids);

  static const Runtime* runtime();

 private:
  enum class State { ready, barrier, simdgroup, done };
  struct Thread {
    void* stack = nullptr;
    State state = State::ready;
    const void* site = nullptr;
    int line = 0;
    bool all_lanes = false;  // simdgroup_barrier: also those that have returned
    unsigned exchanges = 0;
    Ids ids;
  };

  static void start();
  void barrier(int line);
  char* exchange(const void* value, unsigned size, const void* site, int line, unsigned* active);

  unsigned thread_at(unsigned simdgroup, unsigned lane) const {
    return simdgroup_order_[simdgroup] * kLanes + lane_order_[lane];
  }
  bool lives(unsigned thread) const { return thread < count_ && threads_[thread].state != State::done; }
  bool jump_to_first_lane();
  void next();
  void end_of_pass();
  void check_simdgroup();
  void release_barrier();
  void jump(unsigned thread);
  [[noreturn]] void fail(std::string message);
  std::string where(unsigned thread) const;

  std::array<unsigned, kLanes> lane_order_{}, simdgroup_order_{};
  Schedule schedule_;
  std::uint64_t number_ = 0;

  char* stacks_ = nullptr;
  std::vector<Thread> threads_;
  std::array<unsigned, kLanes> active_{};                    // lanes per simdgroup at its last exchange
  std::vector<std::array<char, 2 * kLanes * kSlot>> slots_;  // of two exchanges: the last is still being read
  unsigned count_ = 0, simdgroups_ = 0;
  unsigned simdgroup_ = 0, lane_ = 0, current_ = 0;  // the first two are positions in the order
  void* main_stack_ = nullptr;
  ThreadFunction function_ = nullptr;
  const Arguments* arguments_ = nullptr;
  std::string failure_;
};

}  // namespace emulator

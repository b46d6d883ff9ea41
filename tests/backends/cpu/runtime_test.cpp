// What the CPU backend's kernels stand on: instruction sets, threads, floating-point state and memory.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <fstream>
#include <stdexcept>
#include <thread>
#include <vector>

#include <lockstep/error.h>
#include <lockstep/threads.h>

#include "backends/cpu/cpu_limits.h"
#include "backends/cpu/memory_pool.h"
#include "backends/cpu/thread_pool.h"
#include "backends/cpu/threads.h"
#include "core/fp_state.h"
#include "support/program_builder.h"

namespace lockstep {
namespace {

using testing::ProgramBuilder;
using testing::Random;
using testing::same_bits;

/// exp and a sum over many rows: enough work for several threads.
ProgramBuilder busy_program() {
  Random random(1);
  ProgramBuilder builder({64}, {5000});
  const int slot = builder.add_buffer(random, DType::f32, 64 * 5000);
  const int x = builder.load(builder.add_input(slot, DType::f32, View::contiguous({64, 5000})));
  const int e = builder.op(Op::exp, ComputeType::f32, x);
  builder.output(builder.op(Op::div, ComputeType::f32, e, builder.reduce(ReduceOp::sum, e)), DType::f32);
  return builder;
}

TEST(Isa, ErrorsNameWhatIsAvailable) {
  EXPECT_EQ(choose_isa(""), available_isas().back());
  for (Isa isa : available_isas()) EXPECT_EQ(choose_isa(name_of(isa)), isa);
  EXPECT_THROW(choose_isa("sse9"), ValueError);
  for (Isa isa : kIsas) {
    if (std::find(available_isas().begin(), available_isas().end(), isa) != available_isas().end()) continue;
    EXPECT_THROW(choose_isa(name_of(isa)), DeviceError);
  }
}

TEST(Threads, CoverEveryElementOnceInWholeGrains) {
  for (int threads : {1, 2, 7}) {
    set_num_threads(threads);
    for (std::int64_t count : {0, 1, 99, 100, 1001}) {
      std::vector<std::atomic<int>> seen(static_cast<std::size_t>(count));
      parallel_for(count, 10, [&](std::int64_t begin, std::int64_t end) {
        EXPECT_EQ(begin % 10, 0);
        for (std::int64_t i = begin; i < end; ++i) ++seen[static_cast<std::size_t>(i)];
      });
      for (const auto& times : seen) EXPECT_EQ(times, 1);
    }
  }
  set_num_threads(2);
}

TEST(Threads, PassExceptionsOnAndRunNestedWorkInline) {
  set_num_threads(2);
  EXPECT_THROW(parallel_for(100, 1, [](std::int64_t, std::int64_t) { throw std::runtime_error("task"); }),
               std::runtime_error);
  parallel_for(100, 1, [](std::int64_t, std::int64_t) {
    EXPECT_TRUE(in_parallel_region());
    const std::thread::id here = std::this_thread::get_id();
    parallel_for(100, 1, [&](std::int64_t, std::int64_t) { EXPECT_EQ(std::this_thread::get_id(), here); });
  });
  EXPECT_FALSE(in_parallel_region());
  EXPECT_THROW(set_num_threads(0), ValueError);
}

TEST(Threads, AnApplicationsExecutorGivesTheSameBits) {
  const ProgramBuilder builder = busy_program();
  const ProgramBuilder::Buffers expected = builder.run_reference();
  set_num_threads(3);
  std::atomic<int> calls = 0;
  set_parallel_executor([&](std::size_t tasks, const std::function<void(std::size_t)>& task) {
    ++calls;
    std::vector<std::thread> threads;
    for (std::size_t i = tasks; i-- > 0;) threads.emplace_back([&task, i] { task(i); });
    for (std::thread& thread : threads) thread.join();
  });
  EXPECT_TRUE(same_bits(builder.program(), expected, builder.run(selected_isa())));
  EXPECT_GT(calls, 0);
  set_parallel_executor({});
  EXPECT_TRUE(same_bits(builder.program(), expected, builder.run(selected_isa())));
}

TEST(Threads, ConcurrentRunsOfOneProgram) {
  const ProgramBuilder builder = busy_program();
  const ProgramBuilder::Buffers expected = builder.run_reference();
  const RowProgram program(builder.program());
  set_num_threads(2);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 5; ++i) {
        ProgramBuilder::Buffers buffers = builder.buffers();
        builder.run(program, buffers);
        EXPECT_TRUE(same_bits(builder.program(), expected, buffers));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(ThreadPool, RunsEveryTaskOnceForManyCallersAwakeOrAsleep) {
  ThreadPool pool(3);
  const auto call_often = [&pool] {
    for (int call = 0; call < 200; ++call) {
      std::array<std::atomic<int>, 17> seen{};
      pool.run(seen.size(), [&](std::size_t i) { ++seen[i]; });
      for (const auto& times : seen) EXPECT_EQ(times, 1);
      if (call % 100 == 99)
        std::this_thread::sleep_for(std::chrono::milliseconds(3));  // longer than threads look for work
    }
  };
  std::vector<std::thread> callers;  // more than the pool keeps calls of
  for (int i = 0; i < 12; ++i) callers.emplace_back(call_often);
  for (std::thread& caller : callers) caller.join();
}

TEST(ThreadPool, NeighboursRunOnOneThreadAndIdleOnesTakeFromOthers) {
  ThreadPool pool(2);
  std::array<std::thread::id, 8> ran{};
  std::atomic<bool> first_runs = false;
  std::atomic<bool> last_ran = false;
  // The first task ends only when the last has run: on the other thread, which gets to it first, and whose own first task
  // waits for this thread, which may be stopped before it takes one.
  pool.run(ran.size(), [&](std::size_t i) {
    ran[i] = std::this_thread::get_id();
    if (i == 0) first_runs = true;
    while (i == ran.size() / 2 && !first_runs) std::this_thread::yield();
    if (i + 1 == ran.size()) last_ran = true;
    while (i == 0 && !last_ran) std::this_thread::yield();
  });
  EXPECT_EQ(ran[0], std::this_thread::get_id());
  for (std::size_t i = 4; i < ran.size(); ++i) EXPECT_NE(ran[i], ran[0]) << i;
}

TEST(ThreadPool, AfterAnExceptionItLeavesTasksOutAndGoesOn) {
  ThreadPool pool(2);
  std::atomic<int> ran = 0;
  const auto failing = [&](std::size_t) {
    ++ran;
    throw std::runtime_error("task");
  };
  EXPECT_THROW(pool.run(1000, failing), std::runtime_error);
  EXPECT_LE(ran, 2);
  ran = 0;
  pool.run(1000, [&](std::size_t) { ++ran; });
  EXPECT_EQ(ran, 1000);
}

TEST(Threads, TheCallersFloatingPointStateDoesNotMatterAndIsKept) {
  const ProgramBuilder builder = busy_program();
  const ProgramBuilder::Buffers expected = builder.run_reference();
  const std::uint64_t before = FloatingPointScope::control_word();
#if defined(__x86_64__)
  const std::uint64_t flushing = before | 0x8040u | 0x6000u;  // FTZ, DAZ, round towards zero
#else
  const std::uint64_t flushing = before | (std::uint64_t{1} << 24);
#endif
  FloatingPointScope::set_control_word(flushing);
  const ProgramBuilder::Buffers actual = builder.run(selected_isa());
  const std::uint64_t after = FloatingPointScope::control_word();
  FloatingPointScope::set_control_word(before);
  EXPECT_EQ(after & ~std::uint64_t{0x3f}, flushing & ~std::uint64_t{0x3f});  // but for the sticky exception flags
  EXPECT_TRUE(same_bits(builder.program(), expected, actual));
}

TEST(MemoryPool, RoundsToEightSizesPerPowerOfTwo) {
  EXPECT_EQ(MemoryPool::block_size(0), 64u);
  EXPECT_EQ(MemoryPool::block_size(65), 128u);
  EXPECT_EQ(MemoryPool::block_size(1024), 1024u);
  EXPECT_EQ(MemoryPool::block_size(1025), 1152u);
  for (std::size_t bytes = 1; bytes < 100000; bytes += 37) {
    const std::size_t size = MemoryPool::block_size(bytes);
    EXPECT_GE(size, bytes);
    EXPECT_EQ(MemoryPool::block_size(size), size);
    EXPECT_LE(size, std::max<std::size_t>(bytes + bytes / 8 + 64, 64));
  }
}

TEST(MemoryPool, ReusesBlocksAndCountsThem) {
  MemoryPool pool;
  void* a = pool.allocate(1000);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(a) % MemoryPool::kAlignment, 0u);
  pool.release(a, 1000);
  EXPECT_EQ(pool.statistics().live, 0u);
  EXPECT_EQ(pool.statistics().cached, 1024u);
  void* b = pool.allocate(1010);
  EXPECT_EQ(a, b);
  EXPECT_EQ(pool.statistics().reused, 1u);
  pool.release(b, 1010);
  pool.trim(0);
  EXPECT_EQ(pool.statistics().cached, 0u);
  EXPECT_EQ(pool.statistics().peak, 1024u);
}

TEST(MemoryPool, TellsWhenMemoryIsExhausted) {
  MemoryPool pool;
  EXPECT_THROW(pool.allocate(std::size_t{1} << 60), OutOfMemoryError);
  EXPECT_EQ(pool.statistics().live, 0u);
}

}  // namespace
}  // namespace lockstep

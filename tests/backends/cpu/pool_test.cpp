// Max pools line by line, against the reference backend by equality of bits.
#include "backends/cpu/row/pool.h"

#include <gtest/gtest.h>

#include <lockstep/threads.h>

#include "support/program_builder.h"

namespace lockstep {
namespace {

using testing::ProgramBuilder;
using testing::Random;
using testing::same_bits;

struct Window {
  std::int64_t size, kernel, stride, padding, dilation;
  std::int64_t results() const { return (size + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1; }
};

/// A max pool over planes of lines (height) x (width), and whether compile_pool takes it on every set with vectors.
void expect_same_bits(Random& random, std::int64_t planes, const Window& height, const Window& width, bool canonical) {
  ProgramBuilder builder({planes, height.results(), width.results()}, {height.kernel, width.kernel});
  const int slot = builder.add_buffer(random, DType::f32, planes * height.size * width.size, !canonical);
  View view = View::contiguous({planes, height.size, width.size});
  view = *view.padded(1, height.padding, height.padding, 0xff800000u);
  view = *view.padded(2, width.padding, width.padding, 0xff800000u);
  view = view.windowed(1, height.kernel, height.results(), height.stride, height.dilation);
  view = view.windowed(2, width.kernel, width.results(), width.stride, width.dilation);
  const int x = builder.load(builder.add_input(slot, DType::f32, view, canonical));
  builder.output(builder.reduce(ReduceOp::max, x), DType::f32);
  const ProgramBuilder::Buffers expected = builder.run_reference();
  const int threads_before = num_threads();
  for (const Isa isa : available_isas()) {
    const auto pool = compile_pool(builder.program(), isa);
    EXPECT_EQ(pool == nullptr, isa == Isa::scalar || (width.stride == 4 && width.results() < 16));
    if (pool == nullptr) continue;
    for (const int threads : {1, 2}) {
      set_num_threads(threads);
      ProgramBuilder::Buffers buffers = builder.buffers();
      std::vector<std::byte*> slots;
      for (std::vector<std::byte>& buffer : buffers) slots.push_back(buffer.data());
      pool->run({slots, {}});
      EXPECT_TRUE(same_bits(builder.program(), expected, buffers))
          << name_of(isa) << " with " << threads << " threads, " << planes << " planes, width " << width.size
          << ", kernel " << width.kernel << ", stride " << width.stride << ", padding " << width.padding
          << ", dilation " << width.dilation;
    }
  }
  set_num_threads(threads_before);
}

TEST(Pool, WindowsOfEveryWidth) {
  Random random(11);
  for (std::int64_t size = 3; size < 150; size += size < 40 ? 1 : 17) {
    for (const std::int64_t stride : {1, 2, 4}) {
      const Window width{size, 3, stride, 1, 1};
      expect_same_bits(random, 2, {5, 3, stride, 1, 1}, width, size % 2 == 0);
    }
  }
}

TEST(Pool, WindowsOfEveryForm) {
  Random random(12);
  for (const std::int64_t kernel : {1, 2, 5}) {
    for (const std::int64_t stride : {1, 2, 4}) {
      for (const std::int64_t dilation : {1, 2}) {
        for (std::int64_t padding = 0; padding <= kernel / 2; ++padding) {
          expect_same_bits(random, 3, {11, kernel, 2, padding, 1}, {37, kernel, stride, padding, dilation}, false);
        }
      }
    }
  }
}

TEST(Pool, ManyPlanesAreSpreadOverThreads) {
  Random random(13);
  expect_same_bits(random, 64, {33, 3, 2, 1, 1}, {70, 3, 2, 1, 1}, true);
}

TEST(Pool, OtherProgramsAreNotPools) {
  Random random(14);
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::argmax}) {
    ProgramBuilder builder({4, 6}, {3});
    const int slot = builder.add_buffer(random, DType::f32, 4 * 8);
    const View view = View::contiguous({4, 8}).windowed(1, 3, 6, 1, 1);
    const int x = builder.load(builder.add_input(slot, DType::f32, view));
    builder.output(builder.reduce(op, x), op == ReduceOp::sum ? DType::f32 : DType::i64);
    for (const Isa isa : available_isas()) EXPECT_EQ(compile_pool(builder.program(), isa), nullptr);
  }
}

}  // namespace
}  // namespace lockstep

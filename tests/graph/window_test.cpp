// When pending work is computed, and that it always leaves a sound, bounded state.
#include "graph/window.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "backends/backend.h"
#include "support/long_forms.h"
#include "support/tensors.h"

namespace lockstep {
namespace {

std::size_t pending() { return graph::window_statistics(Device{}).pending; }

TEST(Window, NothingIsComputedBeforeARead) {
  const Tensor x = random_tensor({10}, DType::f32, 1).eval();
  const std::uint64_t before = graph::window_statistics(Device{}).kernels;
  const Tensor y = x * 2.0 + 1.0;
  EXPECT_EQ(graph::window_statistics(Device{}).kernels, before);
  y.to_vector<float>();
  EXPECT_EQ(graph::window_statistics(Device{}).kernels, before + 1);
}

TEST(Window, LoopThatNeverReadsStaysBounded) {
  const Tensor one = ones({16}).eval();
  Tensor total = one;
  for (int i = 0; i < 20000; ++i) {
    total = total + one;
    ASSERT_LE(pending(), 1100u);
  }
  EXPECT_EQ(total.narrow(0, 0, 1).item<float>(), 20001.0f);
}

TEST(Window, LoopOverConstantsStaysBounded) {
  Tensor total = zeros({});
  for (int i = 0; i < 5000; ++i) total = total + 1.0;
  EXPECT_EQ(total.item<float>(), 5000.0f);
}

TEST(Window, GraphAMillionDeepIsComputedAndFreed) {
  const WithWindow window(kUnbounded);
  const Tensor one = ones({1}).eval();
  Tensor x = one;
  for (int i = 0; i < enough_of(1000000); ++i) x = x + one;
  x = Tensor();  // never computed: freeing it must not recurse
  for (int i = 0; i < 20000; ++i) x = x.defined() ? x + one : one;
  EXPECT_EQ(x.item<float>(), 20000.0f);
}

TEST(Window, GraphAMillionDeepWithDefaultLimits) {
  const Tensor one = ones({1}, {.dtype = DType::i64}).eval();
  Tensor x = one;
  for (int i = 0; i < enough_of(1000000); ++i) x = x + one;
  EXPECT_EQ(x.item<std::int64_t>(), enough_of(1000000) + 1);
}

TEST(Window, ManyPendingBytesFlushThemselves) {
  const WithWindow window({.nodes = 1024, .depth = 256, .bytes = 1 << 20});
  const Tensor x = ones({1 << 16}).eval();
  const std::uint64_t before = graph::window_statistics(Device{}).kernels;
  std::vector<Tensor> held;
  for (int i = 0; i < 16; ++i) held.push_back(x + static_cast<double>(i));
  EXPECT_GT(graph::window_statistics(Device{}).kernels, before);
  EXPECT_LE(pending(), 4u);
}

TEST(Window, DroppedValuesAreNeverComputed) {
  const Tensor x = ones({8}).eval();
  const std::uint64_t before = graph::window_statistics(Device{}).kernels;
  for (int i = 0; i < 5000; ++i) exp(x + static_cast<double>(i));
  EXPECT_EQ(graph::window_statistics(Device{}).kernels, before);
}

TEST(Window, InitialWeightsThatAreReplacedAreNeverComputed) {
  const Tensor x = ones({4}).eval();
  const std::uint64_t before = graph::window_statistics(Device{}).kernels;
  Tensor weight = randn({64, 64}) * 0.02;
  (x + 1.0).eval();  // a flush of the device
  weight = zeros({64, 64});
  EXPECT_EQ(graph::window_statistics(Device{}).kernels, before + 1);
}

TEST(Window, HeldRandomNumbersAreDrawnOnce) {
  const Tensor noise = rand({100});
  const Tensor a = noise + 0.0;
  EXPECT_BITS_EQ(a, noise);
  EXPECT_BITS_EQ(noise - a, zeros({100}));
}

TEST(Window, RepeatedStepsReuseTheirPlan) {
  Tensor x = ones({32}).eval();
  const auto step = [&](double scale) { return (x = (x * scale + 1.0).eval()); };
  step(1.5);
  const graph::WindowStatistics before = graph::window_statistics(Device{});
  for (int i = 0; i < 10; ++i) step(0.25 * i);  // other scalars, same structure
  const graph::WindowStatistics after = graph::window_statistics(Device{});
  EXPECT_EQ(after.plans_made, before.plans_made);
  EXPECT_EQ(after.plans_reused, before.plans_reused + 10);
}

// A loop without an optimiser whose loss is computed before it is read, by a window that fills on the way back.
TEST(Window, LoopThatReadsItsLossReusesItsPlans) {
  const WithWindow window({.nodes = 32, .depth = 256, .bytes = 1 << 30});
  Tensor weight = random_tensor({4, 4}, DType::f32, 1).eval();
  const Tensor x = random_tensor({4, 4}, DType::f32, 2).eval();
  std::uint64_t plans = 0;
  for (int step = 0; step < 12; ++step) {
    const Tensor leaf = requires_grad(weight);
    Tensor y = x;
    for (int layer = 0; layer < 7; ++layer) y = tanh(matmul(y, leaf));
    const Tensor loss = sum(y * y);
    weight = detach(leaf) - gradients(loss, {leaf})[0] * 0.01;
    loss.item<float>();
    EXPECT_EQ(pending(), 0u);
    if (step == 2) plans = graph::window_statistics(Device{}).plans_made;
  }
  EXPECT_EQ(graph::window_statistics(Device{}).plans_made, plans);
}

// What died with a flush is not counted as pending: else where windows of equal work end would depend on the one before.
TEST(Window, WindowsOfEqualWorkEndAtTheSamePlaces) {
  const WithWindow window({.nodes = 32, .depth = 256, .bytes = 1 << 30});
  const Tensor weight = random_tensor({4, 4}, DType::f32, 1).eval();
  const Tensor x = random_tensor({4, 4}, DType::f32, 2).eval();
  std::uint64_t plans = 0;
  for (int time = 0; time < 6; ++time) {
    Tensor y = x;
    for (int layer = 0; layer < 11; ++layer) y = y + tanh(matmul(y, weight)) * sum(y * y);
    sum(y).item<float>();
    EXPECT_EQ(pending(), 0u);
    if (time == 0) plans = graph::window_statistics(Device{}).plans_made;
  }
  EXPECT_EQ(graph::window_statistics(Device{}).plans_made, plans);
}

TEST(Window, APlanOfSeveralDevicesHasTheKernelsOfEach) {
  const Device ref = Device::parse("ref");
  const Tensor here = exp(random_tensor({10}, DType::f32, 1).eval()) + 1.0;
  const Tensor there = sum(random_tensor({10}, DType::f32, 1, ref).eval() * 2.0);
  std::vector<std::string> both = plan({here});
  for (const std::string& line : plan({there})) both.push_back(line);
  ASSERT_EQ(both.size(), 2u);
  EXPECT_THAT(plan({there, here}), ::testing::UnorderedElementsAreArray(both));
  here.eval();
  there.eval();
}

// A flush of any device whose values it looks at: their inputs go away at its end.
TEST(Window, APlanWaitsForTheThreadsThatFlushItsDevices) {
  const Device ref = Device::parse("ref");
  const auto pending_there = [&] { return graph::window_statistics(ref).pending; };
  const Tensor here = random_tensor({4}, DType::f32, 1).eval() + 1.0;
  const Tensor wide = random_tensor({192, 192}, DType::f32, 2, ref).eval();
  const Tensor slow = matmul(wide, wide);
  std::thread other([&] { slow.eval(); });
  while (pending_there() != 0) std::this_thread::yield();  // until the flush has taken it
  const std::vector<std::string> kernels = plan({here, slow});
  other.join();
  EXPECT_EQ(kernels, plan({here}));
  here.eval();
}

TEST(Window, ReadingGivenDataComputesNothing) {
  const Tensor x = random_tensor({10}, DType::f32, 1);
  const Tensor y = x + 1.0;
  x.to_vector<float>();
  EXPECT_EQ(pending(), 1u);
}

TEST(Window, PlansOfDifferentScalarsDiffer) {
  const Tensor x = ones({4}).eval();
  EXPECT_EQ((x * 2.0 + 1.0).narrow(0, 0, 1).item<float>(), 3.0f);
  EXPECT_EQ((x * 5.0 + 7.0).narrow(0, 0, 1).item<float>(), 12.0f);
  EXPECT_EQ(full({4}, 2.0).narrow(0, 1, 1).item<float>(), 2.0f);
  EXPECT_EQ(full({4}, 9.0).narrow(0, 1, 1).item<float>(), 9.0f);
}

TEST(Window, AViewKeepsWhatItLooksAt) {
  Tensor row;
  {
    const Tensor x = arange(0, 12, 1, {.dtype = DType::f32}).reshape({3, 4}) * 2.0;
    row = x.select(0, 1);
  }
  EXPECT_EQ(row.to_vector<float>(), (std::vector<float>{8, 10, 12, 14}));
}

TEST(Window, AViewOfAPendingValueIsComputedByAFlush) {
  const Tensor x = ones({4}).eval();
  const Tensor view = (x + 1.0).narrow(0, 1, 2);  // only the view is held
  (x + 5.0).eval();
  EXPECT_EQ(pending(), 0u);
  EXPECT_EQ(view.to_vector<float>(), (std::vector<float>{2, 2}));
}

TEST(Window, ThreadsShareTensors) {
  const Tensor shared = random_tensor({256}, DType::f32, 3) * 2.0;  // pending when the threads start
  const std::vector<float> expected = (random_tensor({256}, DType::f32, 3) * 2.0).to_vector<float>();
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        const Tensor mine = shared + static_cast<double>(t);
        const std::vector<float> values = (mine - static_cast<double>(t) * 1.0).to_vector<float>();
        wrong += values.size() == 256 ? 0 : 1;
        wrong += shared.to_vector<float>() == expected ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Window, FailedFlushLosesNothing) {
  const WithWindow window(kUnbounded);
  const Tensor x = ones({8}).eval();
  const Tensor good = x + 1.0;
  // Recording is cheap however large; computing does not fit any memory.
  Tensor huge = x.reshape({8, 1, 1}).expand({8, 1 << 30, 1 << 20}) + 1.0;
  EXPECT_THROW(good.to_vector<float>(), OutOfMemoryError);
  EXPECT_THROW(huge.eval(), OutOfMemoryError);
  EXPECT_GE(pending(), 2u);
  huge = Tensor();
  EXPECT_EQ(good.to_vector<float>(), std::vector<float>(8, 2.0f));
}

TEST(Window, DeletersRunOutsideTheLocks) {
  std::vector<float> memory(16, 3.0f);
  bool deleted = false;
  {
    Tensor x = Tensor::from_blob(memory.data(), {16}, DType::f32, [&] {
      ones({2}).eval();  // would wait forever if a flush still held its lock
      deleted = true;
    });
    const Tensor y = x + 1.0;
    x = Tensor();
    y.eval();
    EXPECT_EQ(y.narrow(0, 0, 1).item<float>(), 4.0f);
  }
  EXPECT_TRUE(deleted);
}

}  // namespace
}  // namespace lockstep

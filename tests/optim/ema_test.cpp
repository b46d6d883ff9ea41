#include <lockstep/optim/ema.h>

#include "graph/window.h"
#include "optim/cases.h"

namespace lockstep {
namespace {

using optim::EMA;
using test::Cells;
using test::expect_near;

TEST(EMA, AveragesWhatTheParametersWere) {
  Cells cells;
  optim::SGD optimizer(cells.parameters(), {.lr = 0.1});
  EMA average(cells, {.decay = 0.75});
  EXPECT_THROW(average.applied(), ValueError);
  Tensor expected;
  for (int step = 1; step <= 4; ++step) {
    cells.set_gradients(step);
    optimizer.step();
    average.update();
    const Tensor now = detach(cells.a);
    expected = expected.defined() ? expected * 0.75 + now * 0.25 : now;
  }
  EXPECT_EQ(average.updates(), 4);
  const Tensor trained = detach(cells.a);
  {
    const EMA::Applied scope = average.applied();
    expect_near(cells.a, expected, 1e-12, "a");
  }
  EXPECT_BITS_EQ(cells.a.tensor(), trained);
}

TEST(EMA, AnUpdateIsOneKernel) {
  Cells cells(DType::f32);
  optim::SGD optimizer(cells.parameters(), {.lr = 0.1});
  EMA average(cells);
  for (int step = 1; step <= 3; ++step) {
    cells.set_gradients(step);
    optimizer.step();
    const std::uint64_t before = graph::window_statistics(Device{}).kernels;
    average.update();
    const std::uint64_t after = graph::window_statistics(Device{}).kernels;
    if (step < 3) continue;
    EXPECT_EQ(after - before, 1u);
  }
}

TEST(EMA, AveragesOfLowPrecisionAreF32AndResume) {
  Cells cells(DType::bf16);
  EMA average(cells, {.decay = 0.9});
  average.update();
  cells.a.set(ones({3, 5}, {.dtype = DType::bf16}));
  average.update();
  const nn::StateDict state = average.state_dict();
  EXPECT_EQ(state.find("average.a")->dtype(), DType::f32);
  EMA resumed(cells, {.decay = 0.9});
  resumed.load_state_dict(state);
  average.update();
  resumed.update();
  EXPECT_BITS_EQ(*resumed.state_dict().find("average.a"), *average.state_dict().find("average.a"));
  nn::StateDict::Map broken = state;
  broken.erase("average.b");
  expect_error<ValueError>([&] { resumed.load_state_dict(broken); }, {"EMA", "missing", "average.b"});
}

TEST(EMA, BuffersAreAveragedIfAskedFor) {
  struct Net : nn::Module {
    nn::BatchNorm2d norm{*this, "norm", 2};
  } net;
  EMA parameters(net);
  EMA all(net, {.use_buffers = true});
  parameters.update();
  all.update();
  EXPECT_EQ(parameters.state_dict().size(), 1u + 2u);
  EXPECT_EQ(all.state_dict().size(), 1u + 4u);
  EXPECT_THROW(EMA(net, {.decay = 2}), ValueError);
}

}  // namespace
}  // namespace lockstep

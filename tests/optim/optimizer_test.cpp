// What all optimisers share: groups, errors, kernels of a step, saved states.
#include <lockstep/optim/optimizer.h>

#include <limits>

#include <lockstep/memory.h>

#include "graph/make.h"
#include "graph/window.h"
#include "optim/cases.h"

namespace lockstep {
namespace {

using optim::Adam;
using optim::AdamW;
using optim::SGD;
using test::Cells;
using test::recorded;

struct Net : nn::Module {
  nn::Linear hidden{*this, "hidden", 8, 20};
  nn::Linear out{*this, "out", 20, 3};
  Tensor forward(const Tensor& x) const { return out(tanh(hidden(x))); }
};

Tensor loss_of(const Net& net, std::uint64_t seed, Device device = {}) {
  const Tensor x = random_tensor({16, 8}, DType::f32, seed, device);
  return mean(square(net.forward(x) - x.narrow(1, 2, 3)));
}

struct Large : nn::Module {
  std::vector<nn::Parameter> all;
  explicit Large(std::int64_t each) {
    for (const char* name : {"a", "b", "c"}) all.emplace_back(*this, name, ones({each += 16}));
  }
};

// New values and state beside the old ones: of a part of the parameters at a time.
TEST(Optimizer, AStepNeedsLittleMemoryBesides) {
  constexpr std::int64_t kEach = 10 << 20;  // 40 MB, two of which are more than what is changed together
  Large net(kEach);
  AdamW optimizer(net.parameters(), {.lr = 0.5});
  std::size_t peak = 0;
  for (int step = 0; step < 2; ++step) {
    for (nn::Parameter& parameter : net.all) parameter.set_grad(ones(parameter.shape()).eval());
    reset_peak_memory({});
    const std::size_t before = memory_statistics({}).live;
    optimizer.step();
    peak = memory_statistics({}).peak - before;
  }
  EXPECT_LT(peak, 5 * kEach * sizeof(float));  // all at once: 9
}

TEST(Optimizer, AStepWithALossTrains) {
  manual_seed(1);
  Net net;
  AdamW optimizer(net.parameters(), {.lr = 0.02});
  const float before = loss_of(net, 7).item<float>();
  for (int i = 0; i < 60; ++i) optimizer.step(loss_of(net, 7));
  EXPECT_LT(loss_of(net, 7).item<float>(), before / 4);
  EXPECT_FALSE(net.hidden.weight.grad().defined());
}

TEST(Optimizer, AStepIsTheSameInPartsAndEverywhere) {
  same_everywhere([&](Device device) {
    manual_seed(2);
    Net net;
    net.to(device);
    Adam optimizer(net.parameters());
    for (std::uint64_t i = 0; i < 3; ++i) optimizer.step(loss_of(net, i, device));
    return detach(net.hidden.weight);
  });
  manual_seed(3);
  Net one;
  manual_seed(3);
  Net other;
  SGD whole(one.parameters(), {.lr = 0.1, .momentum = 0.9});
  SGD parts(other.parameters(), {.lr = 0.1, .momentum = 0.9});
  for (std::uint64_t i = 0; i < 3; ++i) {
    whole.step(loss_of(one, i));
    parts.zero_grad();
    backward(loss_of(other, i));
    parts.step();
  }
  EXPECT_BITS_EQ(one.out.weight.tensor(), other.out.weight.tensor());
  EXPECT_TRUE(other.out.weight.grad().defined());
}

TEST(Optimizer, GradientsOfSeveralLossesAddUp) {
  manual_seed(4);
  Net one;
  manual_seed(4);
  Net other;
  SGD together(one.parameters(), {.lr = 0.1});
  SGD accumulated(other.parameters(), {.lr = 0.1});
  together.step(add(loss_of(one, 2), loss_of(one, 1)));
  backward(loss_of(other, 1));
  backward(loss_of(other, 2));
  accumulated.step();
  test::expect_near(one.hidden.weight.tensor(), other.hidden.weight.tensor(), 1e-6, "hidden.weight");
}

TEST(Optimizer, ARepeatedStepChangesAllParametersInOneKernel) {
  Cells cells(DType::f32);
  AdamW optimizer(cells.parameters(), {.amsgrad = true});
  for (int step = 1; step <= 3; ++step) {
    cells.set_gradients(step);
    for (const nn::Parameter& parameter : cells.parameters()) parameter.grad().eval();
    const graph::WindowStatistics before = graph::window_statistics(Device{});
    optimizer.step();
    const graph::WindowStatistics after = graph::window_statistics(Device{});
    if (step < 3) continue;
    // At most one for the memory of the gradients, one for each to move there, and one for everything else.
    EXPECT_LE(after.kernels - before.kernels, 1u + 3u + 1u);
    EXPECT_EQ(after.plans_made, before.plans_made);
    EXPECT_EQ(after.pending, 0u);
  }
}

// More parameters than a window is deep: their gradients are moved in several flushes.
TEST(Optimizer, TakesHundredsOfParameters) {
  struct Many : nn::Module {
    std::vector<nn::Parameter> list;
  } net;
  for (int i = 1; i <= 300; ++i) net.list.emplace_back(net, "p" + std::to_string(i), full({i % 20 + 1}, i));
  SGD optimizer(net.parameters(), {.lr = 0.5, .momentum = 0.5});
  for (int step = 0; step < 2; ++step) {
    for (int i = 1; i <= 300; ++i) net.list[static_cast<std::size_t>(i - 1)].set_grad(full({i % 20 + 1}, i));
    optimizer.step();
  }
  // i - 0.5 i - 0.5 (0.5 i + i)
  for (int i = 1; i <= 300; ++i) {
    EXPECT_BITS_EQ(net.list[static_cast<std::size_t>(i - 1)].tensor(), full({i % 20 + 1}, -0.25 * i));
  }
}

TEST(Optimizer, ScheduledRatesReuseThePlan) {
  manual_seed(5);
  Net net;
  Adam optimizer(net.parameters());
  const Tensor x = random_tensor({4, 8}, DType::f32, 1).eval();
  const auto step = [&] { optimizer.step(mean(net.forward(x))); };
  for (int i = 0; i < 3; ++i) step();
  const std::uint64_t made = graph::window_statistics(Device{}).plans_made;
  for (int i = 0; i < 5; ++i) {
    optimizer.set_lr(0.01 / (i + 1));
    step();
  }
  EXPECT_EQ(graph::window_statistics(Device{}).plans_made, made);
}

TEST(Optimizer, GroupsHaveTheirOwnRates) {
  Cells cells;
  SGD optimizer({{.parameters = {cells.a}}, {.parameters = {cells.b, cells.c}, .lr = 0.5, .weight_decay = 0.1}},
                {.lr = 0.25});
  EXPECT_EQ(optimizer.group_count(), 2u);
  EXPECT_EQ(optimizer.lr(0), 0.25);
  EXPECT_EQ(optimizer.lr(1), 0.5);
  cells.set_gradients(1);
  optimizer.step();
  test::expect_near(cells.a, recorded("start.a") - recorded("grad.1.a") * 0.25, 1e-12, "a");
  const Tensor b = recorded("start.b");
  test::expect_near(cells.b, b - (recorded("grad.1.b") + b * 0.1) * 0.5, 1e-12, "b");
  optimizer.set_lr(1, 0);
  const Tensor before = detach(cells.c);
  optimizer.step();
  EXPECT_BITS_EQ(cells.c.tensor(), before);
  optimizer.set_lr(0.125);
  EXPECT_EQ(optimizer.lr(1), 0.125);
  expect_error<IndexError>([&] { optimizer.set_lr(2, 0.1); }, {"2 groups", "optimizer_test.cpp"});
  expect_error<ValueError>([&] { optimizer.set_lr(std::numeric_limits<double>::quiet_NaN()); }, {"finite"});
}

TEST(Optimizer, RefusesListsThatMakeNoSense) {
  Cells cells;
  using List = std::vector<nn::Parameter>;
  expect_error<ValueError>([&] { SGD(List{}); }, {"SGD", "no parameters", "optimizer_test.cpp"});
  expect_error<ValueError>([&] { SGD(List{cells.a, cells.a}); }, {"given twice", "a "});
  expect_error<ValueError>([&] { SGD({{.parameters = {cells.a}}, {.parameters = {cells.a}}}); }, {"given twice"});
  expect_error<ValueError>([&] { SGD(List{nn::Parameter()}); }, {"undefined"});
  SGD optimizer(cells.parameters());
  expect_error<ValueError>([&] { optimizer.step(); }, {"none of the 3 parameters", "backward", "optimizer_test.cpp"});
}

TEST(Optimizer, FrozenAndUnusedParametersStay) {
  Cells cells;
  cells.b.requires_grad(false);
  AdamW optimizer(cells.parameters());
  const Tensor b = detach(cells.b);
  const Tensor c = detach(cells.c);
  optimizer.step(sum(square(cells.a)));
  EXPECT_BITS_EQ(cells.b.tensor(), b);
  EXPECT_BITS_EQ(cells.c.tensor(), c);
  optimizer.step(sum(square(cells.a)) + sum(cells.c));
  EXPECT_EQ(optimizer.state_dict().find("state.b.step"), nullptr);
  EXPECT_EQ(optimizer.state_dict().find("state.a.step")->item<std::int64_t>(), 2);
  EXPECT_EQ(optimizer.state_dict().find("state.c.step")->item<std::int64_t>(), 1);
}

TEST(Optimizer, NoticesParametersThatWereGivenOtherValues) {
  Cells cells;
  SGD optimizer(cells.parameters(), {.lr = 0.5});
  cells.set_gradients(1);
  optimizer.step();
  cells.a.set(zeros({3, 5}, {.dtype = DType::f64}));
  cells.set_gradients(2);
  optimizer.step();
  test::expect_near(cells.a, recorded("grad.2.a") * -0.5, 1e-12, "a");
  // Another optimiser moves them into an arena of its own.
  SGD other({cells.parameters()}, {.lr = 0.5});
  other.step();
  optimizer.step();
  test::expect_near(cells.a, recorded("grad.2.a") * -1.5, 1e-12, "a");
}

TEST(Optimizer, FollowsItsParametersToAnotherDeviceAndDtype) {
  Cells cells(DType::f32);
  Cells stays(DType::f32);
  AdamW optimizer(cells.parameters());
  AdamW reference(stays.parameters());
  for (int step = 1; step <= 4; ++step) {
    if (step == 3) cells.to(Device::parse("ref"));
    cells.set_gradients(step);
    stays.set_gradients(step);
    optimizer.step();
    reference.step();
  }
  EXPECT_BITS_EQ(cells.c.tensor().to(Device{}), stays.c.tensor());
  cells.to(DType::f64);
  cells.set_gradients(5);
  optimizer.step();
  EXPECT_EQ(optimizer.state_dict().find("state.a.exp_avg")->dtype(), DType::f64);
}

TEST(Optimizer, ResumesToTheSameBits) {
  for (const bool skipping : {false, true}) {
    Cells cells(DType::f32);
    Adam optimizer(cells.parameters(), {.lr = 0.1, .amsgrad = true});
    nn::StateDict weights, state;
    for (int step = 1; step <= 6; ++step) {
      if (step == 4) {
        optimizer.set_lr(0.05);
        weights = cells.state_dict();
        state = optimizer.state_dict();
      }
      cells.set_gradients(step, skipping && step == 2);
      optimizer.step();
    }
    Cells again(DType::f32);
    again.load_state_dict(weights);
    Adam resumed(again.parameters(), {.amsgrad = true});
    resumed.load_state_dict(state);
    EXPECT_EQ(resumed.lr(), 0.05);
    for (int step = 4; step <= 6; ++step) {
      again.set_gradients(step);
      resumed.step();
    }
    for (const auto& [name, tensor] : cells.state_dict()) EXPECT_BITS_EQ(*again.state_dict().find(name), tensor);
    const nn::StateDict expected = optimizer.state_dict();
    const nn::StateDict actual = resumed.state_dict();
    ASSERT_EQ(actual.size(), expected.size());
    for (const auto& [name, tensor] : expected) EXPECT_BITS_EQ(*actual.find(name), tensor);
  }
}

TEST(Optimizer, StateHasStableNames) {
  Cells cells;
  Cells twin;
  std::vector<nn::Parameter> all{cells.a, twin.a};
  Adam optimizer(all);
  cells.set_gradients(1);
  twin.set_gradients(2);
  optimizer.step();
  std::vector<std::string> names;
  for (const auto& [name, tensor] : optimizer.state_dict()) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"group.0.lr", "group.0.momentum", "state.a.step", "state.a.exp_avg",
                                             "state.a.exp_avg_sq", "state.a#1.step", "state.a#1.exp_avg",
                                             "state.a#1.exp_avg_sq"}));
}

TEST(Optimizer, RefusesStatesThatDoNotFit) {
  Cells cells;
  Adam optimizer(cells.parameters());
  cells.set_gradients(1);
  optimizer.step();
  using Map = nn::StateDict::Map;
  const Map good = optimizer.state_dict();
  const auto load = [&](const std::function<void(Map&)>& change) {
    Map map = good;
    change(map);
    optimizer.load_state_dict(map);
  };
  const TensorOptions f64{.dtype = DType::f64};
  expect_error<ValueError>([&] { load([](Map& map) { map.erase("state.a.exp_avg"); }); },
                           {"Adam", "missing", "state.a.exp_avg", "f64 [3, 5]", "optimizer_test.cpp"});
  expect_error<ValueError>([&] { load([](Map& map) { map["state.z.step"] = zeros({}); }); },
                           {"unexpected", "state.z.step"});
  expect_error<ShapeError>([&] { load([&](Map& map) { map["state.a.exp_avg"] = zeros({2}, f64); }); },
                           {"misshaped", "wanted [3, 5]"});
  expect_error<DTypeError>([&] { load([](Map& map) {
                                   map["state.a.exp_avg"] = zeros({3, 5});
                                 }); },
                           {"mistyped", "wanted f64"});
  expect_error<ValueError>([&] { load([](Map& map) { map["state.a.step"] = full({}, -1, {.dtype = DType::i64}); }); },
                           {"negative", "-1"});
  expect_error<ValueError>([&] { load([&](Map& map) { map["group.0.lr"] = full({}, -1, f64); }); }, {"out of range"});
  // A parameter may have no state at all: it was never stepped.
  EXPECT_NO_THROW(load([](Map& map) {
    map.erase("state.a.step");
    map.erase("state.a.exp_avg");
    map.erase("state.a.exp_avg_sq");
  }));
}

TEST(Optimizer, LowPrecisionParametersHaveExactMasters) {
  // Steps far below bf16's resolution add up in the master weights, and are lost without them.
  for (const bool master : {true, false}) {
    Cells cells(DType::bf16);
    const Tensor before = detach(cells.a).to(DType::f32);
    SGD optimizer(cells.parameters(), {.lr = 1e-4, .master_weights = master});
    for (int step = 0; step < 100; ++step) {
      for (nn::Parameter& parameter : cells.parameters()) parameter.set_grad(ones_like(detach(parameter)));
      optimizer.step();
    }
    const double moved = mean(before - detach(cells.a).to(DType::f32)).item<float>();
    if (master) {
      EXPECT_NEAR(moved, 0.01, 0.002);
    } else {
      EXPECT_LT(moved, 0.005);
    }
    EXPECT_EQ(optimizer.state_dict().find("state.a.master") != nullptr, master);
  }
}

TEST(Optimizer, MasterWeightsResumeAndNoticeOtherValues) {
  Cells cells(DType::bf16);
  AdamW optimizer(cells.parameters(), {.lr = 1e-3, .master_weights = true});
  nn::StateDict weights, state;
  for (int step = 1; step <= 6; ++step) {
    if (step == 4) {
      weights = cells.state_dict();
      state = optimizer.state_dict();
    }
    cells.set_gradients(step);
    optimizer.step();
  }
  EXPECT_EQ(state.find("state.a.exp_avg")->dtype(), DType::f32);
  Cells again(DType::bf16);
  AdamW resumed(again.parameters(), {.lr = 1e-3, .master_weights = true});
  resumed.load_state_dict(state);
  again.load_state_dict(weights);  // in this order, too
  for (int step = 4; step <= 6; ++step) {
    again.set_gradients(step);
    resumed.step();
  }
  EXPECT_BITS_EQ(*resumed.state_dict().find("state.a.master"), *optimizer.state_dict().find("state.a.master"));
  EXPECT_BITS_EQ(again.a.tensor(), cells.a.tensor());
  again.a.set(full({3, 5}, 100, {.dtype = DType::bf16}));
  resumed.step();
  EXPECT_NEAR(resumed.state_dict().find("state.a.master")->to_vector<float>()[0], 100, 0.01);
}

}  // namespace
}  // namespace lockstep

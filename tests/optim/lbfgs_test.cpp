#include <lockstep/optim/lbfgs.h>

#include <cmath>

#include "optim/cases.h"

namespace lockstep {
namespace {

using optim::LBFGS;
using optim::LBFGSOptions;
using test::Cells;
using test::expect_near;
using test::recorded;

constexpr auto kWolfe = LBFGSOptions::LineSearch::strong_wolfe;

// The loss of tools/test_data/optim.py: a chain of valleys.
Tensor valley(const Cells& cells, double sign = 1) {
  const Tensor x = cat({cells.a.tensor().flatten(), cells.b.tensor().flatten(), cells.c.tensor().flatten()}, 0);
  const std::int64_t rest = x.size(0) - 1;
  return (sum(square(x.narrow(0, 1, rest) - square(x.narrow(0, 0, rest)))) * 2 + sum(square(1 - x))) * sign;
}
Tensor all(const Cells& cells) {
  return cat({detach(cells.a).flatten(), detach(cells.b).flatten(), detach(cells.c).flatten()}, 0);
}

void expect_torchs(const std::string& name, const LBFGSOptions& options) {
  Cells cells;
  LBFGS optimizer(cells.parameters(), options);
  const auto losses = recorded(name + ".losses").to_vector<double>();
  const auto evaluations = recorded(name + ".evaluations").to_vector<double>();
  for (int step = 1; step <= 3; ++step) {
    const Tensor loss = optimizer.step([&] { return valley(cells, options.maximize ? -1 : 1); });
    const auto i = static_cast<std::size_t>(step - 1);
    EXPECT_NEAR(loss.item<double>(), losses[i], 1e-9 * std::abs(losses[i])) << name << " step " << step;
    EXPECT_EQ(static_cast<double>(optimizer.evaluations()), evaluations[i]) << name << " step " << step;
    for (const auto& [key, parameter] : cells.named_parameters()) {
      const std::string what = name + "." + std::to_string(step) + "." + key;
      expect_near(parameter.tensor(), recorded(what), 1e-9, what);
    }
  }
}

TEST(LBFGS, EqualsTorch) {
  expect_torchs("lbfgs", {.lr = 0.2, .max_iter = 5});
  expect_torchs("lbfgs_wolfe", {.max_iter = 7, .history_size = 3, .line_search = kWolfe});
  expect_torchs("lbfgs_options", {.lr = 0.3, .max_iter = 8, .max_eval = 5, .history_size = 2, .maximize = true});
  expect_torchs("lbfgs_tolerances",
                {.max_iter = 60, .tolerance_grad = 0.2, .tolerance_change = 1e-3, .line_search = kWolfe});
}

TEST(LBFGS, HasTheSameBitsOnEveryDevice) {
  same_everywhere([](Device device) {
    Cells cells(DType::f32, device);
    LBFGS optimizer(cells.parameters(), {.max_iter = 3, .line_search = kWolfe});
    for (int step = 0; step < 2; ++step) optimizer.step([&] { return valley(cells); });
    return all(cells);
  });
}

TEST(LBFGS, ALoadedStateGoesOnToTheSameBits) {
  const LBFGSOptions options{.max_iter = 4, .history_size = 3, .line_search = kWolfe};
  Cells straight(DType::f32);
  LBFGS first(straight.parameters(), options);
  for (int step = 0; step < 2; ++step) first.step([&] { return valley(straight); });
  const nn::StateDict state = first.state_dict();

  Cells resumed(DType::f32);
  for (auto& [name, parameter] : resumed.named_parameters()) {
    for (auto& [other, value] : straight.named_parameters()) {
      nn::Parameter cell = parameter;
      if (name == other) cell.set(detach(value));
    }
  }
  LBFGS second(resumed.parameters(), options);
  second.load_state_dict(state);
  EXPECT_EQ(second.evaluations(), first.evaluations());
  first.step([&] { return valley(straight); });
  second.step([&] { return valley(resumed); });
  EXPECT_EQ(all(straight).to_vector<float>(), all(resumed).to_vector<float>());

  nn::StateDict wrong = state;
  wrong.push_back("lbfgs.more", zeros({1}));
  EXPECT_THROW(second.load_state_dict(wrong), ValueError);
  const LBFGSOptions shorter{.max_iter = 4, .history_size = 2, .line_search = kWolfe};
  EXPECT_THROW(LBFGS(resumed.parameters(), shorter).load_state_dict(state), ShapeError);
}

TEST(LBFGS, AClosureMayCallBackwardItself) {
  Cells one, other;
  LBFGS ours(one.parameters(), {.lr = 0.1, .max_iter = 3});
  LBFGS theirs(other.parameters(), {.lr = 0.1, .max_iter = 3});
  ours.step([&] { return valley(one); });
  theirs.step([&] {
    const Tensor loss = valley(other);
    backward(loss);
    return loss;
  });
  EXPECT_EQ(all(one).to_vector<double>(), all(other).to_vector<double>());
}

TEST(LBFGS, RefusesWhatItCannotDo) {
  const Cells cells;
  EXPECT_THROW(LBFGS(cells.parameters(), {.max_iter = 0}), ValueError);
  EXPECT_THROW(LBFGS(cells.parameters(), {.max_eval = 0}), ValueError);
  EXPECT_THROW(LBFGS(cells.parameters(), {.tolerance_grad = -1}), ValueError);
  EXPECT_THROW(LBFGS(cells.parameters(), {.history_size = 0}), ValueError);
  EXPECT_THROW(LBFGS({{.parameters = {cells.a}}, {.parameters = {cells.b}}}), ValueError);
  const Cells halves(DType::f16);
  EXPECT_THROW(LBFGS(halves.parameters()), DTypeError);

  LBFGS optimizer(cells.parameters());
  optim::Optimizer& base = optimizer;
  EXPECT_THROW(base.step(valley(cells)), ValueError);
  EXPECT_THROW(optimizer.step(LBFGS::Closure()), ValueError);
  EXPECT_THROW(optimizer.step([&] { return detach(cells.a); }), ShapeError);
}

}  // namespace
}  // namespace lockstep

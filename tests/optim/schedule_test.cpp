#include <lockstep/optim/schedule.h>

#include <limits>

#include "optim/cases.h"

namespace lockstep {
namespace {

using namespace optim;
using test::Cells;
using test::recorded;

void expect_rates(const std::string& name, const std::function<Schedule(Optimizer&)>& make) {
  const Cells cells;
  SGD optimizer(cells.parameters(), {.lr = 0.1, .momentum = 0.9});
  Schedule schedule = make(optimizer);
  const auto rates = recorded("lr." + name).to_vector<double>();
  for (std::size_t i = 0; i < rates.size(); ++i) {
    EXPECT_NEAR(optimizer.lr(), rates[i], 1e-14) << name << " step " << i;
    if (name.starts_with("one_cycle")) {
      EXPECT_NEAR(optimizer.momentum(), recorded("momentum." + name).to_vector<double>()[i], 1e-14) << name << i;
    }
    schedule.step();
  }
}

template <typename C> void expect_curve(const std::string& name, const C& curve) {
  expect_rates(name, [&](Optimizer& optimizer) { return Schedule(optimizer, curve); });
}

TEST(Schedule, RatesEqualTorchs) {
  expect_curve("step", StepLR{.step_size = 3, .gamma = 0.5});
  expect_curve("multi_step", MultiStepLR{.milestones = {2, 5, 5, 9}, .gamma = 0.3});
  expect_curve("exponential", ExponentialLR{.gamma = 0.9});
  expect_curve("constant", ConstantLR{.factor = 0.25, .total_iters = 4});
  expect_curve("linear", LinearLR{.start_factor = 0.2, .end_factor = 0.9, .total_iters = 6});
  expect_curve("polynomial", PolynomialLR{.total_iters = 8, .power = 2});
  expect_curve("cosine", CosineAnnealingLR{.T_max = 10, .eta_min = 0.01});
  expect_curve("cosine_restarts", CosineAnnealingWarmRestarts{.T_0 = 3, .T_mult = 2, .eta_min = 0.01});
  expect_curve("one_cycle", OneCycleLR{.max_lr = 0.5, .total_steps = 25});
  expect_curve("one_cycle_linear", OneCycleLR{.max_lr = 0.5,
                                              .total_steps = 25,
                                              .pct_start = 0.4,
                                              .anneal = OneCycleLR::Anneal::linear,
                                              .base_momentum = 0.7,
                                              .max_momentum = 0.9,
                                              .div_factor = 10,
                                              .final_div_factor = 100,
                                              .three_phase = true});
  expect_curve("warmup_cosine",
               SequentialLR{.schedulers = {LinearLR{.start_factor = 0.1, .total_iters = 5},
                                           CosineAnnealingLR{.T_max = 15}, ConstantLR{.factor = 0.5, .total_iters = 2}},
                            .milestones = {5, 20}});
}

TEST(Schedule, WarmUpAndCosineMeetAtTheFullRate) {
  const SequentialLR curve = warmup_cosine(10, 100, 0.001, 0.1);
  EXPECT_DOUBLE_EQ(curve(1, 0), 0.1);
  EXPECT_DOUBLE_EQ(curve(1, 5), 0.55);
  EXPECT_DOUBLE_EQ(curve(1, 10), 1);
  EXPECT_DOUBLE_EQ(curve(1, 100), 0.001);
}

TEST(Schedule, TakesAnyFunctionPerGroup) {
  Cells cells;
  SGD optimizer({{.parameters = {cells.a}}, {.parameters = {cells.b}, .lr = 1}}, {.lr = 0.5});
  Schedule schedule(optimizer, {[](double lr, std::int64_t) { return lr; },
                                LambdaLR{[](std::int64_t step) { return 1.0 / static_cast<double>(step + 1); }}});
  schedule.step();
  EXPECT_EQ(optimizer.lr(0), 0.5);
  EXPECT_EQ(optimizer.lr(1), 0.5);
  EXPECT_THROW(Schedule(optimizer, std::vector<Curve>{StepLR{}}), ValueError);
}

TEST(Schedule, ResumesWhereItWas) {
  const Cells cells;
  AdamW optimizer(cells.parameters(), {.lr = 0.25});
  Schedule schedule(optimizer, StepLR{.step_size = 2, .gamma = 0.5});
  for (int i = 0; i < 5; ++i) schedule.step();
  AdamW other(cells.parameters(), {.lr = 7});
  Schedule resumed(other, StepLR{.step_size = 2, .gamma = 0.5});
  resumed.load_state_dict(schedule.state_dict());
  EXPECT_EQ(resumed.steps(), 5);
  EXPECT_EQ(other.lr(), 0.0625);
  resumed.step();
  EXPECT_EQ(other.lr(), 0.03125);
  nn::StateDict::Map state = schedule.state_dict();
  state.erase("base_lr.0");
  expect_error<ValueError>([&] { resumed.load_state_dict(state); }, {"missing", "base_lr.0", "schedule_test.cpp"});
}

TEST(Schedule, RefusesCurvesThatMakeNoSense) {
  const Cells cells;
  SGD optimizer(cells.parameters(), {.lr = 0.1});
  const auto refuses = [&](const Curve& curve) { EXPECT_THROW(Schedule(optimizer, curve), ValueError); };
  refuses(nullptr);
  refuses(StepLR{.step_size = 0});
  refuses(MultiStepLR{.milestones = {3, 1}});
  refuses(LinearLR{.start_factor = 0});
  refuses(CosineAnnealingLR{});
  refuses(CosineAnnealingWarmRestarts{});
  refuses(SequentialLR{.schedulers = {StepLR{}}, .milestones = {1}});
  refuses(LambdaLR{});
  refuses([](double, std::int64_t) { return -1.0; });
  EXPECT_THROW(Schedule(optimizer, OneCycleLR{.max_lr = 1, .total_steps = 5}), ValueError);  // SGD without momentum
  EXPECT_EQ(optimizer.lr(), 0.1);
  Schedule short_one(optimizer, OneCycleLR{.max_lr = 1, .total_steps = 1, .cycle_momentum = false});
  short_one.step();
  expect_error<ValueError>([&] { short_one.step(); }, {"beyond the total"});
}

TEST(Plateau, RatesEqualTorchs) {
  const auto metrics = recorded("plateau.metrics").to_vector<double>();
  for (const bool max : {false, true}) {
    for (const bool abs : {false, true}) {
      const Cells cells;
      SGD optimizer(cells.parameters(), {.lr = 0.1});
      const PlateauOptions options{
          .mode = max ? PlateauOptions::Mode::max : PlateauOptions::Mode::min,
          .factor = 0.5,
          .patience = 2,
          .threshold = 1e-2,
          .threshold_mode = abs ? PlateauOptions::ThresholdMode::abs : PlateauOptions::ThresholdMode::rel,
          .cooldown = 1,
          .min_lr = 0.02,
          .eps = 1e-6};
      auto schedule = std::make_unique<ReduceLROnPlateau>(optimizer, options);
      const std::string name = std::string("plateau.") + (max ? "max" : "min") + (abs ? ".abs" : ".rel");
      const auto rates = recorded(name).to_vector<double>();
      for (std::size_t i = 0; i < rates.size(); ++i) {
        if (i == 7) {  // as if the run had been killed here
          const nn::StateDict state = schedule->state_dict();
          schedule = std::make_unique<ReduceLROnPlateau>(optimizer, options);
          schedule->load_state_dict(state);
        }
        schedule->step(metrics[i]);
        EXPECT_NEAR(optimizer.lr(), rates[i], 1e-14) << name << " metric " << i;
      }
    }
  }
}

TEST(Plateau, RefusesOptionsOutOfRange) {
  const Cells cells;
  SGD optimizer(cells.parameters());
  EXPECT_THROW(ReduceLROnPlateau(optimizer, {.factor = 1}), ValueError);
  EXPECT_THROW(ReduceLROnPlateau(optimizer, {.patience = -1}), ValueError);
}

}  // namespace
}  // namespace lockstep

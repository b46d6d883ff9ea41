#include <lockstep/optim/grad_scaler.h>

#include <limits>

#include "optim/cases.h"

namespace lockstep {
namespace {

using optim::GradScaler;
using test::Cells;
using test::recorded;

TEST(GradScaler, AScaledStepIsTheStep) {
  Cells plain;
  Cells scaled;
  optim::Adam expected(plain.parameters());
  optim::Adam optimizer(scaled.parameters());
  GradScaler scaler;
  EXPECT_EQ(scaler.scale(), 65536);
  for (int i = 0; i < 3; ++i) {
    expected.step(sum(square(plain.a)) + sum(plain.c));
    EXPECT_TRUE(scaler.step(optimizer, sum(square(scaled.a)) + sum(scaled.c)));
  }
  EXPECT_BITS_EQ(scaled.a.tensor(), plain.a.tensor());
  EXPECT_FALSE(scaled.a.grad().defined());
}

TEST(GradScaler, SkipsStepsWithInfinitiesAndAdapts) {
  Cells cells(DType::f32);
  optim::SGD optimizer(cells.parameters(), {.lr = 1});
  GradScaler scaler({.init_scale = 8, .growth_interval = 2});
  const Tensor before = detach(cells.a);
  for (const double bad : {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    cells.set_gradients(1);
    cells.b.set_grad(full({4}, bad));
    EXPECT_FALSE(scaler.step(optimizer));
    scaler.update();
  }
  EXPECT_EQ(scaler.scale(), 2);
  EXPECT_BITS_EQ(cells.a.tensor(), before);
  for (int i = 0; i < 4; ++i) {
    cells.set_gradients(1);
    EXPECT_TRUE(scaler.step(optimizer));
    scaler.update();
  }
  EXPECT_EQ(scaler.scale(), 8);
  test::expect_near(cells.a, recorded("start.a") - recorded("grad.1.a") * (2 / 2.0 + 2 / 4.0), 1e-6, "a");
}

TEST(GradScaler, UnscalesForClipping) {
  Cells cells(DType::f32);
  optim::SGD optimizer(cells.parameters(), {.lr = 1});
  GradScaler scaler({.init_scale = 4});
  cells.set_gradients(1);
  scaler.unscale(optimizer);
  test::expect_near(cells.a.grad(), recorded("grad.1.a") * 0.25, 1e-6, "a");
  EXPECT_THROW(scaler.unscale(optimizer), ValueError);
  optim::clip_grad_value(cells.parameters(), 0.125);
  EXPECT_TRUE(scaler.step(optimizer));
  EXPECT_THROW(scaler.step(optimizer), ValueError);
  scaler.update();
  EXPECT_THROW(scaler.update(), ValueError);
  test::expect_near(cells.a, recorded("start.a") - clamp(recorded("grad.1.a") * 0.25, -0.125, 0.125), 1e-6, "a");
  cells.to(DType::f16);
  expect_error<DTypeError>([&] { scaler.unscale(optimizer); }, {"f16", "scaler.scale()", "grad_scaler_test.cpp"});
}

TEST(GradScaler, ResumesAndCanBeOff) {
  GradScaler scaler({.init_scale = 8, .growth_interval = 3});
  Cells cells(DType::f32);
  optim::SGD optimizer(cells.parameters());
  cells.set_gradients(1);
  scaler.step(optimizer);
  scaler.update();
  GradScaler resumed({.growth_interval = 3});
  resumed.load_state_dict(scaler.state_dict());
  EXPECT_EQ(resumed.scale(), 8);
  for (int i = 0; i < 2; ++i) {
    resumed.step(optimizer);
    resumed.update();
  }
  EXPECT_EQ(resumed.scale(), 16);
  GradScaler off({.enabled = false});
  EXPECT_EQ(off.scale(), 1);
  EXPECT_TRUE(off.step(optimizer));
  off.update();
  EXPECT_THROW(GradScaler({.init_scale = 0}), ValueError);
  EXPECT_THROW(GradScaler({.growth_factor = 1}), ValueError);
}

// A network in low precision whose weights are rounded from f32 learns what one in f32 learns.
TEST(MixedPrecision, TrainsATinyNetwork) {
  struct Net : nn::Module {
    nn::Linear hidden{*this, "hidden", 4, 16};
    nn::Linear out{*this, "out", 16, 1};
    Tensor forward(const Tensor& x) const { return out(relu(hidden(x))); }
  };
  const Tensor x = random_tensor({64, 4}, DType::f32, 3);
  const Tensor y = sum(sin(x), {1}, true);
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    manual_seed(9);
    Net net;
    net.to(dtype);
    optim::AdamW optimizer(net.parameters(), {.lr = 0.02, .master_weights = true});
    GradScaler scaler({.growth_interval = 20, .enabled = dtype == DType::f16});
    const auto loss = [&] { return mean(square(net.forward(x.to(dtype)).to(DType::f32) - y)); };
    const float before = loss().item<float>();
    for (int i = 0; i < 100; ++i) scaler.step(optimizer, loss());
    EXPECT_LT(loss().item<float>(), before / 10) << name_of(dtype);
    EXPECT_EQ(net.hidden.weight.dtype(), dtype);
  }
}

}  // namespace
}  // namespace lockstep

#include <lockstep/optim/clip.h>

#include <limits>

#include "graph/window.h"
#include "optim/cases.h"

namespace lockstep {
namespace {

using optim::clip_grad_norm;
using optim::clip_grad_value;
using optim::ClipNormOptions;
using test::Cells;
using test::expect_near;
using test::recorded;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(ClipGradNorm, EqualsTorch) {
  struct Case {
    const char* name;
    double max_norm;
    double norm_type;
  };
  for (const Case& c : {Case{"2", 1.5, 2}, {"1", 2, 1}, {"3", 0.5, 3}, {"inf", 0.5, kInfinity}, {"large", 1e3, 2}}) {
    Cells cells;
    cells.set_gradients(1);
    const Tensor norm = clip_grad_norm(cells.parameters(), c.max_norm, {.norm_type = c.norm_type});
    const std::string prefix = std::string("clip.") + c.name + ".";
    expect_near(norm, recorded(prefix + "norm"), 1e-12, prefix);
    for (const auto& [name, parameter] : cells.named_parameters()) {
      expect_near(parameter.grad(), recorded(prefix + name), 1e-12, prefix + name);
    }
  }
  same_everywhere([](Device device) {
    Cells cells(DType::f32, device);
    cells.set_gradients(1);
    clip_grad_norm(cells.parameters(), 1);
    return detach(cells.a.grad());
  });
}

TEST(ClipGradNorm, TakesSeveralDtypesAndMissingGradients) {
  Cells cells(DType::f32);
  cells.b.set(detach(cells.b).to(DType::bf16));
  cells.set_gradients(1, true);
  EXPECT_EQ(clip_grad_norm({cells.b}, 1).item<float>(), 0);
  cells.b.set_grad(ones({4}, {.dtype = DType::bf16}));
  const auto sum_of_squares = [&](const Tensor& g) { return sum(square(g.to(DType::f32))).item<float>(); };
  const float expected =
      std::sqrt(sum_of_squares(cells.a.grad()) + sum_of_squares(cells.b.grad()) + sum_of_squares(cells.c.grad()));
  EXPECT_NEAR(clip_grad_norm(cells.parameters(), 0.5).item<float>(), expected, 1e-5);
  EXPECT_NEAR(cells.b.grad().to(DType::f32).to_vector<float>()[0], 0.5f / expected, 1e-3);
  EXPECT_NEAR(clip_grad_norm(cells.parameters(), 0.5).item<float>(), 0.5, 1e-3);
}

TEST(ClipGradNorm, ReportsNormsThatAreNotFinite) {
  Cells cells;
  cells.set_gradients(1);
  cells.b.set_grad(full({4}, kInfinity, {.dtype = DType::f64}));
  expect_error<ValueError>([&] { clip_grad_norm(cells.parameters(), 1, {.error_if_nonfinite = true}); },
                           {"not finite", "clip_test.cpp"});
  EXPECT_BITS_EQ(cells.a.grad(), recorded("grad.1.a"));
  EXPECT_EQ(clip_grad_norm(cells.parameters(), 1).item<double>(), kInfinity);
  EXPECT_EQ(cells.a.grad().to_vector<double>()[0], 0);
  EXPECT_THROW(clip_grad_norm(cells.parameters(), -1), ValueError);
  EXPECT_THROW(clip_grad_norm(cells.parameters(), 1, {.norm_type = 0}), ValueError);
}

TEST(ClipGradNorm, ClippedGradientsNeedNotBeMovedAgain) {
  Cells cells(DType::f32);
  optim::Adam optimizer(cells.parameters());
  for (int step = 1; step <= 3; ++step) {
    cells.set_gradients(step);
    for (const nn::Parameter& parameter : cells.parameters()) parameter.grad().eval();
    const std::uint64_t before = graph::window_statistics(Device{}).kernels;
    clip_grad_norm(cells.parameters(), 1);
    optimizer.step();
    if (step < 3) continue;
    // The gradients' memory, a move for each, the norm, and the rest.
    EXPECT_LE(graph::window_statistics(Device{}).kernels - before, 1u + 3u + 2u);
  }
}

TEST(ClipGradValue, ClampsEveryElement) {
  Cells cells;
  cells.set_gradients(1);
  clip_grad_value(cells.parameters(), 0.25);
  EXPECT_BITS_EQ(cells.c.grad(), clamp(recorded("grad.1.c"), -0.25, 0.25));
  EXPECT_THROW(clip_grad_value(cells.parameters(), -1), ValueError);
}

}  // namespace
}  // namespace lockstep

// Resampling: equal bits everywhere, exact cases and errors. PyTorch's own results are in tests/data/cases.
#include <lockstep/ops.h>

#include <gtest/gtest.h>

#include <limits>

#include "support/tensors.h"

namespace lockstep {
namespace {

class Images : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(DTypes, Images, ::testing::Values(DType::f16, DType::bf16, DType::f32, DType::f64),
                         [](const auto& tested) { return std::string(name_of(tested.param)); });

TEST_P(Images, InterpolateSameEverywhere) {
  const auto image = [](const Shape& shape, Device device) {
    return random_tensor(shape, GetParam(), 1, device, true);
  };
  for (const bool corners : {false, true}) {
    same_everywhere([&](Device device) {
      return interpolate(image({2, 3, 9}, device),
                         {.size = {14}, .mode = Interpolation::linear, .align_corners = corners});
    });
    same_everywhere([&](Device device) {
      return interpolate(image({1, 1, 4, 5, 3}, device),
                         {.size = {3, 7, 5}, .mode = Interpolation::trilinear, .align_corners = corners});
    });
    for (const bool antialias : {false, true}) {
      for (const Interpolation mode : {Interpolation::bilinear, Interpolation::bicubic}) {
        same_everywhere([&](Device device) {
          return interpolate(image({1, 2, 31, 40}, device),
                             {.size = {70, 3}, .mode = mode, .align_corners = corners, .antialias = antialias});
        });
      }
    }
  }
  for (const Interpolation mode : {Interpolation::nearest, Interpolation::nearest_exact, Interpolation::area}) {
    same_everywhere([&](Device device) {
      return interpolate(image({1, 2, 31, 40}, device), {.scale_factor = {1.7, 0.3}, .mode = mode});
    });
  }
}

TEST_P(Images, GridSampleSameEverywhere) {
  for (const GridPadding padding : {GridPadding::zeros, GridPadding::border, GridPadding::reflection}) {
    for (const GridMode mode : {GridMode::bilinear, GridMode::nearest, GridMode::bicubic}) {
      for (const bool corners : {false, true}) {
        const GridSampleOptions options{.mode = mode, .padding = padding, .align_corners = corners};
        same_everywhere([&](Device device) {
          return grid_sample(random_tensor({2, 3, 6, 7}, GetParam(), 1, device, true),
                             random_tensor({2, 5, 4, 2}, GetParam(), 2, device, true), options);
        });
        if (mode == GridMode::bicubic) continue;
        same_everywhere([&](Device device) {
          return grid_sample(random_tensor({1, 2, 3, 6, 7}, GetParam(), 1, device, true),
                             random_tensor({1, 2, 3, 4, 3}, GetParam(), 2, device, true), options);
        });
      }
    }
  }
}

TEST_P(Images, AffineGridSameEverywhere) {
  same_everywhere([](Device device) {
    return affine_grid(random_tensor({2, 2, 3}, GetParam(), 1, device), {2, 1, 5, 7});
  });
  same_everywhere([](Device device) {
    return affine_grid(random_tensor({1, 3, 4}, GetParam(), 1, device), {1, 1, 2, 3, 4}, true);
  });
}

TEST(Interpolate, NearestKeepsBitsOfEveryDtype) {
  for (const DType dtype : {DType::boolean, DType::u8, DType::i64, DType::f16, DType::f32}) {
    const Tensor x = random_tensor({1, 2, 3, 4}, dtype, 1, {}, true);
    const Tensor twice = interpolate(x, {.scale_factor = {2}});
    EXPECT_BITS_EQ(twice, repeat_interleave(repeat_interleave(x, 2, 2), 2, 3));
  }
}

TEST(Interpolate, TheSameSizeIsTheInput) {
  // A neighbour of weight 0 does not spoil a pixel.
  const float infinity = std::numeric_limits<float>::infinity();
  const Tensor x = Tensor::from<float>({1, infinity, 3, -infinity, 5, 6}, {1, 1, 2, 3});
  for (const Interpolation mode :
       {Interpolation::nearest, Interpolation::bilinear, Interpolation::bicubic, Interpolation::area}) {
    EXPECT_BITS_EQ(interpolate(x, {.size = {2, 3}, .mode = mode}), x);
  }
  EXPECT_BITS_EQ(interpolate(x, {.size = {2, 3}, .mode = Interpolation::bicubic, .antialias = true}), x);
}

TEST(Interpolate, CornersStayCorners) {
  const Tensor x = Tensor::from<float>({1, 4}, {1, 1, 2});
  EXPECT_BITS_EQ(interpolate(x, {.size = {4}, .mode = Interpolation::linear, .align_corners = true}),
                 Tensor::from<float>({1, 2, 3, 4}, {1, 1, 4}));
}

TEST(Interpolate, Errors) {
  const Tensor x = ones({1, 2, 8, 8});
  expect_error<ValueError>([&] { interpolate(x, {}); }, {"size", "scale_factor"});
  expect_error<ValueError>([&] { interpolate(x, {.size = {4}, .scale_factor = {2}}); }, {"either"});
  expect_error<ValueError>([&] { interpolate(x, {.size = {4, 4, 4}}); }, {"size"});
  expect_error<ValueError>([&] { interpolate(x, {.size = {0}}); }, {"size"});
  expect_error<ValueError>([&] { interpolate(x, {.scale_factor = {0.01}}); }, {"scale_factor"});
  expect_error<ValueError>([&] { interpolate(x, {.scale_factor = {-2}}); }, {"scale_factor"});
  expect_error<ValueError>([&] { interpolate(x, {.scale_factor = {std::numeric_limits<double>::quiet_NaN()}}); },
                           {"scale_factor"});
  expect_error<ShapeError>([&] { interpolate(x, {.size = {4}, .mode = Interpolation::linear}); }, {"mode"});
  expect_error<ShapeError>([&] { interpolate(ones({8, 8}), {.size = {4}}); }, {"mode"});
  expect_error<ValueError>([&] { interpolate(x, {.size = {4}, .align_corners = true}); }, {"align_corners"});
  expect_error<ValueError>([&] { interpolate(x, {.size = {4}, .antialias = true}); }, {"antialias"});
  expect_error<ValueError>([&] { interpolate(x, {.size = {4}, .recompute_scale_factor = true}); }, {"recompute"});
  expect_error<DTypeError>([&] { interpolate(x.to(DType::u8), {.size = {4}, .mode = Interpolation::bilinear}); },
                           {"interpolate"});
  expect_error<ShapeError>([&] { interpolate(ones({1, 2, 0, 8}), {.size = {4}}); }, {"at least 1"});
}

TEST(GridSample, TheIdentityGridGivesTheImage) {
  const Tensor x = random_tensor({1, 2, 5, 9}, DType::f32, 1);
  const Tensor theta = Tensor::from<float>({1, 0, 0, 0, 1, 0}, {1, 2, 3});
  const Tensor grid = affine_grid(theta, x.shape(), true);
  EXPECT_BITS_EQ(grid_sample(x, grid, {.align_corners = true}), x);
  EXPECT_BITS_EQ(grid_sample(x, grid, {.mode = GridMode::nearest, .align_corners = true}), x);
}

TEST(GridSample, FarCoordinatesAndNaNReadNothing) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor x = ones({1, 1, 2, 2});
  const Tensor grid = Tensor::from<float>({1e30f, 0, -1e30f, 0, 3e38f, 3e38f, nan, 0}, {1, 1, 4, 2});
  EXPECT_BITS_EQ(grid_sample(x, grid, {.mode = GridMode::nearest}).reshape({4}), zeros({4}));
  const std::vector<float> border = grid_sample(x, grid, {.padding = GridPadding::border}).to_vector<float>();
  EXPECT_EQ(border[0], 1);
  EXPECT_EQ(border[1], 1);
  EXPECT_EQ(border[2], 1);
}

TEST(GridSample, Errors) {
  const Tensor x = ones({2, 1, 4, 4});
  expect_error<ShapeError>([&] { grid_sample(x, ones({1, 4, 4, 2})); }, {"grid_sample"});
  expect_error<ShapeError>([&] { grid_sample(x, ones({2, 4, 4, 3})); }, {"grid_sample"});
  expect_error<DTypeError>([&] { grid_sample(x, ones({2, 4, 4, 2}, {.dtype = DType::f64})); }, {"f64"});
  expect_error<ValueError>(
      [&] {
        grid_sample(ones({1, 1, 2, 2, 2}), ones({1, 2, 2, 2, 3}), {.mode = GridMode::bicubic});
      },
      {"bicubic"});
  expect_error<ShapeError>([&] { affine_grid(ones({1, 2, 3}), {2, 1, 4, 4}); }, {"affine_grid"});
}

}  // namespace
}  // namespace lockstep

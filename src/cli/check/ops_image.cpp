#include "cli/check/ops.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

// Variants: each way to interpolate, with sizes and factors in turn, larger and smaller.
Tensors resampled(Probe& p, Tensor (*op)(const Operand&, const InterpolateOptions&)) {
  const InterpolateOptions options[] = {
      {.size = {5, 11}, .mode = Interpolation::nearest},
      {.size = {4, 9}, .mode = Interpolation::bilinear},
      {.scale_factor = {1.7}, .mode = Interpolation::nearest_exact},
      {.scale_factor = {2}, .mode = Interpolation::bilinear, .align_corners = true},
      {.size = {4, 3}, .mode = Interpolation::bilinear, .antialias = true},
      {.scale_factor = {1.6}, .mode = Interpolation::bicubic},
      {.size = {6, 10}, .mode = Interpolation::bicubic, .align_corners = true},
      {.size = {4, 3}, .mode = Interpolation::bicubic, .antialias = true},
      {.size = {4, 3}, .mode = Interpolation::area},
      {.scale_factor = {1.4, 1.5}, .mode = Interpolation::bilinear, .recompute_scale_factor = true},
      {.size = {12}, .mode = Interpolation::linear},
      {.size = {2, 5, 8}, .mode = Interpolation::trilinear},
  };
  Shape shape = p.shape();
  if (options[p.variant()].mode == Interpolation::linear) shape = {p.size(0), p.size(1), p.size(3)};
  if (options[p.variant()].mode == Interpolation::trilinear) shape.insert(2, 3);
  return {op(p.x(shape), options[p.variant()])};
}

// Variants: each mode and each padding for images; two for volumes.
Tensors sampled(Probe& p) {
  const GridSampleOptions options[] = {
      {},
      {.mode = GridMode::bilinear, .padding = GridPadding::reflection, .align_corners = true},
      {.mode = GridMode::nearest, .padding = GridPadding::border},
      {.mode = GridMode::bicubic, .padding = GridPadding::border},
      {.mode = GridMode::bicubic, .padding = GridPadding::reflection},
      {.mode = GridMode::bilinear, .padding = GridPadding::reflection},
      {.mode = GridMode::nearest, .padding = GridPadding::zeros, .align_corners = true},
  };
  const bool volume = p.variant() >= 5;
  Shape shape = p.shape();
  if (volume) shape.insert(2, 3);
  const Tensor image = p.x(shape);
  const Tensor grid = p.x(volume ? Shape{p.size(0), 2, 5, 4, 3} : Shape{p.size(0), 5, 6, 2});
  return {grid_sample(image, grid, options[p.variant()])};
}

// Variants: every window; strided and padded; dilated.
Shape window(Probe& p) {
  return p.variant() == 2 ? Shape{2} : Shape{3, 2};
}
UnfoldOptions windows(Probe& p) {
  if (p.variant() == 1) return {.padding = {1, 1}, .stride = {2, 1}};
  if (p.variant() == 2) return {.dilation = {2}, .padding = {1}, .stride = {1}};
  return {};
}

const CheckOp kImageOps[] = {
    {"interpolate", Form::image, 12, [](Probe& p) -> Tensors { return resampled(p, interpolate); }},
    {"upsample", Form::image, 2, [](Probe& p) -> Tensors { return resampled(p, upsample); }},
    {"grid_sample", Form::image, 7, sampled},
    {"affine_grid", Form::image, 3,
     [](Probe& p) -> Tensors {
       if (p.variant() < 2) return {affine_grid(p.x({p.size(0), 2, 3}), p.shape(), p.variant() == 1)};
       Shape size = p.shape();
       size.insert(2, 3);
       return {affine_grid(p.x({p.size(0), 3, 4}), size)};
     }},
    {"unfold", Form::image, 3, [](Probe& p) -> Tensors { return {unfold(p.x(), window(p), windows(p))}; }},
    {"fold", Form::image, 3,
     [](Probe& p) -> Tensors {
       const UnfoldOptions options = windows(p);
       const Shape columns = unfold(zeros(p.shape(), p.options()), window(p), options).shape();
       return {fold(p.x(columns), {p.size(2), p.size(3)}, window(p), options)};
     }},
    {"pixel_shuffle", Form::image, 2,
     [](Probe& p) -> Tensors {
       const std::int64_t factor = p.variant() + 2;
       return {contiguous(pixel_shuffle(p.x({p.size(0), p.size(1) * factor * factor, p.size(2), p.size(3)}), factor))};
     }},
    {"pixel_unshuffle", Form::image, 2,
     [](Probe& p) -> Tensors {
       const std::int64_t factor = p.variant() + 2;
       return {
           contiguous(pixel_unshuffle(p.x({p.size(0), p.size(1), p.size(2) * factor, p.size(3) * factor}), factor))};
     }},
    {"channel_shuffle", Form::image, 2,
     [](Probe& p) -> Tensors { return {contiguous(channel_shuffle(p.x(), p.variant() == 0 ? 2 : 4))}; }},
};

}  // namespace

std::span<const CheckOp> check_image_ops() {
  return kImageOps;
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep

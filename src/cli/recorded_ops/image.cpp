#include "cli/recorded_ops/families.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

Tensors call_interpolate(Arguments& a) {
  const std::string mode = a.text("mode", "nearest");
  InterpolateOptions options{.size = a.sizes("size", {}),
                             .scale_factor = a.reals("scale_factor"),
                             .align_corners = a.flag("align_corners"),
                             .recompute_scale_factor = a.flag("recompute_scale_factor"),
                             .antialias = a.flag("antialias")};
  constexpr std::pair<const char*, Interpolation> kModes[] = {
      {"nearest", Interpolation::nearest}, {"nearest-exact", Interpolation::nearest_exact},
      {"linear", Interpolation::linear},   {"bilinear", Interpolation::bilinear},
      {"bicubic", Interpolation::bicubic}, {"trilinear", Interpolation::trilinear},
      {"area", Interpolation::area},
  };
  for (const auto& [name, value] : kModes) {
    options.mode = value;
    if (mode == name) return {interpolate(a[0], options)};
  }
  throw Unsupported("mode " + mode);
}

Tensors call_grid_sample(Arguments& a) {
  const std::string mode = a.text("mode", "bilinear");
  const std::string padding = a.text("padding_mode", "zeros");
  GridSampleOptions options{.align_corners = a.flag("align_corners")};
  if (mode == "nearest") options.mode = GridMode::nearest;
  if (mode == "bicubic") options.mode = GridMode::bicubic;
  if (padding == "border") options.padding = GridPadding::border;
  if (padding == "reflection") options.padding = GridPadding::reflection;
  return {grid_sample(a[0], a[1], options)};
}

Tensors call_affine_grid(Arguments& a) {
  return {affine_grid(a[0], a.sizes("size", {}), a.flag("align_corners"))};
}

constexpr RecordedOp kImageOps[] = {
    {"affine_grid", kComputes, call_affine_grid},
    {"grid_sample", kComputes, call_grid_sample},
    {"interpolate", kComputes, call_interpolate},
};

}  // namespace

std::span<const RecordedOp> image_ops() {
  return kImageOps;
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep

// Resampling of images: [N, C, L], [N, C, H, W] and [N, C, D, H, W].
#pragma once

#include <optional>
#include <vector>

#include <lockstep/tensor.h>

namespace lockstep {
inline namespace v0 {

/// How values between pixels are made.
enum class Interpolation : std::uint8_t { nearest, nearest_exact, linear, bilinear, bicubic, trilinear, area };

struct InterpolateOptions {
  Shape size = {};                        ///< one value for all spatial dimensions, or one each
  std::vector<double> scale_factor = {};  ///< instead of size: output sizes are floor(size * factor)
  Interpolation mode = Interpolation::nearest;
  bool align_corners = false;             ///< the centres of corner pixels stay corners; linear and cubic modes
  bool recompute_scale_factor = false;    ///< as if the output size had been given
  bool antialias = false;                 ///< wider filters when shrinking; bilinear and bicubic
};
/// Every value from its neighbours in the input, one axis after the other (the last first). `nearest` and
/// `nearest_exact` keep bits and take every dtype; the others take floats (DTypeError). `linear` needs one spatial
/// dimension, `bilinear` and `bicubic` two, `trilinear` three (ShapeError). ValueError for options that contradict
/// each other. Source coordinates follow PyTorch (bicubic a = -0.75, antialiased -0.5); docs/numerics.md has the order of
/// additions.  PyTorch: torch.nn.functional.interpolate, upsample.
LOCKSTEP_API Tensor interpolate(const Operand& input, const InterpolateOptions& options);
inline Tensor upsample(const Operand& input, const InterpolateOptions& options) { return interpolate(input, options); }

/// How values between pixels are made.
enum class GridMode : std::uint8_t { bilinear, nearest, bicubic };
/// What stands outside the input.
enum class GridPadding : std::uint8_t { zeros, border, reflection };
struct GridSampleOptions {
  GridMode mode = GridMode::bilinear;          ///< bilinear is trilinear for volumes; bicubic is for images only
  GridPadding padding = GridPadding::zeros;    ///< what stands outside the input
  bool align_corners = false;                  ///< whether -1 and 1 are the centres or the edges of corner pixels
};
/// input [N, C, H, W] at grid [N, h, w, 2] (x, y), or [N, C, D, H, W] at [N, d, h, w, 3] (x, y, z): [N, C, h, w] or
/// [N, C, d, h, w]. Coordinates in [-1, 1] lie in the input. Both are floats of one dtype. A NaN coordinate gives NaN
/// (nearest: as if it were outside).  PyTorch: torch.nn.functional.grid_sample.
LOCKSTEP_API Tensor grid_sample(const Operand& input, const Operand& grid, const GridSampleOptions& options = {});

/// theta [N, 2, 3] and size [N, C, H, W] to a grid [N, H, W, 2]; [N, 3, 4] and [N, C, D, H, W] to [N, D, H, W, 3].
/// PyTorch: torch.nn.functional.affine_grid.
LOCKSTEP_API Tensor affine_grid(const Operand& theta, const Shape& size, bool align_corners = false);

}  // namespace v0
}  // namespace lockstep

// Weights of one-dimensional resampling, made on the host in f64.
#pragma once

#include <cstdint>
#include <vector>

namespace lockstep {
inline namespace v0 {
namespace graph {

enum class Filter : std::uint8_t { linear, cubic };

/// One axis of a resampling: output i is the sum over t of weight[t][i] * input[position[t][i]].
struct Taps {
  std::vector<std::vector<std::int64_t>> position;
  std::vector<std::vector<double>> weight;
  /// Whether every output is the input of the same position.
  bool identity(std::int64_t size) const;
};

/// Input elements per output element, as PyTorch defines it. `factor`: given by the user, else absent (0).
double resampling_scale(std::int64_t size, std::int64_t output, bool align_corners, double factor);

/// Two taps (linear) or four (cubic, a = -0.75) per output; positions outside are those of the border.
Taps interpolation_taps(Filter filter, std::int64_t size, std::int64_t output, double scale, bool align_corners);

/// As many taps as the scaled filter (cubic: a = -0.5) covers, normalized; ends of shorter windows have weight 0 and
/// repeat the last position.
Taps antialiasing_taps(Filter filter, std::int64_t size, std::int64_t output, double scale);

/// The positions that nearest neighbours take. In f32 as PyTorch computes them, since here one bit moves a pixel.
std::vector<std::int64_t> nearest_positions(std::int64_t size, std::int64_t output, double factor, bool exact);

}  // namespace graph
}  // namespace v0
}  // namespace lockstep

// A plain font of strokes for plots in pixels, where there is no other: letters are polylines on a grid of 5 x 9
// points, x from 0 to 4, y from 0 (top) over 6 (baseline) to 8 (below it).
#pragma once

#include <utility>
#include <vector>

namespace lockstep {
inline namespace v0 {
namespace train {

inline constexpr double kFontHeight = 9;
inline constexpr double kFontBaseline = 6;
inline constexpr double kFontAdvance = 5.4;

using GridPoint = std::pair<double, double>;

/// The strokes of an ASCII letter; capitals are drawn as small letters, what is unknown as a box.
std::vector<std::vector<GridPoint>> glyph(char letter);

}  // namespace train
}  // namespace v0
}  // namespace lockstep

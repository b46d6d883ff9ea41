// Curves over steps as a picture: SVG for pages, PNG for everything else.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/export.h>
#include <lockstep/io/image.h>
#include <lockstep/train/log.h>

namespace lockstep {
inline namespace v0 {
namespace train {

/// A line of a plot.
struct Curve {
  std::string name;
  std::vector<std::pair<double, double>> points;  ///< x and y, by growing x; those that are not finite are left out
  bool markers = false;                           ///< A dot at each point: for few of them.
  bool faint = false;                             ///< Thin and pale: for what lies behind its smoothed form.
  int colour = 0;                                 ///< Curves that belong together have one number.
};

/// One pair of axes.
struct Panel {
  std::string title;
  std::string x_label;
  std::vector<Curve> curves;
  bool percent = false;  ///< y is a part of 1, shown in percent, never above 100.
};

/// The panels side by side as an SVG document.
LOCKSTEP_API std::string plot_svg(const std::vector<Panel>& panels);
/// The same as pixels. Letters outside ASCII show as boxes, capitals as small letters.
LOCKSTEP_API io::Image plot_image(const std::vector<Panel>& panels);

/// Loss and accuracy of a training run: each step's value pale, their running mean, and the test's values as dots.
LOCKSTEP_API std::vector<Panel> training_panels(const std::vector<Record>& records);

}  // namespace train
}  // namespace v0
}  // namespace lockstep

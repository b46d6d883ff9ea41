#include <lockstep/train/plot.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include <fmt/format.h>

#include "train/canvas.h"

namespace lockstep {
inline namespace v0 {
namespace train {
namespace {

constexpr int kPanelWidth = 520;
constexpr int kPanelHeight = 360;
constexpr double kLeft = 62, kRight = 18, kTop = 40, kBottom = 52;  // margins of a panel

constexpr Colour kInk{51, 56, 66};
constexpr Colour kGrid{226, 229, 234};
constexpr Colour kCurveColours[] = {{31, 105, 192}, {214, 96, 30}, {38, 139, 84}, {139, 77, 175}};

Colour colour_of(const Curve& curve) {
  const Colour full = kCurveColours[static_cast<std::size_t>(std::max(curve.colour, 0)) % std::size(kCurveColours)];
  const auto pale = [](std::uint8_t value) { return static_cast<std::uint8_t>(255 - (255 - value) * 3 / 10); };
  return curve.faint ? Colour{pale(full.red), pale(full.green), pale(full.blue)} : full;
}

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  // Where there is nothing, or one value, some room around it.
  void open() {
    if (low > high) *this = {0, 1};
    if (low == high) *this = {low - 0.5, high + 0.5};
  }
};

// 1, 2 or 5 times a power of ten, so that about `count` of them make the range.
double tick_distance(Range range, double count) {
  const double exact = (range.high - range.low) / count;
  const double power = std::pow(10, std::floor(std::log10(exact)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= exact * 0.999) return factor * power;
  }
  return 10 * power;
}

std::string tick_text(double value, double distance, bool percent) {
  if (percent) return fmt::format("{:.{}f} %", 100 * value, distance >= 0.00999 ? 0 : 1);
  const int digits = std::clamp(static_cast<int>(std::ceil(-std::log10(distance) - 1e-9)), 0, 6);
  return fmt::format("{:.{}f}", std::abs(value) < distance * 1e-6 ? 0.0 : value, digits);
}

bool is_finite(const std::pair<double, double>& point) {
  return std::isfinite(point.first) && std::isfinite(point.second);
}

// `offset`: from the picture's top.
void draw_panel(Canvas& canvas, const Panel& panel, double offset) {
  Range xs;
  Range ys;
  for (const Curve& curve : panel.curves) {
    for (const auto& point : curve.points) {
      if (!is_finite(point)) continue;
      xs.add(point.first);
      ys.add(point.second);
    }
  }
  xs.open();
  ys.open();
  const double y_distance = tick_distance(ys, 6);
  ys = {std::floor(ys.low / y_distance + 1e-9) * y_distance, std::ceil(ys.high / y_distance - 1e-9) * y_distance};
  if (panel.percent) ys.high = std::min(ys.high, 1.0);
  const double left = kLeft, right = kPanelWidth - kRight;
  const double top = offset + kTop, bottom = offset + kPanelHeight - kBottom;
  const auto place = [&](double x, double y) {
    return CanvasPoint{left + (x - xs.low) / (xs.high - xs.low) * (right - left),
                       bottom - (y - ys.low) / (ys.high - ys.low) * (bottom - top)};
  };

  for (int i = 0; ys.low + i * y_distance <= ys.high + y_distance * 1e-6; ++i) {
    const double value = ys.low + i * y_distance;
    canvas.line({place(xs.low, value), place(xs.high, value)}, kGrid, 1);
    const CanvasPoint at = place(xs.low, value);
    canvas.text({at.first - 6, at.second + 4}, tick_text(value, y_distance, panel.percent), 12, kInk, Anchor::end);
  }
  const double x_distance = std::max(tick_distance(xs, 6), 1.0);
  for (double value = std::ceil(xs.low / x_distance) * x_distance; value <= xs.high; value += x_distance) {
    const CanvasPoint at = place(value, ys.low);
    canvas.line({at, {at.first, at.second + 4}}, kInk, 1);
    canvas.text({at.first, at.second + 18}, tick_text(value, x_distance, false), 12, kInk, Anchor::middle);
  }
  for (const Curve& curve : panel.curves) {
    std::vector<CanvasPoint> points;
    for (const auto& point : curve.points) {
      if (is_finite(point)) points.push_back(place(point.first, point.second));
    }
    if (points.empty()) continue;
    canvas.line(points, colour_of(curve), curve.faint ? 1 : 2);
    if (!curve.markers) continue;
    for (const CanvasPoint& point : points) canvas.dot(point, 3.5, colour_of(curve));
  }
  canvas.line({{left, top}, {left, bottom}, {right, bottom}}, kInk, 1);
  canvas.text({left, offset + 24}, panel.title, 16, kInk, Anchor::start);
  canvas.text({(left + right) / 2, offset + kPanelHeight - 12}, panel.x_label, 12, kInk, Anchor::middle);
  double legend = right;
  for (auto curve = panel.curves.rbegin(); curve != panel.curves.rend(); ++curve) {
    if (curve->name.empty()) continue;
    canvas.text({legend, offset + 23}, curve->name, 12, kInk, Anchor::end);
    legend -= static_cast<double>(curve->name.size()) * 7.5 + 6;
    canvas.line({{legend - 18, offset + 19}, {legend, offset + 19}}, colour_of(*curve), 2);
    if (curve->markers) canvas.dot({legend - 9, offset + 19}, 3.5, colour_of(*curve));
    legend -= 32;
  }
}

// One below the other: side by side their letters could not be read on a screen of 400 pixels.
void draw(Canvas& canvas, const std::vector<Panel>& panels) {
  for (std::size_t i = 0; i < panels.size(); ++i) draw_panel(canvas, panels[i], static_cast<double>(i) * kPanelHeight);
}

int height_of(const std::vector<Panel>& panels) {
  return kPanelHeight * std::max(static_cast<int>(panels.size()), 1);
}

// The mean of about the last sixtieth of the curve, weighted towards its end.
Curve smoothed(const Curve& curve, std::string name) {
  Curve result{.name = std::move(name), .colour = curve.colour};
  const double keep = 1 - 1 / std::max(1.0, static_cast<double>(curve.points.size()) / 60);
  double mean = 0;
  double weight = 0;
  for (const auto& point : curve.points) {
    if (!is_finite(point)) continue;
    mean = keep * mean + (1 - keep) * point.second;
    weight = keep * weight + (1 - keep);
    result.points.emplace_back(point.first, mean / weight);
  }
  return result;
}

Panel panel_of(const std::vector<Record>& records, const char* title, double Record::*value) {
  Curve train{.faint = true, .colour = 0};
  Curve test{.name = "test", .markers = true, .colour = 1};
  for (const Record& record : records) {
    Curve& curve = record.split == "train" ? train : test;
    if (!std::isnan(record.*value)) curve.points.emplace_back(static_cast<double>(record.step), record.*value);
  }
  Panel panel{.title = title, .x_label = "step"};
  panel.curves.push_back(train);
  panel.curves.push_back(smoothed(train, "train"));
  if (!test.points.empty()) panel.curves.push_back(std::move(test));
  return panel;
}

}  // namespace

std::string plot_svg(const std::vector<Panel>& panels) {
  SvgCanvas canvas(kPanelWidth, height_of(panels));
  draw(canvas, panels);
  return canvas.finish();
}

io::Image plot_image(const std::vector<Panel>& panels) {
  PixelCanvas canvas(kPanelWidth, height_of(panels));
  draw(canvas, panels);
  return canvas.image();
}

std::vector<Panel> training_panels(const std::vector<Record>& records) {
  std::vector<Panel> panels{panel_of(records, "Loss", &Record::loss), panel_of(records, "Accuracy", &Record::accuracy)};
  panels.back().percent = true;
  const std::vector<Curve>& accuracy = panels.back().curves;
  if (std::all_of(accuracy.begin(), accuracy.end(), [](const Curve& curve) { return curve.points.empty(); })) {
    panels.pop_back();
  }
  return panels;
}

}  // namespace train
}  // namespace v0
}  // namespace lockstep

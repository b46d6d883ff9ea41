#include "graph/ops/resample.h"

#include <algorithm>
#include <cmath>

namespace lockstep {
inline namespace v0 {
namespace graph {
namespace {

// Keys' cubic convolution, near the centre (|x| <= 1) and outside (1 <= |x| <= 2).
double cubic_inside(double x, double a) {
  return ((a + 2) * x - (a + 3)) * x * x + 1;
}
double cubic_outside(double x, double a) {
  return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
}

double filter_value(Filter filter, double x) {
  const double distance = std::fabs(x);
  if (filter == Filter::linear) return distance < 1 ? 1 - distance : 0;
  if (distance < 1) return cubic_inside(distance, -0.5);
  return distance < 2 ? cubic_outside(distance, -0.5) : 0;
}

}  // namespace

bool Taps::identity(std::int64_t size) const {
  for (std::size_t t = 0; t < position.size(); ++t) {
    if (static_cast<std::int64_t>(position[t].size()) != size) return false;
    for (std::size_t i = 0; i < position[t].size(); ++i) {
      if (weight[t][i] == 0) continue;
      if (weight[t][i] != 1 || position[t][i] != static_cast<std::int64_t>(i)) return false;
    }
  }
  return true;
}

double resampling_scale(std::int64_t size, std::int64_t output, bool align_corners, double factor) {
  if (align_corners) return output > 1 ? static_cast<double>(size - 1) / static_cast<double>(output - 1) : 0;
  return factor > 0 ? 1 / factor : static_cast<double>(size) / static_cast<double>(output);
}

Taps interpolation_taps(Filter filter, std::int64_t size, std::int64_t output, double scale, bool align_corners) {
  const int count = filter == Filter::linear ? 2 : 4;
  Taps taps;
  taps.position.resize(static_cast<std::size_t>(count));
  taps.weight.resize(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < output; ++i) {
    double source = align_corners ? scale * static_cast<double>(i) : scale * (static_cast<double>(i) + 0.5) - 0.5;
    if (filter == Filter::linear) source = std::max(source, 0.0);
    const double below = std::floor(source);
    const double t = source - below;
    const auto first = static_cast<std::int64_t>(below) - (count / 2 - 1);
    const double linear[] = {1 - t, t};
    const double cubic[] = {cubic_outside(t + 1, -0.75), cubic_inside(t, -0.75), cubic_inside(1 - t, -0.75),
                            cubic_outside(2 - t, -0.75)};
    for (int k = 0; k < count; ++k) {
      const auto at = static_cast<std::size_t>(k);
      taps.position[at].push_back(std::clamp<std::int64_t>(first + k, 0, size - 1));
      taps.weight[at].push_back(filter == Filter::linear ? linear[k] : cubic[k]);
    }
  }
  return taps;
}

Taps antialiasing_taps(Filter filter, std::int64_t size, std::int64_t output, double scale) {
  const double radius = filter == Filter::linear ? 1 : 2;
  const double support = scale >= 1 ? radius * scale : radius;
  const double inverse = scale >= 1 ? 1 / scale : 1;
  std::vector<std::int64_t> first;
  std::vector<std::vector<double>> rows;
  std::size_t longest = 1;
  for (std::int64_t i = 0; i < output; ++i) {
    const double center = scale * (static_cast<double>(i) + 0.5);
    const auto low = std::max<std::int64_t>(static_cast<std::int64_t>(center - support + 0.5), 0);
    const auto high = std::min(static_cast<std::int64_t>(center + support + 0.5), size);
    std::vector<double> row;
    double total = 0;
    for (std::int64_t p = low; p < high; ++p) {
      row.push_back(filter_value(filter, (static_cast<double>(p) - center + 0.5) * inverse));
      total += row.back();
    }
    if (total != 0) {
      for (double& weight : row) weight /= total;
    }
    longest = std::max(longest, row.size());
    first.push_back(low);
    rows.push_back(std::move(row));
  }
  Taps taps;
  taps.position.resize(longest);
  taps.weight.resize(longest);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (std::size_t t = 0; t < longest; ++t) {
      const auto last = static_cast<std::int64_t>(std::max<std::size_t>(rows[i].size(), 1)) - 1;
      taps.position[t].push_back(std::min(first[i] + std::min(static_cast<std::int64_t>(t), last), size - 1));
      taps.weight[t].push_back(t < rows[i].size() ? rows[i][t] : 0);
    }
  }
  return taps;
}

std::vector<std::int64_t> nearest_positions(std::int64_t size, std::int64_t output, double factor, bool exact) {
  const float scale =
      factor > 0 ? static_cast<float>(1 / factor) : static_cast<float>(size) / static_cast<float>(output);
  std::vector<std::int64_t> positions;
  for (std::int64_t i = 0; i < output; ++i) {
    const float place = exact ? (static_cast<float>(i) + 0.5f) * scale : static_cast<float>(i) * scale;
    positions.push_back(std::min(static_cast<std::int64_t>(std::floor(place)), size - 1));
  }
  return positions;
}

}  // namespace graph
}  // namespace v0
}  // namespace lockstep

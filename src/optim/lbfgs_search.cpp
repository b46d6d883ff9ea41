// The line search of L-BFGS for the strong Wolfe conditions: Nocedal and Wright (2006), algorithms 3.5 and 3.6, with
// cubic interpolation, in the order of torch.optim.LBFGS.
#include <algorithm>
#include <cmath>
#include <utility>

#include <lockstep/ops.h>
#include <lockstep/optim/lbfgs.h>

namespace lockstep {
inline namespace v0 {
namespace optim {
namespace {

constexpr double kSufficient = 1e-4;  // of the decrease that the slope promises
constexpr double kCurvature = 0.9;    // of the slope that may be left

/// Where the cubic through two points and their slopes is least, within bounds.
double cubic_minimum(double x1, double f1, double g1, double x2, double f2, double g2, double low, double high) {
  const double d1 = g1 + g2 - 3 * (f1 - f2) / (x1 - x2);
  const double square = d1 * d1 - g1 * g2;
  if (!(square >= 0)) return (low + high) / 2;
  const double d2 = std::sqrt(square);
  const double place = x1 <= x2 ? x2 - (x2 - x1) * ((g2 + d2 - d1) / (g2 - g1 + 2 * d2))
                                : x1 - (x1 - x2) * ((g1 + d2 - d1) / (g1 - g2 + 2 * d2));
  return std::min(std::max(place, low), high);
}

}  // namespace

// What a length along the direction gives. The parameters are then those of that length.
LBFGS::Point LBFGS::probe(const Closure& closure, const Tensor& from, double length) {
  set_values(from + direction_ * length);
  Point point{.length = length};
  point.loss = directed(evaluate(closure, point.gradient));
  point.slope = sum(point.gradient * direction_).item<double>();
  return point;
}

LBFGS::Point LBFGS::search(const Closure& closure, const Tensor& from, const Point& start, double length,
                           std::int64_t most) {
  Point before = start;
  Point now = probe(closure, from, length);
  for (std::int64_t iteration = 0; iteration < most; ++iteration) {
    const bool too_high = now.loss > start.loss + kSufficient * now.length * start.slope;
    if (too_high || (iteration > 1 && now.loss >= before.loss)) {
      return zoom(closure, from, start, {before, now}, most - iteration);
    }
    if (std::abs(now.slope) <= -kCurvature * start.slope) return now;
    if (now.slope >= 0) return zoom(closure, from, start, {before, now}, most - iteration);
    const double next = cubic_minimum(before.length, before.loss, before.slope, now.length, now.loss, now.slope,
                                      now.length + 0.01 * (now.length - before.length), now.length * 10);
    before = std::exchange(now, probe(closure, from, next));
  }
  return start.loss <= now.loss ? start : now;
}

// Makes a bracket around a good point smaller, by at most `left` evaluations.
LBFGS::Point LBFGS::zoom(const Closure& closure, const Tensor& from, const Point& start, std::vector<Point> bracket,
                         std::int64_t left) {
  const double widest = amax(abs(direction_)).item<double>();
  bool slow = false;
  std::size_t low = bracket[0].loss <= bracket[1].loss ? 0 : 1;
  for (; left > 0; --left) {
    const double least = std::min(bracket[0].length, bracket[1].length);
    const double most = std::max(bracket[0].length, bracket[1].length);
    if (std::abs(bracket[1].length - bracket[0].length) * widest < options_.tolerance_change) break;
    double length = cubic_minimum(bracket[0].length, bracket[0].loss, bracket[0].slope, bracket[1].length,
                                  bracket[1].loss, bracket[1].slope, least, most);
    // Near an end of the bracket for a second time, or at it: a tenth of the bracket away from that end.
    const double margin = 0.1 * (most - least);
    if (std::min(most - length, length - least) < margin) {
      if (slow || length >= most || length <= least) {
        length = std::abs(length - most) < std::abs(length - least) ? most - margin : least + margin;
        slow = false;
      } else {
        slow = true;
      }
    } else {
      slow = false;
    }
    const Point now = probe(closure, from, length);
    const std::size_t high = 1 - low;
    if (now.loss > start.loss + kSufficient * now.length * start.slope || now.loss >= bracket[low].loss) {
      bracket[high] = now;
      low = bracket[0].loss <= bracket[1].loss ? 0 : 1;
      continue;
    }
    const bool done = std::abs(now.slope) <= -kCurvature * start.slope;
    if (!done && now.slope * (bracket[high].length - bracket[low].length) >= 0) bracket[high] = bracket[low];
    bracket[low] = now;
    if (done) break;
  }
  return bracket[low];
}

}  // namespace optim
}  // namespace v0
}  // namespace lockstep

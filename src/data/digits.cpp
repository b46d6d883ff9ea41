// How the digits are drawn. A digit has a few styles, a style is a list of strokes, a stroke passes through points of a
// box 100 wide and 140 high. Points are moved at random, joined by lines or Catmull-Rom curves, mapped to pixels by a
// random affine map, and drawn with a round pen: the ink of a pixel falls off with its distance to the nearest line.
// Lengths are integers in 1/256 of a pixel.
#include <lockstep/data/digits.h>

#include <algorithm>
#include <array>
#include <span>

#include <fmt/format.h>

#include <lockstep/error.h>

namespace lockstep {
inline namespace v0 {
namespace data {
namespace {

constexpr int kSide = DigitImages::kSide;
constexpr std::int64_t kOne = 256;  // a pixel

struct Point {
  std::int64_t x = 0;
  std::int64_t y = 0;
};

enum class Join : std::uint8_t { lines, curve };
struct Stroke {
  Join join;
  std::vector<Point> points;
};
using Style = std::vector<Stroke>;

constexpr Join kLines = Join::lines;
constexpr Join kCurve = Join::curve;

const std::array<std::vector<Style>, 10>& styles() {
  static const auto& table = *new std::array<std::vector<Style>, 10>{{
      // 0: an oval; a narrow one that does not quite close
      {{{kCurve, {{50, 4}, {20, 25}, {10, 70}, {20, 115}, {50, 136}, {80, 115}, {90, 70}, {80, 25}, {50, 4}}}},
       {{kCurve, {{62, 12}, {38, 8}, {20, 50}, {20, 100}, {46, 135}, {74, 112}, {82, 60}, {68, 16}, {46, 6}}}}},
      // 1: a line; with a flag; with a flag and a base
      {{{kLines, {{50, 4}, {50, 136}}}},
       {{kLines, {{26, 36}, {54, 4}, {54, 136}}}},
       {{kLines, {{26, 34}, {52, 4}, {52, 134}}}, {kLines, {{24, 134}, {82, 134}}}}},
      // 2: with a straight base; with a loop
      {{{kCurve, {{14, 36}, {28, 10}, {58, 4}, {84, 26}, {78, 62}, {48, 98}, {12, 133}}},
        {kLines, {{12, 133}, {90, 132}}}},
       {{kCurve,
         {{14, 36}, {38, 6}, {74, 14}, {82, 46}, {62, 88}, {28, 128}, {12, 118}, {28, 106}, {54, 124}, {92, 128}}}}},
      // 3: two bows; a flat top
      {{{kCurve, {{14, 22}, {44, 4}, {80, 20}, {76, 50}, {42, 64}}},
        {kCurve, {{42, 64}, {82, 78}, {88, 112}, {50, 136}, {12, 118}}}},
       {{kLines, {{14, 8}, {82, 8}, {42, 58}}}, {kCurve, {{42, 58}, {80, 70}, {88, 106}, {54, 136}, {12, 120}}}}},
      // 4: closed; open with corners; open and round
      {{{kLines, {{66, 136}, {66, 4}, {8, 92}, {94, 92}}}},
       {{kLines, {{22, 8}, {14, 76}, {90, 76}}}, {kLines, {{72, 10}, {68, 136}}}},
       {{kCurve, {{20, 8}, {12, 50}, {26, 76}, {58, 74}, {80, 58}}}, {kLines, {{82, 8}, {76, 136}}}}},
      // 5: with corners; with the bar drawn last
      {{{kLines, {{84, 6}, {26, 6}, {20, 62}}},
        {kCurve, {{20, 62}, {52, 50}, {86, 68}, {86, 108}, {54, 136}, {12, 122}}}},
       {{kCurve, {{28, 12}, {20, 58}, {58, 52}, {88, 84}, {70, 126}, {12, 130}}}, {kLines, {{28, 10}, {90, 4}}}}},
      // 6: a bow; a straight stem
      {{{kCurve, {{76, 8}, {36, 34}, {12, 86}, {22, 124}, {54, 136}, {86, 110}, {74, 80}, {44, 76}, {14, 102}}}},
       {{kCurve, {{52, 4}, {24, 58}, {12, 104}, {44, 136}, {80, 116}, {70, 84}, {36, 82}, {14, 106}}}}},
      // 7: plain; with a bar; with a curved stem
      {{{kLines, {{10, 8}, {88, 8}, {40, 136}}}},
       {{kLines, {{10, 8}, {88, 8}, {44, 136}}}, {kLines, {{30, 72}, {84, 70}}}},
       {{kLines, {{12, 24}, {14, 8}, {88, 8}}}, {kCurve, {{88, 8}, {64, 54}, {50, 98}, {46, 136}}}}},
      // 8: two loops from the middle; one line that crosses itself
      {{{kCurve,
         {{50, 64},
          {22, 44},
          {24, 14},
          {50, 4},
          {78, 16},
          {78, 44},
          {50, 64},
          {16, 90},
          {16, 120},
          {50, 136},
          {84, 120},
          {84, 90},
          {50, 64}}}},
       {{kCurve,
         {{80, 18},
          {50, 4},
          {22, 24},
          {36, 54},
          {76, 86},
          {80, 120},
          {48, 136},
          {18, 118},
          {28, 84},
          {66, 54},
          {82, 20}}}}},
      // 9: a loop and a stem; one curve
      {{{kCurve, {{82, 36}, {56, 66}, {22, 54}, {18, 22}, {50, 4}, {80, 18}, {82, 40}}},
        {kLines, {{82, 14}, {76, 136}}}},
       {{kCurve, {{80, 42}, {46, 68}, {14, 42}, {38, 6}, {76, 16}, {84, 58}, {70, 110}, {24, 134}}}}},
  }};
  return table;
}

// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014).
class Random {
 public:
  Random(std::uint64_t seed, std::uint64_t stream) : state_(seed) { state_ = next() ^ (stream * 0xd1342543de82ef95u); }

  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  /// In [low, high], evenly.
  std::int64_t between(std::int64_t low, std::int64_t high) {
    const std::uint64_t count = static_cast<std::uint64_t>(high - low) + 1;
    return low + static_cast<std::int64_t>(((next() >> 32) * count) >> 32);
  }
  /// In [-width, width], the middle more often.
  std::int64_t around(std::int64_t width) { return (between(-width, width) + between(-width, width)) / 2; }

 private:
  std::uint64_t state_;
};

std::int64_t square_root(std::int64_t value) {
  std::int64_t root = 0;
  for (std::int64_t bit = std::int64_t{1} << 16; bit > 0; bit >>= 1) {
    if ((root + bit) * (root + bit) <= value) root += bit;
  }
  return root;
}

// The points of a stroke, with those of its curves between them. A curve passes from p1 to p2 with the neighbours p0,
// p3.
std::vector<Point> path(const Stroke& stroke) {
  if (stroke.join == Join::lines) return stroke.points;
  constexpr std::int64_t kSteps = 8;
  const std::vector<Point>& points = stroke.points;
  const auto last = static_cast<std::ptrdiff_t>(points.size()) - 1;
  const auto point = [&](std::ptrdiff_t i) {
    return points[static_cast<std::size_t>(std::clamp<std::ptrdiff_t>(i, 0, last))];
  };
  std::vector<Point> result{points.front()};
  for (std::ptrdiff_t i = 0; i < last; ++i) {
    const Point p0 = point(i - 1), p1 = point(i), p2 = point(i + 1), p3 = point(i + 2);
    for (std::int64_t t = 1; t <= kSteps; ++t) {
      const auto value = [t](std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) {
        constexpr std::int64_t n = kSteps;
        return (2 * b * n * n * n + (c - a) * t * n * n + (2 * a - 5 * b + 4 * c - d) * t * t * n +
                (3 * b - a - 3 * c + d) * t * t * t) /
               (2 * n * n * n);
      };
      result.push_back({value(p0.x, p1.x, p2.x, p3.x), value(p0.y, p1.y, p2.y, p3.y)});
    }
  }
  return result;
}

// What is chosen at random for one image.
struct Pen {
  std::int64_t radius;    // where the ink begins to fall off
  std::int64_t softness;  // and over which length
};

// Lowers `distance` (squared, per pixel) to that of the line from a to b, for the pixels that the pen reaches.
void draw_line(Point a, Point b, const Pen& pen, std::array<std::int64_t, DigitImages::kPixels>& distance) {
  const std::int64_t reach = pen.radius + pen.softness;
  const auto first = [&](std::int64_t low) { return std::clamp<std::int64_t>((low - reach) / kOne - 1, 0, kSide - 1); };
  const auto final = [&](std::int64_t high) {
    return std::clamp<std::int64_t>((high + reach) / kOne + 1, 0, kSide - 1);
  };
  const Point along{b.x - a.x, b.y - a.y};
  const std::int64_t length_squared = along.x * along.x + along.y * along.y;
  for (std::int64_t y = first(std::min(a.y, b.y)); y <= final(std::max(a.y, b.y)); ++y) {
    for (std::int64_t x = first(std::min(a.x, b.x)); x <= final(std::max(a.x, b.x)); ++x) {
      Point from_a{x * kOne + kOne / 2 - a.x, y * kOne + kOne / 2 - a.y};
      const std::int64_t dot = std::clamp<std::int64_t>(from_a.x * along.x + from_a.y * along.y, 0, length_squared);
      if (length_squared > 0) {
        from_a.x -= along.x * dot / length_squared;
        from_a.y -= along.y * dot / length_squared;
      }
      std::int64_t& nearest = distance[static_cast<std::size_t>(y * kSide + x)];
      nearest = std::min(nearest, from_a.x * from_a.x + from_a.y * from_a.y);
    }
  }
}

void draw(std::size_t digit, Random random, std::span<std::uint8_t> pixels) {
  const std::vector<Style>& choices = styles()[digit];
  Style style = choices[static_cast<std::size_t>(random.between(0, static_cast<std::int64_t>(choices.size()) - 1))];

  // The map from the box to pixels, as 1/256 pixels per unit times 256: size, aspect, turn, slant and place.
  const std::int64_t height = random.between(13, 21) * kOne + random.between(0, kOne);  // of the 140 units
  const std::int64_t width_percent = random.between(65, 135);                           // of the even aspect
  const std::int64_t turn = random.around(110);                                         // 256 is 45 degrees
  const std::int64_t slant = random.around(110);
  const std::int64_t unit_y = height * 256 / 140;
  const std::int64_t unit_x = unit_y * width_percent / 100;
  const Point centre{14 * kOne + random.around(4 * kOne), 14 * kOne + random.around(4 * kOne)};
  const auto to_pixels = [&](Point p) {
    const std::int64_t x = (p.x - 50 * 16) * unit_x / 16;  // points are in 1/16 units by now
    const std::int64_t y = (p.y - 70 * 16) * unit_y / 16;
    return Point{centre.x + (x - (turn + slant) * y / 256) / 256, centre.y + (y + turn * x / 256) / 256};
  };

  const std::int64_t wobble = random.between(2 * 16, 11 * 16);
  const Pen pen{random.between(110, 350), random.between(180, 330)};
  std::array<std::int64_t, DigitImages::kPixels> distance;
  distance.fill(std::int64_t{1} << 32);
  for (Stroke& stroke : style) {
    const bool closed = stroke.points.size() > 2 && stroke.points.front().x == stroke.points.back().x &&
                        stroke.points.front().y == stroke.points.back().y;
    for (Point& p : stroke.points) p = {p.x * 16 + random.around(wobble), p.y * 16 + random.around(wobble)};
    if (closed) stroke.points.back() = stroke.points.front();
    std::vector<Point> line = path(stroke);
    std::transform(line.begin(), line.end(), line.begin(), to_pixels);
    for (std::size_t i = 0; i + 1 < line.size(); ++i) draw_line(line[i], line[i + 1], pen, distance);
  }

  const std::int64_t ink = random.between(120, 255);
  const std::int64_t paper = random.between(0, 30);
  const std::int64_t noise = random.between(0, 60);
  const std::int64_t reach = pen.radius + pen.softness;
  for (std::size_t i = 0; i < distance.size(); ++i) {
    std::int64_t cover = 0;
    if (distance[i] < reach * reach) {
      cover = std::clamp<std::int64_t>(pen.radius + pen.softness - square_root(distance[i]), 0, pen.softness);
    }
    const std::int64_t value = paper + (ink - paper) * cover / pen.softness + random.around(noise);
    pixels[i] = static_cast<std::uint8_t>(std::clamp<std::int64_t>(value, 0, 255));
  }
}

}  // namespace

DigitImages draw_digits(std::int64_t count, std::uint64_t seed) {
  if (count < 0) throw ValueError(fmt::format("draw_digits: a count of {} is negative", count));
  DigitImages images;
  images.pixels.resize(static_cast<std::size_t>(count * DigitImages::kPixels));
  images.labels.resize(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < images.labels.size(); ++i) {
    images.labels[i] = static_cast<std::uint8_t>(i % 10);
    draw(i % 10, Random(seed, i),
         std::span(images.pixels).subspan(i * DigitImages::kPixels, static_cast<std::size_t>(DigitImages::kPixels)));
  }
  return images;
}

std::shared_ptr<const TensorDataset> digits(std::int64_t count, std::uint64_t seed) {
  const DigitImages images = draw_digits(count, seed);
  const std::vector<std::int64_t> labels(images.labels.begin(), images.labels.end());
  return std::make_shared<TensorDataset>(Tensor::from(images.pixels, {count, 1, kSide, kSide}, Device{}),
                                         Tensor::from(labels, {count}, Device{}));
}

}  // namespace data
}  // namespace v0
}  // namespace lockstep

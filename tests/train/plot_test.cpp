// Plots: that they show what there is, and take what is strange.
#include <gtest/gtest.h>

#include <limits>

#include <lockstep/train/plot.h>

namespace lockstep::test {
namespace {

using train::Panel;
using train::Record;

std::vector<Record> run() {
  std::vector<Record> records;
  for (int i = 1; i <= 100; ++i) {
    records.push_back({.step = i, .epoch = 1, .loss = 2.0 / i, .accuracy = 1 - 1.0 / i});
    if (i % 50 == 0) records.push_back({.step = i, .epoch = 1, .split = "test", .loss = 0.1, .accuracy = 0.9});
  }
  return records;
}

TEST(Plot, ATrainingRunHasLossAndAccuracyOfBothSplits) {
  const std::vector<Panel> panels = train::training_panels(run());
  ASSERT_EQ(panels.size(), 2u);
  ASSERT_EQ(panels[0].curves.size(), 3u);
  EXPECT_EQ(panels[0].curves[0].points.size(), 100u);
  EXPECT_EQ(panels[0].curves[2].points.size(), 2u);
  const std::string svg = train::plot_svg(panels);
  for (const char* part : {"<svg", "Loss", "Accuracy", "step", "train", "test", "100 %", "</svg>"}) {
    EXPECT_NE(svg.find(part), std::string::npos) << part;
  }
  const io::Image image = train::plot_image(panels);
  EXPECT_EQ(image.pixels.size(), static_cast<std::size_t>(image.width * image.height * 3));
  EXPECT_NE(std::count(image.pixels.begin(), image.pixels.end(), 255), std::ssize(image.pixels));
}

// At 400 pixels letters of 12 are still 9.
TEST(Plot, PanelsStandBelowEachOtherForNarrowScreens) {
  const std::vector<Panel> panels = train::training_panels(run());
  const io::Image one = train::plot_image({panels[0]});
  const io::Image two = train::plot_image(panels);
  EXPECT_EQ(two.width, one.width);
  EXPECT_EQ(two.height, 2 * one.height);
  EXPECT_LE(two.width, 530);
  // The first panel is the same alone.
  EXPECT_TRUE(std::equal(one.pixels.begin(), one.pixels.end(), two.pixels.begin()));
}

TEST(Plot, ARunWithoutAccuracyHasOnePanel) {
  EXPECT_EQ(train::training_panels({{.step = 1, .loss = 1}, {.step = 2, .loss = 0.5}}).size(), 1u);
}

TEST(Plot, NothingOnePointAndNaNAreDrawn) {
  const double nan = Record::kNone;
  const double infinity = std::numeric_limits<double>::infinity();
  for (const std::vector<std::pair<double, double>>& points : std::vector<std::vector<std::pair<double, double>>>{
           {}, {{1, 1}}, {{nan, nan}, {1, infinity}}, {{1, 0}, {2, 0}}, {{1, 1e-30}, {2, 1e30}}, {{-5, 3}, {5, -3}}}) {
    const std::vector<Panel> panels{{.title = "<&>", .x_label = "x", .curves = {{.name = "\"a\"", .points = points}}}};
    EXPECT_EQ(train::plot_svg(panels).find("nan"), std::string::npos);
    EXPECT_NE(train::plot_svg(panels).find("&lt;&amp;&gt;"), std::string::npos);
    EXPECT_GT(train::plot_image(panels).width, 0);
  }
  EXPECT_NE(train::plot_svg({}).find("</svg>"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::test

#include <lockstep/shape.h>

#include <gtest/gtest.h>

#include <lockstep/error.h>

namespace lockstep {
namespace {

TEST(Shape, OfOneIntegerHasOneSize) {
  const Shape shape = 5;
  EXPECT_EQ(shape, (Shape{5}));
  EXPECT_FALSE((std::is_convertible_v<bool, Shape>));
  EXPECT_FALSE((std::is_convertible_v<double, Shape>));
}

TEST(Dims, AreAListAndNoShape) {
  const Dims one = -1;
  EXPECT_EQ(one.size(), 1);
  EXPECT_EQ(one[0], -1);
  EXPECT_EQ((Dims{0, 2}).to_string(), "[0, 2]");
  EXPECT_TRUE(Dims().empty());
  EXPECT_FALSE((std::is_convertible_v<Shape, Dims>));
  EXPECT_FALSE((std::is_convertible_v<Dims, Shape>));
  EXPECT_FALSE((std::is_convertible_v<bool, Dims>));
}

TEST(Shape, RankZeroHasOneElement) { EXPECT_EQ(Shape{}.numel(), 1); }

TEST(Shape, EmptyWhateverTheOtherSizes) { EXPECT_EQ((Shape{0, INT64_MAX, INT64_MAX}).numel(), 0); }

TEST(Shape, CountThatOverflowsThrows) {
  EXPECT_THROW((Shape{std::int64_t{1} << 32, std::int64_t{1} << 31}).numel(), ShapeError);
  EXPECT_EQ((Shape{std::int64_t{1} << 31, std::int64_t{1} << 31}).numel(), std::int64_t{1} << 62);
}

TEST(Shape, NegativeSizeThrows) { EXPECT_THROW((Shape{2, -1}).numel(), ShapeError); }

TEST(Shape, GrowsToItsCapacityAndNoFurther) {
  Shape shape = Shape::filled(Shape::kCapacity, 1);
  EXPECT_THROW(shape.push_back(1), ShapeError);
  EXPECT_EQ(shape.rank(), Shape::kCapacity);
}

TEST(Shape, InsertEraseSlice) {
  Shape shape{2, 3, 4};
  shape.insert(1, 7);
  EXPECT_EQ(shape, (Shape{2, 7, 3, 4}));
  shape.erase(0);
  EXPECT_EQ(shape, (Shape{7, 3, 4}));
  EXPECT_EQ(shape.slice(1, 3), (Shape{3, 4}));
  EXPECT_EQ(shape.to_string(), "[7, 3, 4]");
}

}  // namespace
}  // namespace lockstep

#include "io/orientation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/data.h"
#include "support/files.h"

namespace lockstep::io {
namespace {

using testing::ElementsAreArray;

std::string big_endian(std::uint32_t value, int bytes) {
  std::string text;
  for (int i = bytes - 1; i >= 0; --i) text += static_cast<char>(value >> (8 * i));
  return text;
}

std::string little_endian(std::uint32_t value, int bytes) {
  const std::string text = big_endian(value, bytes);
  return {text.rbegin(), text.rend()};
}

// A directory with the orientation behind another tag, as Pillow (big) and cameras (little) write it.
std::string tiff(int orientation, bool big = true, std::uint32_t type = 3) {
  const auto number = [&](std::uint32_t value, int bytes) {
    return big ? big_endian(value, bytes) : little_endian(value, bytes);
  };
  return (big ? std::string("MM\0*", 4) : std::string("II*\0", 4)) + number(8, 4) + number(2, 2) +  //
         number(0x0100, 2) + number(3, 2) + number(1, 4) + number(7, 2) + number(0, 2) +            //
         number(0x0112, 2) + number(type, 2) + number(1, 4) + number(static_cast<std::uint32_t>(orientation), 2) +
         number(0, 2) + number(0, 4);
}

std::string segment(int kind, const std::string& content) {
  return std::string{'\xff', static_cast<char>(kind)} + big_endian(static_cast<std::uint32_t>(content.size()) + 2, 2) +
         content;
}

// A JPEG of the repository with a segment of EXIF behind JFIF's.
std::string jpeg_with(const std::string& exif) {
  const std::string file = test::read_whole_file(test::repository_data("images/rgb_420_16x16.jpg"));
  return file.substr(0, 2) + segment(0xe0, std::string("JFIF\0\1\1\0\0\1\0\1\0\0", 14)) +
         segment(0xe1, std::string("Exif\0\0", 6) + exif) + file.substr(2);
}

int orientation_of(const std::string& file) {
  return stored_orientation(std::as_bytes(std::span(file)));
}

// Numbered pixels, 3 x 2, and what ImageOps.exif_transpose of Pillow 13 makes of them.
TEST(Orientation, TurnsAsPillowDoes) {
  Image stored{.width = 3, .height = 2};
  for (std::uint8_t i = 0; i < 6; ++i)
    stored.pixels.insert(stored.pixels.end(), {i, i, static_cast<std::uint8_t>(i + 9)});
  const std::vector<std::vector<int>> expected{{0, 1, 2, 3, 4, 5}, {2, 1, 0, 5, 4, 3}, {5, 4, 3, 2, 1, 0},
                                               {3, 4, 5, 0, 1, 2}, {0, 3, 1, 4, 2, 5}, {3, 0, 4, 1, 5, 2},
                                               {5, 2, 4, 1, 3, 0}, {2, 5, 1, 4, 0, 3}};
  for (int orientation = 1; orientation <= 8; ++orientation) {
    SCOPED_TRACE(orientation);
    const Image image = turned(stored, orientation);
    EXPECT_EQ(image.width, orientation < 5 ? 3 : 2);
    EXPECT_EQ(image.height, orientation < 5 ? 2 : 3);
    std::vector<int> order;
    for (std::size_t i = 0; i < image.pixels.size(); i += 3) {
      order.push_back(image.pixels[i]);
      EXPECT_EQ(image.pixels[i + 2], image.pixels[i] + 9);
    }
    EXPECT_THAT(order, ElementsAreArray(expected[static_cast<std::size_t>(orientation - 1)]));
  }
}

TEST(Orientation, IsReadFromBothFormatsAndByteOrders) {
  for (int orientation = 1; orientation <= 8; ++orientation) {
    for (const bool big : {true, false}) {
      EXPECT_EQ(orientation_of(jpeg_with(tiff(orientation, big))), orientation);
    }
  }
  // A PNG file of Pillow's with orientation 6: three pixels in each of two rows.
  const std::string png(
      "\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x03\0\0\0\x02\x08\0\0\0\0\xb8\x1f"
      "9\xc6"
      "\0\0\0\x1a"
      "eXIfMM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0\xd6gKi"
      "\0\0\0\x10IDATx\x9c"
      "cd`dddfd\x04\0\0+\0\n\xe0_\xe4\xcd\0\0\0\0IEND\xae"
      "B`\x82",
      111);
  EXPECT_EQ(orientation_of(png), 6);
  const test::TemporaryFolder folder;
  const std::string path = folder.write("turned.png", png);
  EXPECT_EQ(load_image(path).width, 3);
  const Image upright = load_image(path, {.upright = true});
  EXPECT_EQ(upright.width, 2);
  EXPECT_EQ(upright.height, 3);
  std::vector<int> reds;
  for (std::size_t i = 0; i < upright.pixels.size(); i += 3) reds.push_back(upright.pixels[i]);
  EXPECT_THAT(reds, testing::ElementsAre(3, 0, 4, 1, 5, 2));
}

TEST(Orientation, IsAppliedWhereAsked) {
  const test::TemporaryFolder folder;
  const Image stored = load_image(test::repository_data("images/rgb_420_16x16.jpg"));
  for (const int orientation : {1, 3, 6, 8}) {
    const std::string path = folder.write("turned.jpg", jpeg_with(tiff(orientation)));
    EXPECT_EQ(load_image(path), stored);
    EXPECT_EQ(load_image(path, {.upright = true}), turned(stored, orientation));
    EXPECT_EQ(turned(stored, orientation) == stored, orientation == 1);
  }
}

TEST(Orientation, NonsenseMeansAsStored) {
  EXPECT_EQ(orientation_of(""), 1);
  EXPECT_EQ(orientation_of("GIF89a"), 1);
  EXPECT_EQ(orientation_of(test::read_whole_file(test::repository_data("images/rgb8.png"))), 1);
  EXPECT_EQ(orientation_of(test::read_whole_file(test::repository_data("images/gray.jpg"))), 1);
  for (const int value : {0, 9, 0xffff}) EXPECT_EQ(orientation_of(jpeg_with(tiff(value))), 1);
  EXPECT_EQ(orientation_of(jpeg_with(tiff(6, true, 4))), 1);
  EXPECT_EQ(orientation_of(jpeg_with("XX" + tiff(6).substr(2))), 1);
  std::string far_away = tiff(6);
  far_away[4] = '\x7f';  // a directory behind the end
  EXPECT_EQ(orientation_of(jpeg_with(far_away)), 1);
  // Cut anywhere, it is read as far as it is whole.
  const std::string whole = tiff(6);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const int found = orientation_of(jpeg_with(whole.substr(0, size)));
    EXPECT_TRUE(found == 1 || found == 6) << size;
    EXPECT_TRUE(size >= 34 || found == 1) << size;
  }
  const std::string file = jpeg_with(whole);
  for (std::size_t size = 0; size < file.size(); ++size) {
    const int found = orientation_of(file.substr(0, size));
    EXPECT_TRUE(found == 1 || found == 6) << size;
  }
}

}  // namespace
}  // namespace lockstep::io

#include <lockstep/io/image.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <lockstep/error.h>
#include <lockstep/io/safetensors.h>

#include "core/os.h"
#include "io/builders.h"
#include "io/image_codec.h"
#include "support/data.h"
#include "support/files.h"

namespace lockstep::io {
namespace {

using test::message_of;
using test::repository_data;
using test::TemporaryFolder;
using testing::HasSubstr;

Image image_of(const Tensor& tensor) {
  Image image{.width = static_cast<int>(tensor.shape()[1]), .height = static_cast<int>(tensor.shape()[0])};
  image.pixels = tensor.to_vector<std::uint8_t>();
  return image;
}

int largest_difference(const Image& a, const Image& b) {
  EXPECT_EQ(a.width, b.width);
  EXPECT_EQ(a.height, b.height);
  int largest = a.pixels.size() == b.pixels.size() ? 0 : 256;
  for (std::size_t i = 0; i < std::min(a.pixels.size(), b.pixels.size()); ++i) {
    largest = std::max(largest, std::abs(a.pixels[i] - b.pixels[i]));
  }
  return largest;
}

TEST(Images, DecodeToWhatPillowSees) {
  const SafetensorsReader expected(repository_data("images/expected.safetensors"));
  int pictures = 0;
  for (const TensorEntry& entry : expected.entries()) {
    const std::string& name = entry.name;
    const bool png = name.ends_with(".png");
    if (!png && !name.ends_with(".jpg")) continue;
    SCOPED_TRACE(name);
    const Tensor tensor = expected.load(entry);
    const Image image = load_image(repository_data("images/" + name));
    // Two decoders of JPEG may differ by rounding; the transform and the upsampling here are those of Pillow's.
    EXPECT_LE(largest_difference(image, image_of(tensor)), png ? 0 : 1);
    ++pictures;
  }
  EXPECT_GT(pictures, 40);
}

TEST(Images, BrokenFilesAreRefused) {
  const SafetensorsReader expected(repository_data("images/expected.safetensors"));
  const auto refuse = nlohmann::json::parse(expected.metadata().at("refuse"));
  EXPECT_GT(refuse.size(), 10u);
  for (const std::string name : refuse) {
    const std::string path = repository_data("images/" + name);
    EXPECT_THAT(message_of<FormatError>([&] { load_image(path); }), HasSubstr(path)) << name;
  }
}

// Nothing that is missing may be made up, except behind the last pixel.
TEST(Images, EveryTruncationIsRefused) {
  for (const char* name : {"rgb8_interlaced_3x2.png", "palette2.png", "gray_1x1.jpg", "rgb_420_16x16.jpg"}) {
    const std::string good = test::read_whole_file(repository_data(std::string("images/") + name));
    const auto decode = [&](std::size_t size) { decode_image(name, std::as_bytes(std::span(good).first(size))); };
    EXPECT_NO_THROW(decode(good.size()));
    for (std::size_t size = 0; size < good.size(); ++size) {
      EXPECT_THROW(decode(size), FormatError) << name << " " << size;
    }
  }
}

TEST(Images, AreaIsBoundedBeforeAnythingIsAllocated) {
  const std::uint64_t before = os::resident_bytes();
  for (const char* name : {"huge", "huge-1-bit", "over-area"}) {
    const auto path = std::filesystem::path(LOCKSTEP_SOURCE_DIR) / "fuzz/corpus/png" / name;
    EXPECT_THROW(load_image(path), FormatError) << name;
  }
  const auto jpeg = std::filesystem::path(LOCKSTEP_SOURCE_DIR) / "fuzz/corpus/jpeg/huge";
  EXPECT_THAT(message_of<FormatError>([&] { load_image(jpeg); }), HasSubstr("Maximum supported image dimension"));
  EXPECT_LT(os::resident_bytes(), before + (32u << 20));
}

std::string decoding(const std::string& bytes) {
  return message_of<FormatError>([&] { decode_image("x.jpg", std::as_bytes(std::span(bytes))); });
}

// Each scan of a flat picture costs a few bytes, and a pass over all of it.
TEST(Images, ScansAreBoundedByTheBlocksTheyPassOver) {
  const std::string small = test::flat_jpeg(64, 480);
  EXPECT_EQ(decode_image("x", std::as_bytes(std::span(small))).pixels, std::vector<std::uint8_t>(64 * 64 * 3, 128));
  EXPECT_THAT(decoding(test::flat_jpeg(64, 501)), HasSubstr("more than 500 scans"));
  EXPECT_EQ(decoding(test::flat_jpeg(4096, 15)), "no error");
  const std::string large = test::flat_jpeg(8000, 480);
  EXPECT_LT(large.size(), 172'000u);
  EXPECT_EQ(decoding(large), "x.jpg: JPEG: its scans pass over the picture more than 16 times");
}

// The decoder of arithmetic coding goes on with zeros where bytes are missing.
TEST(Images, ArithmeticCodingIsRefused) {
  EXPECT_THAT(decoding(test::flat_jpeg(64, 0, 0xc9)), HasSubstr("JPEG: arithmetic coding is not supported"));
}

// Phones append second pictures and films.
TEST(Images, BytesBehindAPictureAreNotLookedAt) {
  for (const char* name : {"rgb8.png", "rgb_420.jpg"}) {
    const std::string good = test::read_whole_file(repository_data(std::string("images/") + name));
    const std::string more = good + "\xff\xd8 more";
    EXPECT_EQ(decode_image(name, std::as_bytes(std::span(more))), decode_image(name, std::as_bytes(std::span(good))));
  }
}

TEST(Images, PaletteIndicesAreChecked) {
  const auto path = std::filesystem::path(LOCKSTEP_SOURCE_DIR) / "fuzz/corpus/png/palette-index";
  EXPECT_THAT(message_of<FormatError>([&] { load_image(path); }),
              HasSubstr("palette index 2 is outside a palette of 2"));
}

TEST(Images, OtherFilesAreNamed) {
  const TemporaryFolder folder;
  const auto refusal = [&](const std::string& bytes) {
    return message_of<FormatError>([&] { load_image(folder.write("x", bytes)); });
  };
  EXPECT_THAT(refusal("GIF89a"), HasSubstr("neither a PNG nor a JPEG image: it is a GIF image"));
  EXPECT_THAT(refusal(""), HasSubstr("it is empty"));
}

TEST(Images, PngRoundTrips) {
  const TemporaryFolder folder;
  Image image{.width = 5, .height = 3};
  for (int i = 0; i < 45; ++i) image.pixels.push_back(static_cast<std::uint8_t>(i * 37));
  save_png(folder.path("a.png"), image);
  EXPECT_EQ(load_image(folder.path("a.png")), image);
  EXPECT_EQ(folder.names(), std::vector<std::string>{"a.png"});
  image.pixels.pop_back();
  EXPECT_THROW(save_png(folder.path("b.png"), image), ValueError);
}

TEST(Images, BecomePlanes) {
  const Image image{.width = 2, .height = 1, .pixels = {1, 2, 3, 4, 5, 6}};
  const Tensor tensor = image_to_tensor(image);
  EXPECT_EQ(tensor.shape(), (Shape{3, 1, 2}));
  EXPECT_EQ(tensor.to_vector<std::uint8_t>(), (std::vector<std::uint8_t>{1, 4, 2, 5, 3, 6}));
}

TEST(Images, RealPictures) {
  LOCKSTEP_REQUIRE_DATA(test::test_data("cifar10/jpeg_test/list.csv"));
  // 1400 recompressed test images; the reference found 30.5 dB on average against the lossless originals.
  const Image sheet = load_image(test::test_data("cifar10/train_lossless_sheet_0000_0999.png"));
  EXPECT_EQ(sheet.width, 1024);
  EXPECT_EQ(sheet.height, 1000);
  int files = 0;
  for (const auto& item : std::filesystem::recursive_directory_iterator(test::test_data("cifar10/jpeg_test"))) {
    if (item.path().extension() != ".jpg") continue;
    const Image image = load_image(item.path());
    EXPECT_TRUE(image.width == 32 && image.height == 32) << item.path();
    ++files;
  }
  EXPECT_EQ(files, 1400);
}

}  // namespace
}  // namespace lockstep::io

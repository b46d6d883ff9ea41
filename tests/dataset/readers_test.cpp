#include <lockstep/data/readers.h>

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <lockstep/error.h>
#include <lockstep/io/image.h>
#include <lockstep/ops.h>

#include "support/data.h"
#include "support/files.h"

namespace lockstep::data {
namespace {

using namespace std::string_literals;
using test::message_of;
using test::TemporaryFolder;
using Indices = std::vector<std::int64_t>;

const std::string kImages = "\0\0\x08\x03\0\0\0\x02\0\0\0\x01\0\0\0\x02"s + "\1\2\3\4";
const std::string kLabels = "\0\0\x08\x01\0\0\0\x02\x07\x03"s;

TEST(MnistReader, ReadsTheFilesOfASplit) {
  const TemporaryFolder folder;
  folder.write("t10k-images-idx3-ubyte", kImages);
  folder.write("t10k-labels.idx1-ubyte", kLabels);
  const auto dataset = mnist(folder.path("."), Split::test);
  EXPECT_EQ(dataset->size(), 2);
  EXPECT_EQ(dataset->input().shape(), (Shape{2, 1, 1, 2}));
  EXPECT_EQ(dataset->input().dtype(), DType::u8);
  EXPECT_EQ(dataset->target().to_vector<std::int64_t>(), (Indices{7, 3}));
  EXPECT_THAT(message_of<IoError>([&] { mnist(folder.path("."), Split::train); }),
              testing::HasSubstr("holds none of train-images-idx3-ubyte, train-images-idx3-ubyte.gz"));
  EXPECT_THROW(mnist(folder.path("missing"), Split::train), IoError);
}

TEST(MnistReader, RefusesFilesThatDoNotBelongTogether) {
  const TemporaryFolder folder;
  folder.write("train-images-idx3-ubyte", kImages);
  folder.write("train-labels-idx1-ubyte", "\0\0\x08\x01\0\0\0\x01\x07"s);
  EXPECT_THROW(mnist(folder.path("."), Split::train), FormatError);
  folder.write("train-labels-idx1-ubyte", kImages);
  EXPECT_THROW(mnist(folder.path("."), Split::train), FormatError);
}

TEST(MnistReader, ReadsTheRealOneSlow) {
  LOCKSTEP_REQUIRE_DATA(test::test_data("mnist/train-images-idx3-ubyte.gz"));
  const std::string folder = test::test_data("mnist");
  const auto train = mnist(folder, Split::train);
  EXPECT_EQ(train->input().shape(), (Shape{60000, 1, 28, 28}));
  EXPECT_EQ(train->target().narrow(0, 0, 10).to_vector<std::int64_t>(), (Indices{5, 0, 4, 1, 9, 2, 1, 3, 1, 4}));
  EXPECT_NEAR(mean(train->input().to(DType::f32)).item<double>() / 255, 0.1307, 1e-4);
  EXPECT_EQ(mnist(folder, Split::test)->size(), 10000);
}

TEST(CifarReader, ReadsBatchesInOrder) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.path("cifar-10-batches-bin"));
  for (int part = 1; part <= 5; ++part) {
    folder.write("cifar-10-batches-bin/data_batch_" + std::to_string(part) + ".bin",
                 std::string(1, static_cast<char>(part)) + std::string(3072, static_cast<char>(10 * part)));
  }
  const auto dataset = cifar10(folder.path("."), Split::train);
  EXPECT_EQ(dataset->target().to_vector<std::int64_t>(), (Indices{1, 2, 3, 4, 5}));
  EXPECT_EQ(dataset->input().shape(), (Shape{5, 3, 32, 32}));
  const Indices last = {4};
  EXPECT_EQ(dataset->fetch({last}).input.to_vector<std::uint8_t>(), std::vector<std::uint8_t>(3072, 50));
  EXPECT_THROW(cifar10(folder.path("."), Split::test), IoError);
}

class ImageFolderTest : public testing::Test {
 protected:
  void picture(const std::string& path, int width, int height, std::uint8_t red) {
    std::filesystem::create_directories(std::filesystem::path(folder_.path(path)).parent_path());
    io::Image image{.width = width, .height = height};
    for (int i = 0; i < width * height; ++i) image.pixels.insert(image.pixels.end(), {red, 5, 6});
    io::save_png(folder_.path(path), image);
  }
  TemporaryFolder folder_;
};

TEST_F(ImageFolderTest, ClassesAreFolders) {
  picture("dogs/b.PNG", 4, 4, 20);
  picture("dogs/a.png", 8, 2, 10);
  picture("cats/c.png", 4, 4, 30);
  folder_.write("dogs/notes.txt", "not a picture");
  folder_.write("readme", "");
  std::filesystem::create_directory(folder_.path(".hidden"));
  const ImageFolder dataset(folder_.path("."), {.height = 2, .width = 3});
  EXPECT_EQ(dataset.classes(), (std::vector<std::string>{"cats", "dogs"}));
  EXPECT_EQ(dataset.size(), 3);
  const Indices indices = {0, 1, 2};
  const Batch batch = dataset.fetch({indices});
  EXPECT_EQ(batch.input.shape(), (Shape{3, 3, 2, 3}));
  EXPECT_EQ(batch.target.to_vector<std::int64_t>(), (Indices{0, 1, 1}));
  EXPECT_EQ(batch.input.select(1, 0).select(1, 0).select(1, 0).to_vector<std::uint8_t>(),
            (std::vector<std::uint8_t>{30, 10, 20}));
  const ImageFolder cropped(folder_.path("."), {.height = 2, .width = 3, .shorter_side = 4});
  EXPECT_EQ(cropped.fetch({indices}).input.shape(), (Shape{3, 3, 2, 3}));
}

TEST_F(ImageFolderTest, ReportsABrokenFileByItsName) {
  picture("dogs/a.png", 4, 4, 20);
  folder_.write("dogs/b.jpg", "not a picture");
  const ImageFolder dataset(folder_.path("."), {.height = 2, .width = 2});
  const Indices broken = {1};
  EXPECT_THAT(message_of<FormatError>([&] { dataset.fetch({broken}); }), testing::HasSubstr("dogs/b.jpg"));
  const Indices outside = {2};
  EXPECT_THROW(dataset.fetch({outside}), IndexError);
}

TEST_F(ImageFolderTest, RefusesFoldersWithoutClassesOrPictures) {
  EXPECT_THROW(ImageFolder(folder_.path(".")), ValueError);
  std::filesystem::create_directory(folder_.path("dogs"));
  EXPECT_THROW(ImageFolder(folder_.path(".")), ValueError);
  EXPECT_THROW(ImageFolder(folder_.path("missing")), IoError);
  picture("dogs/a.png", 4, 4, 20);
  EXPECT_THROW(ImageFolder(folder_.path("."), {.height = 0}), ValueError);
  EXPECT_THROW(ImageFolder(folder_.path("."), {.height = 8, .width = 8, .shorter_side = 7}), ValueError);
}

}  // namespace
}  // namespace lockstep::data

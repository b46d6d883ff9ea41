#include <lockstep/io/cifar.h>

#include <gtest/gtest.h>

#include <lockstep/error.h>

#include "support/data.h"
#include "support/files.h"

namespace lockstep::io {
namespace {

using test::message_of;
using test::TemporaryFolder;

std::string record(char label, char red, char green, char blue) {
  return std::string(1, label) + std::string(1024, red) + std::string(1024, green) + std::string(1024, blue);
}

TEST(Cifar, ReadsRecords) {
  const TemporaryFolder folder;
  const CifarFile file = CifarFile::load(folder.write("f", record(3, 1, 2, 3) + record(9, 4, 5, 6)));
  EXPECT_EQ(file.size(), 2u);
  EXPECT_EQ(file.labels, (std::vector<std::uint8_t>{3, 9}));
  const Image image = file.image(1);
  EXPECT_EQ(image.width, 32);
  EXPECT_EQ(std::vector<std::uint8_t>(image.pixels.begin(), image.pixels.begin() + 6),
            (std::vector<std::uint8_t>{4, 5, 6, 4, 5, 6}));
  EXPECT_EQ(file.images_tensor().shape(), (Shape{2, 3, 32, 32}));
  EXPECT_EQ(file.labels_tensor().to_vector<std::int64_t>(), (std::vector<std::int64_t>{3, 9}));
  EXPECT_THROW(file.image(2), IndexError);
}

TEST(Cifar, RefusesPartsAndUnknownLabels) {
  const TemporaryFolder folder;
  const std::string path = folder.write("f", record(3, 1, 2, 3) + "x");
  EXPECT_EQ(message_of<FormatError>([&] { CifarFile::load(path); }),
            path + ": 3074 bytes are not a whole number of CIFAR-10 records of 3073 bytes");
  EXPECT_THROW(CifarFile::load(folder.write("f", "")), FormatError);
  folder.write("f", record(3, 1, 2, 3) + record(10, 1, 2, 3));
  EXPECT_EQ(message_of<FormatError>([&] { CifarFile::load(path); }),
            path + ": record 1: label 10 is not below 10 (at byte 3073)");
  EXPECT_THROW(CifarFile::load(folder.path("missing")), IoError);
}

TEST(Cifar, PublishedRecordsEqualTheirPictures) {
  LOCKSTEP_REQUIRE_DATA(test::test_data("cifar10/test_lossless_0000_0699.bin"));
  const CifarFile file = CifarFile::load(test::test_data("cifar10/test_lossless_0000_0699.bin"));
  EXPECT_EQ(file.size(), 700u);
  int pictures = 0;
  for (const auto& item : std::filesystem::directory_iterator(test::test_data("cifar10/png"))) {
    if (item.path().extension() != ".png") continue;
    const Image picture = load_image(item.path());
    bool found = false;
    for (std::size_t i = 0; i < 20 && !found; ++i) found = file.image(i) == picture;
    EXPECT_TRUE(found) << item.path();
    ++pictures;
  }
  EXPECT_EQ(pictures, 20);
}

}  // namespace
}  // namespace lockstep::io

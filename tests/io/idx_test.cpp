#include <lockstep/io/idx.h>

#include <gtest/gtest.h>

#include <zlib.h>

#include <lockstep/error.h>

#include "support/data.h"
#include "support/files.h"

namespace lockstep::io {
namespace {

using namespace std::string_literals;
using test::message_of;
using test::TemporaryFolder;

std::string gzip(const std::string& content, const std::string& path) {
  gzFile file = ::gzopen(path.c_str(), "wb");
  EXPECT_EQ(::gzwrite(file, content.data(), static_cast<unsigned>(content.size())), static_cast<int>(content.size()));
  ::gzclose(file);
  return test::read_whole_file(path);
}

const std::string kBytes = "\0\0\x08\x02\0\0\0\x02\0\0\0\x03"s + "abcdef";

TEST(Idx, ReadsArraysPlainAndPacked) {
  const TemporaryFolder folder;
  for (const std::string& content : {kBytes, gzip(kBytes, folder.path("packed"))}) {
    const Tensor array = load_idx(folder.write("f", content));
    EXPECT_EQ(array.shape(), (Shape{2, 3}));
    EXPECT_EQ(array.to_vector<std::uint8_t>(), (std::vector<std::uint8_t>{'a', 'b', 'c', 'd', 'e', 'f'}));
  }
}

TEST(Idx, ReadsEveryType) {
  const TemporaryFolder folder;
  const auto load = [&](char code, const std::string& data) {
    return load_idx(folder.write("f", "\0\0"s + code + "\1\0\0\0\1"s + data));
  };
  EXPECT_EQ(load(0x09, "\xff").item<std::int8_t>(), -1);
  EXPECT_EQ(load(0x0b, "\x01\x02").item<std::int16_t>(), 0x0102);
  EXPECT_EQ(load(0x0c, "\x01\x02\x03\x04").item<std::int32_t>(), 0x01020304);
  EXPECT_EQ(load(0x0d, "\x3f\x80\0\0"s).item<float>(), 1);
  EXPECT_EQ(load(0x0e, "\x40\0\0\0\0\0\0\0"s).item<double>(), 2);
  EXPECT_THROW(load(0x0a, "a"), FormatError);
  EXPECT_EQ(load_idx(folder.write("f", "\0\0\x08\0x"s)).shape(), Shape());
}

TEST(Idx, RefusesEveryOtherLength) {
  const TemporaryFolder folder;
  const std::string packed = gzip(kBytes, folder.path("packed"));
  for (const std::string& whole : {kBytes, packed}) {
    for (std::size_t size = 0; size < whole.size(); ++size) {
      EXPECT_THROW(load_idx(folder.write("f", whole.substr(0, size))), FormatError) << size;
    }
    EXPECT_THROW(load_idx(folder.write("f", whole + "x")), FormatError);
  }
  EXPECT_THROW(load_idx(folder.write("f", gzip(kBytes + "x", folder.path("packed")))), FormatError);
  EXPECT_EQ(message_of<FormatError>([&] { load_idx(folder.write("f", kBytes.substr(0, 15))); }),
            folder.path("f") + ": u8 [2, 3] needs 18 bytes with its header, and the file holds 15");
}

TEST(Idx, RefusesDamage) {
  const TemporaryFolder folder;
  std::string packed = gzip(kBytes, folder.path("packed"));
  packed[packed.size() - 8] ^= 1;  // the checksum
  EXPECT_THROW(load_idx(folder.write("f", packed)), FormatError);
  EXPECT_THROW(load_idx(folder.write("f", "PK\x03\x04")), FormatError);
  EXPECT_THROW(load_idx(folder.write("f", "\0\0\x08\x09"s + std::string(40, '\1'))), FormatError);  // nine dimensions
  EXPECT_THROW(load_idx(folder.write("f", "\0\0\x0e\3"s + std::string(12, '\xff'))), FormatError);  // 2^99 bytes
  EXPECT_THROW(load_idx(folder.write("f", "\0\0\x0e\4\0\0\0\0"s + std::string(12, '\xff'))), FormatError);
  EXPECT_THROW(load_idx(folder.path("missing")), IoError);
}

}  // namespace
}  // namespace lockstep::io

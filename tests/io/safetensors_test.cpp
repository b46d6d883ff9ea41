#include <lockstep/io/safetensors.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <lockstep/error.h>

#include "core/hash.h"
#include "core/os.h"
#include "io/builders.h"
#include "io/every_dtype.h"
#include "io/safetensors_writer.h"
#include "support/data.h"
#include "support/failing_calls.h"
#include "support/files.h"

namespace lockstep::io {
namespace {

using test::bytes_of;
using test::message_of;
using test::safetensors_bytes;
using test::TemporaryFolder;
using testing::HasSubstr;

TEST(Safetensors, RoundTripsEveryDType) {
  const TemporaryFolder folder;
  const std::string path = folder.path("all.safetensors");
  const std::map<std::string, std::string> metadata = {{"format", "pt"}, {"quote\"\n", "umlaut \xc3\xa4"}};
  save_safetensors(path, test::every_dtype(), metadata);
  for (const bool map : {true, false}) {
    const TensorFile file = load_safetensors(path, {.map = map});
    test::expect_equal(file.tensors, test::every_dtype());
    EXPECT_EQ(file.metadata, metadata);
  }
}

TEST(Safetensors, WritesLargestElementsFirstThenByName) {
  const TemporaryFolder folder;
  const std::string path = folder.path("order.safetensors");
  save_safetensors(path, test::every_dtype());
  const SafetensorsReader reader(path);
  std::vector<std::string> names;
  for (const TensorEntry& entry : reader.entries()) {
    names.push_back(entry.name);
    EXPECT_EQ(entry.offset % size_of(entry.type), 0u) << entry.name;
  }
  const std::vector<std::string> expected = {"complex64", "f64",    "i64",    "u64", "empty", "f32",
                                             "i32",       "u32",    "bf16",   "f16", "i16",   "u16",
                                             "bool",      "f8e4m3", "f8e5m2", "i8",  "u8"};
  EXPECT_EQ(names, expected);
  EXPECT_EQ(reader.entries().front().offset % 8, 0u);
}

TEST(Safetensors, EqualTensorsGiveEqualFiles) {
  const TemporaryFolder folder;
  save_safetensors(folder.path("a"), test::every_dtype(), {{"k", "v"}});
  save_safetensors(folder.path("b"), test::every_dtype(), {{"k", "v"}});
  EXPECT_EQ(test::read_whole_file(folder.path("a")), test::read_whole_file(folder.path("b")));
}

TEST(Safetensors, NothingIsAFileToo) {
  const TemporaryFolder folder;
  save_safetensors(folder.path("a"), {});
  EXPECT_EQ(test::read_whole_file(folder.path("a")), safetensors_bytes("{}      "));
  EXPECT_TRUE(load_safetensors(folder.path("a")).tensors.empty());
}

TEST(Safetensors, UnalignedTensorsAreRead) {
  const TemporaryFolder folder;
  const std::string header =
      R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"F64","shape":[1],"data_offsets":[1,9]}})";
  const std::string path = folder.write("odd", safetensors_bytes(header, "\x07" + test::bytes_of(2.5)));
  EXPECT_EQ(load_safetensors(path).tensors.at("b").to_vector<double>(), std::vector<double>{2.5});
}

TEST(Safetensors, LoadsByNameAndSaysWhatIsMissing) {
  const TemporaryFolder folder;
  const std::string path = folder.path("m");
  save_safetensors(path, test::every_dtype());
  const SafetensorsReader reader(path);
  EXPECT_EQ(reader.load("i16").to_vector<std::int16_t>(), (std::vector<std::int16_t>{-1, 2}));
  EXPECT_EQ(message_of<ValueError>([&] { reader.load("x"); }), path + ": there is no tensor \"x\"");
}

TEST(Safetensors, TensorsOutliveReaderAndFile) {
  const TemporaryFolder folder;
  save_safetensors(folder.path("m"), test::every_dtype());
  const Tensor tensor = SafetensorsReader(folder.path("m")).load("i64");
  std::filesystem::remove(folder.path("m"));
  EXPECT_EQ(tensor.to_vector<std::int64_t>(), (std::vector<std::int64_t>{-1, INT64_MAX}));
}

TEST(Safetensors, StorageOnlyTypesAreLoadedBitForBit) {
  const TemporaryFolder folder;
  const std::string header = R"({"a":{"dtype":"F8_E4M3","shape":[4],"data_offsets":[0,4]},)"
                             R"("b":{"dtype":"U16","shape":[2],"data_offsets":[4,8]},)"
                             R"("c":{"dtype":"C64","shape":[1],"data_offsets":[8,16]},)"
                             R"("d":{"dtype":"F32","shape":[1],"data_offsets":[16,20]}})";
  const std::string path = folder.write("m", safetensors_bytes(header, std::string(18, '\x40') + std::string(2, '\0')));
  const SafetensorsReader reader(path);
  ASSERT_EQ(reader.entries().size(), 4u);
  EXPECT_EQ(name_of(reader.entries()[0].type), "f8e4m3");
  EXPECT_EQ(reader.entries()[2].type, StoredType::c64);
  EXPECT_EQ(reader.load("a").dtype(), DType::f8e4m3);
  EXPECT_EQ(reader.load("b").to_vector<std::uint16_t>(), (std::vector<std::uint16_t>{0x4040, 0x4040}));
  EXPECT_EQ(reader.load("c").shape(), Shape{1});
}

TEST(Safetensors, BoolsAreZeroOrOne) {
  const TemporaryFolder folder;
  const std::string header = R"({"mask":{"dtype":"BOOL","shape":[3],"data_offsets":[0,3]}})";
  const std::string path = folder.write("m", safetensors_bytes(header, std::string("\0\1\2", 3)));
  EXPECT_EQ(message_of<FormatError>([&] { load_safetensors(path); }),
            path + ": tensor \"mask\": element 2 of a bool tensor is 2, neither 0 nor 1");
}

TEST(Safetensors, RefusesToWriteWhatItCouldNotRead) {
  const TemporaryFolder folder;
  const Tensor one = Tensor::from(std::vector<float>{1}, {1});
  EXPECT_THROW(save_safetensors(folder.path("m"), {{"__metadata__", one}}), ValueError);
  EXPECT_THROW(save_safetensors(folder.path("m"), {{"bad\xff", one}}), ValueError);
  EXPECT_THROW(save_safetensors(folder.path("m"), {{"a", Tensor()}}), ValueError);
  EXPECT_THROW(save_safetensors(folder.path("m"), {{"a", one}}, {{"k", "\xc3"}}), ValueError);
  EXPECT_THROW(save_safetensors(folder.path("no/m"), {{"a", one}}), IoError);
  EXPECT_TRUE(folder.names().empty());
}

// Each system call of a save fails once, in five ways: the file is the old or the new one, never anything else.
TEST(Safetensors, EveryFailingCallLeavesOldOrNewFile) {
  const TensorMap old_tensors = {{"w", Tensor::from(std::vector<float>{1, 2}, {2})}};
  const TensorMap new_tensors = test::every_dtype();
  for (const int error : {ENOSPC, EIO, EDQUOT, EINTR, 0}) {
    for (int k = 0;; ++k) {
      const TemporaryFolder folder;
      const std::string path = folder.path("m.safetensors");
      save_safetensors(path, old_tensors);
      test::FailingCalls calls(k, error);
      bool reported = false;
      try {
        write_safetensors(path, new_tensors, {}, calls);
      } catch (const IoError&) {
        reported = true;
      }
      const TensorMap found = load_safetensors(path).tensors;
      if (reported && calls.failed_call() != "fsync" && calls.failed_call() != "close") {
        test::expect_equal(found, old_tensors);
      } else if (!reported) {
        test::expect_equal(found, new_tensors);
      } else {
        EXPECT_TRUE(found.size() == old_tensors.size() || found.size() == new_tensors.size());
      }
      EXPECT_EQ(folder.names(), std::vector<std::string>{"m.safetensors"}) << calls.failed_call();
      if (!calls.failed()) break;
      ASSERT_LT(k, 200);
    }
  }
}

TEST(Safetensors, MappingAGigabyteCostsNoMemory) {
  const TemporaryFolder folder;
  const std::string path = folder.write(
      "big", safetensors_bytes(R"({"w":{"dtype":"F32","shape":[16384,16384],"data_offsets":[0,1073741824]}})"));
  std::filesystem::resize_file(path, std::filesystem::file_size(path) + (std::uint64_t{1} << 30));
  const std::uint64_t before = os::resident_bytes();
  const TensorFile file = load_safetensors(path);
  const std::uint64_t after = os::resident_bytes();
  EXPECT_EQ(file.tensors.at("w").numel(), std::int64_t{1} << 28);
  EXPECT_LT(after - std::min(before, after), 50u << 20);
}

TEST(Safetensors, ReadsPublishedModels) {
  const auto path = test::test_data("resnet_cifar/resnet20.safetensors");
  LOCKSTEP_REQUIRE_DATA(path);
  const TensorFile file = load_safetensors(path);
  EXPECT_EQ(file.tensors.at("conv1.weight").shape(), (Shape{16, 3, 3, 3}));
  EXPECT_EQ(file.tensors.at("linear.bias").shape(), Shape{10});
  const TemporaryFolder folder;
  save_safetensors(folder.path("copy"), file.tensors, file.metadata);
  test::expect_equal(load_safetensors(folder.path("copy")).tensors, file.tensors);
}

TEST(Safetensors, ReadsEveryFileOfTheTestData) {
  LOCKSTEP_REQUIRE_DATA(test::test_data("vision"));
  int files = 0;
  for (const auto& item : std::filesystem::recursive_directory_iterator(test::test_data(""))) {
    if (item.path().extension() != ".safetensors") continue;
    EXPECT_NO_THROW(load_safetensors(item.path())) << item.path();
    ++files;
  }
  EXPECT_GT(files, 100);
}

}  // namespace
}  // namespace lockstep::io

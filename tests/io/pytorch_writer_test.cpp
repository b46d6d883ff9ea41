#include "io/pytorch_writer.h"

#include <cerrno>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <lockstep/error.h>
#include <lockstep/io/pytorch.h>
#include <lockstep/io/weights.h>
#include <lockstep/ops.h>

#include "io/every_dtype.h"
#include "io/zip_archive.h"
#include "support/failing_calls.h"
#include "support/files.h"

namespace lockstep::io {
namespace {

using namespace std::string_view_literals;
using test::message_of;
using test::TemporaryFolder;
using testing::HasSubstr;

// What torch 2.15 writes for the same tensors: torch.save(OrderedDict([("a.b", torch.zeros(2, 3)), ("c",
// torch.tensor(3, dtype=torch.uint16)), ("d", torch.zeros(0, 3, dtype=torch.complex64)), ("e", torch.zeros(300, 2, 1,
// 1, dtype=torch.float8_e4m3fn))]), file).
constexpr std::string_view kByTorch =
    "\200\002ccollections\nOrderedDict\nq\000)Rq\001(X\003\000\000\000a.bq\002ctorch._utils\n_rebuild_"
    "tensor_v2\nq\003((X\007\000\000\000storageq\004ctorch\nFloatStorage\nq\005X\001\000\000\0000q\006"
    "X\003\000\000\000cpuq\007K\006tq\010QK\000K\002K\003\206q\011K\003K\001\206q\n\211h\000)Rq\013tq\014"
    "Rq\015X\001\000\000\000cq\016ctorch._utils\n_rebuild_tensor_v3\nq\017((h\004ctorch.storage\nUntyp"
    "edStorage\nq\020X\001\000\000\0001q\021h\007K\002tq\022QK\000))\211h\000)Rq\023ctorch\nuint16\nq\024"
    "tq\025Rq\026X\001\000\000\000dq\027h\003((h\004ctorch\nComplexFloatStorage\nq\030X\001\000\000\000"
    "2q\031h\007K\000tq\032QK\000K\000K\003\206q\033K\003K\001\206q\034\211h\000)Rq\035tq\036Rq\037X\001"
    "\000\000\000eq h\017((h\004h\020X\001\000\000\0003q!h\007MX\002tq\"QK\000(M,\001K\002K\001K\001tq"
    "#(K\002K\001K\001K\001tq$\211h\000)Rq%ctorch\nfloat8_e4m3fn\nq&tq'Rq(u."sv;

TEST(SavePytorch, WritesTheOpcodesThatTorchWrites) {
  const TensorMap tensors = {{"a.b", zeros({2, 3})},
                             {"c", Tensor::from(std::vector<std::uint16_t>{3}, {})},
                             {"d", Tensor::from(std::vector<std::complex<float>>{}, {0, 3})},
                             {"e", Tensor::from(std::vector<Float8E4M3>(600), {300, 2, 1, 1})}};
  EXPECT_EQ(pickle_of(tensors), kByTorch);
}

TEST(SavePytorch, RoundTripsEveryDType) {
  const TemporaryFolder folder;
  TensorMap tensors = test::every_dtype();
  tensors["transposed"] = arange(0, 24).reshape({2, 3, 4}).transpose(0, 2);
  tensors["rank 8"] = ones({1, 2, 1, 1, 3, 1, 1, 1});
  tensors["no rows"] = zeros({0, 2, 0});
  save_pytorch(folder.path("a.pt"), tensors);
  test::expect_equal(load_weights(folder.path("a.pt")), tensors);
  test::expect_equal(load_pytorch(folder.path("a.pt"), {.map = false}).tensors, tensors);
  EXPECT_EQ(list_tensors(folder.path("a.pt")).format, "PyTorch zip");
}

TEST(SavePytorch, NothingAndOneAreFilesToo) {
  const TemporaryFolder folder;
  save_pytorch(folder.path("none.pt"), {});
  EXPECT_TRUE(load_weights(folder.path("none.pt")).empty());
  save_pytorch(folder.path("one.pt"), {{"w", ones({2})}});
  EXPECT_EQ(load_weights(folder.path("one.pt")).size(), 1u);
}

// More than 256 objects are remembered, and more than the 1,000 items of one opcode; one item is left for the last.
TEST(SavePytorch, ManyTensors) {
  const TemporaryFolder folder;
  TensorMap tensors;
  for (int i = 0; i < 2001; ++i) tensors.emplace("layer." + std::to_string(i), full({1 + i % 3}, i));
  save_pytorch(folder.path("many.pt"), tensors);
  test::expect_equal(load_weights(folder.path("many.pt")), tensors);
}

TEST(SavePytorch, EqualTensorsGiveEqualFilesWhoseElementsAreAligned) {
  const TemporaryFolder folder;
  save_pytorch(folder.path("a"), test::every_dtype());
  save_pytorch(folder.path("another name"), test::every_dtype());
  EXPECT_EQ(test::read_whole_file(folder.path("a")), test::read_whole_file(folder.path("another name")));
  const ZipArchive archive(os::map_file(folder.path("a")));
  EXPECT_EQ(archive.entries().size(), test::every_dtype().size() + 3);
  for (const ZipEntry& entry : archive.entries()) EXPECT_EQ(entry.data_offset % 64, 0u) << entry.name;
  for (const char* name : {"archive/data.pkl", "archive/byteorder", "archive/version"}) {
    EXPECT_NE(archive.find(name), nullptr) << name;
  }
}

// Names are texts to the pickle, and are no paths: whatever they hold comes back, and nothing is done with it.
TEST(SavePytorch, HostileNamesAreOnlyNames) {
  const TemporaryFolder folder;
  TensorMap tensors;
  float value = 0;
  for (const std::string& name :
       {std::string(), std::string("../../etc/passwd"), std::string("a\0b", 3), std::string("cos\nsystem\n(S'x'\ntR."),
        std::string("storage"), std::string("cpu"), std::string("0"), std::string("\x1b[2J"),
        std::string("\xc3\xa4\xf0\x9f\x98\x80"), std::string(100'000, 'n')}) {
    tensors.emplace(name, full({1}, ++value));
  }
  save_pytorch(folder.path("a.pt"), tensors);
  test::expect_equal(load_weights(folder.path("a.pt")), tensors);
  EXPECT_EQ(folder.names(), std::vector<std::string>{"a.pt"});
}

TEST(SavePytorch, RefusesToWriteWhatItCouldNotRead) {
  const TemporaryFolder folder;
  const auto refusal = [&](const TensorMap& tensors) {
    return message_of<ValueError>([&] { save_pytorch(folder.path("m"), tensors); });
  };
  EXPECT_THAT(refusal({{"bad\xff", ones({1})}}), HasSubstr("not UTF-8"));
  EXPECT_THAT(refusal({{"surrogate\xed\xa0\x80", ones({1})}}), HasSubstr("not UTF-8"));
  EXPECT_THAT(refusal({{"a", Tensor()}}), HasSubstr("tensor \"a\" is undefined"));
  EXPECT_THAT(refusal({{std::string((1 << 20) + 1, 'n'), ones({1})}}), HasSubstr("1048576 bytes"));
  TensorMap many;
  const Tensor one = ones({1, 1, 1, 1, 1, 1, 1, 1});
  for (int i = 0; i < 20'000; ++i) many.emplace(std::to_string(i), one);
  EXPECT_THAT(refusal(many), HasSubstr("too many"));
  EXPECT_THROW(save_pytorch(folder.path("no/m"), {{"a", ones({1})}}), IoError);
  EXPECT_TRUE(folder.names().empty());
}

// Just below the limit the file is still read, though each of its numbers is an object.
TEST(SavePytorch, WhatItWritesCanBeRead) {
  const TemporaryFolder folder;
  TensorMap many;
  const Tensor one = Tensor::from(std::vector<std::uint16_t>{}, {0, 300, 300, 300, 300, 300, 300, 300});
  for (int i = 0; i < 18'700; ++i) many.emplace(std::to_string(i), one);
  save_pytorch(folder.path("m"), many);
  EXPECT_EQ(load_weights(folder.path("m")).size(), many.size());
}

TEST(SavePytorch, EveryFailingCallLeavesOldOrNewFile) {
  const TensorMap old_tensors = {{"w", Tensor::from(std::vector<float>{1, 2}, {2})}};
  const TensorMap new_tensors = {{"w", ones({3})}, {"x", zeros({2, 2})}};
  for (const int error : {ENOSPC, EIO, EDQUOT, EINTR, 0}) {
    for (int k = 0;; ++k) {
      const TemporaryFolder folder;
      const std::string path = folder.path("m.pt");
      save_pytorch(path, old_tensors);
      test::FailingCalls calls(k, error);
      bool reported = false;
      try {
        write_pytorch(path, new_tensors, calls);
      } catch (const IoError&) {
        reported = true;
      }
      const TensorMap found = load_weights(path);
      if (reported && calls.failed_call() != "fsync" && calls.failed_call() != "close") {
        test::expect_equal(found, old_tensors);
      } else if (!reported) {
        test::expect_equal(found, new_tensors);
      } else {
        EXPECT_TRUE(found.size() == old_tensors.size() || found.size() == new_tensors.size());
      }
      EXPECT_EQ(folder.names(), std::vector<std::string>{"m.pt"}) << calls.failed_call();
      if (!calls.failed()) break;
      ASSERT_LT(k, 200);
    }
  }
}

}  // namespace
}  // namespace lockstep::io

#include <lockstep/recorder.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include <lockstep/lockstep.h>

#include "graph/kernel_record.h"
#include "support/files.h"

namespace lockstep {
inline namespace v0 {
namespace {

using ::testing::HasSubstr;

std::vector<RecordedKernel> recorded(Device device, double bias) {
  const test::TemporaryFolder folder;
  manual_seed(2);
  nn::Linear layer(3, 4);
  layer.to(device);
  layer.weight.tensor().eval();
  layer.bias.tensor().eval();
  const Tensor x = (full({2, 3}, 0.5, {.device = device}) * 3).eval();
  Recorder record(folder.path("record"));
  softmax(layer(x), 1).eval();
  const Tensor y = exp(x + bias);  // the sum is gone where y is computed: one value
  y.eval();
  EXPECT_GT(record.size(), 1u);
  record.finish();
  return read_record(folder.path("record"));
}

TEST(Record, IsTheSameOnEveryDevice) {
  const std::vector<RecordedKernel> cpu = recorded(Device{}, 1);
  const std::vector<RecordedKernel> reference = recorded({DeviceKind::ref, 0}, 1);
  EXPECT_FALSE(compare_records(cpu, reference));
  EXPECT_EQ(reference[0].device, "ref");
  EXPECT_THAT(cpu[0].file, HasSubstr("record_test.cpp"));
}

// Hashes are computed beside the kernels that follow, one of which may take over the memory.
TEST(Record, WhatIsWrittenOverIsHashedBefore) {
  const test::TemporaryFolder folder;
  const auto run = [&](Device device) {
    Recorder record(folder.path("record"));
    Tensor x = exp(full({100000}, 1.0, {.device = device}));
    for (int i = 0; i < 10; ++i) x[Slice{.start = 0, .stop = 99000}] = full({99000}, i, {.device = device});
    x.eval();
    record.finish();
    return read_record(folder.path("record"));
  };
  const std::vector<RecordedKernel> expected = run(Device::parse("ref"));
  EXPECT_GT(expected.size(), 5u);
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(compare_records(run(Device{}), expected));
}

TEST(Record, PartsWhereTheWorkDoes) {
  const std::vector<RecordedKernel> a = recorded(Device{}, 1);
  const std::vector<RecordedKernel> b = recorded(Device{}, 2);
  const std::optional<RecordDifference> values = compare_records(a, b);
  ASSERT_TRUE(values);
  EXPECT_EQ(values->position, a.size() - 1) << a.back().ops;
  EXPECT_TRUE(values->same_work);
  std::vector<RecordedKernel> shorter = a;
  shorter.pop_back();
  const std::optional<RecordDifference> length = compare_records(shorter, a);
  ASSERT_TRUE(length);
  EXPECT_FALSE(length->a);
  EXPECT_TRUE(length->b);
  EXPECT_FALSE(length->same_work);
  std::vector<RecordedKernel> other = a;
  other[0].ops = "conv2d";
  EXPECT_FALSE(compare_records(a, other)->same_work);
}

TEST(Record, OneAtATimeAndNoFileOfNothing) {
  const test::TemporaryFolder folder;
  {
    const Recorder record(folder.path("a"));
    EXPECT_THROW(Recorder(folder.path("b")), ValueError);
  }
  EXPECT_FALSE(std::filesystem::exists(folder.path("a")));
  EXPECT_THROW(Recorder(folder.path("none/a")), IoError);
}

TEST(Record, BadFilesAreNamed) {
  const std::string head = R"({"format":"lockstep-record-1","version":"0","kernels":1})"
                           "\n";
  const std::string good =
      R"({"ops":"exp","module":"","dtype":"f32","shape":[2],"hash":"0123456789abcdef","device":"cpu","file":"a","line":1})";
  EXPECT_EQ(graph::parse_record(head + good, "a").size(), 1u);
  const auto refusal = [](const std::string& text) {
    try {
      graph::parse_record(text, "a.rec");
    } catch (const FormatError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const auto without = [&](const char* from, const char* to) {
    std::string text = good;
    text.replace(text.find(from), std::string_view(from).size(), to);
    return refusal(head + text);
  };
  EXPECT_THAT(refusal(""), HasSubstr("a.rec: is empty"));
  EXPECT_THAT(refusal("{}"), HasSubstr("line 1: \"format\" is missing"));
  EXPECT_THAT(refusal(R"({"format":"lockstep-record-9"})"), HasSubstr("another version"));
  EXPECT_THAT(refusal(head + good + "\n" + good), HasSubstr("\"kernels\" is 1, and 2 follow"));
  EXPECT_THAT(refusal(head), HasSubstr("a part of a recording"));
  EXPECT_THAT(refusal(head + "["), HasSubstr("line 2: is no JSON object"));
  EXPECT_THAT(without("\"ops\":\"exp\"", "\"ops\":1"), HasSubstr("\"ops\" is no text"));
  EXPECT_THAT(without("f32", "f33"), HasSubstr("\"dtype\" is no dtype"));
  EXPECT_THAT(without("[2]", "[-2]"), HasSubstr("\"shape\" is no shape"));
  EXPECT_THAT(without("[2]", "[1,1,1,1,1,1,1,1,1,1,1,1,1]"), HasSubstr("\"shape\" is no shape"));
  EXPECT_THAT(without("0123456789abcdef", "0123456789abcdeg"), HasSubstr("\"hash\" is no hash"));
  EXPECT_THAT(without("\"line\":1", "\"line\":1.5"), HasSubstr("\"line\" is no whole number"));
}

}  // namespace
}  // namespace v0
}  // namespace lockstep

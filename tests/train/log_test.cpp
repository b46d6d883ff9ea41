// The logs of training: what they hold, and that a run which continues repeats nothing.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>

#include <lockstep/error.h>
#include <lockstep/train/log.h>

#include "support/files.h"
#include "train/crc32c.h"

namespace lockstep::test {
namespace {

train::Record step(std::int64_t number, double loss = 0.5) {
  return {
      .step = number, .epoch = 1, .loss = loss, .accuracy = 0.25, .lr = 0.1, .samples_per_second = 100, .seconds = 2};
}

TEST(CsvLog, HasAHeaderAndALineARecord) {
  const TemporaryFolder folder;
  const std::string path = folder.path("log.csv");
  const auto log = train::csv_log(path);
  log->write(step(1));
  log->write({.step = 1, .epoch = 1, .split = "test", .loss = 0.1});
  EXPECT_EQ(read_whole_file(path),
            "step,epoch,split,loss,accuracy,lr,samples_per_second,seconds\n"
            "1,1,train,0.5,0.25,0.1,100,2\n"
            "1,1,test,0.1,,,,\n");
}

TEST(CsvLog, KeepsTheStepsBeforeACheckpoint) {
  const TemporaryFolder folder;
  const std::string path = folder.path("log.csv");
  for (std::int64_t i = 1, keep = 0; i < 3; ++i, keep = 2) {
    const auto log = train::csv_log(path, keep);
    for (std::int64_t number = keep + 1; number <= 4; ++number) log->write(step(number));
  }
  const std::string text = read_whole_file(path);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 5) << text;
}

TEST(JsonLog, ReadsBack) {
  const TemporaryFolder folder;
  const std::string path = folder.path("log.jsonl");
  const auto log = train::json_log(path);
  log->write(step(1, 0.1));
  log->write({.step = 2, .epoch = 1, .split = "test", .accuracy = 1, .numerics = "bf16 blocked"});
  EXPECT_EQ(read_whole_file(path),
            "{\"step\":1,\"epoch\":1,\"split\":\"train\",\"loss\":0.1,\"accuracy\":0.25,\"lr\":0.1,"
            "\"samples_per_second\":100.0,\"seconds\":2.0}\n"
            "{\"step\":2,\"epoch\":1,\"split\":\"test\",\"accuracy\":1.0,\"numerics\":\"bf16 blocked\"}\n");
  const std::vector<train::Record> records = train::read_json_log(path);
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].loss, 0.1);
  EXPECT_EQ(records[1].split, "test");
  EXPECT_EQ(records[1].numerics, "bf16 blocked");
  EXPECT_TRUE(std::isnan(records[1].loss));
  EXPECT_EQ(train::read_json_log(path, 1).size(), 1u);
}

TEST(JsonLog, ALineThatWasCutShortIsLeftOut) {
  const TemporaryFolder folder;
  const std::string path = folder.write("log.jsonl", "{\"step\":1,\"epoch\":1,\"split\":\"train\"}\n{\"step\":2,\"ep");
  EXPECT_EQ(train::read_json_log(path).size(), 1u);
  train::json_log(path, 5)->write(step(2));
  EXPECT_EQ(train::read_json_log(path).size(), 2u);
}

TEST(JsonLog, OtherFilesAreRefusedByLine) {
  const TemporaryFolder folder;
  for (const char* line : {"note", "{}", "[1]", "{\"step\":\"1\",\"epoch\":1,\"split\":\"train\"}"}) {
    const std::string path = folder.write("x", std::string(line) + "\n");
    const std::string message = message_of<FormatError>([&] { train::read_json_log(path); });
    EXPECT_NE(message.find("x:1"), std::string::npos) << message;
  }
  EXPECT_THROW(train::read_json_log(folder.path("absent")), IoError);
}

TEST(Logs, SayWhereTheyCannotWrite) {
  const std::string message = message_of<IoError>([] { train::csv_log("/nonexistent/log.csv"); });
  EXPECT_NE(message.find("/nonexistent/log.csv"), std::string::npos) << message;
  EXPECT_THROW(train::tensorboard_log("/proc/nowhere"), IoError);
}

// --- TensorBoard ----------------------------------------------------------------------------------------------------

TEST(Crc32c, OfPublishedVectors) {
  EXPECT_EQ(train::crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(train::crc32c(std::string(32, '\0')), 0x8a9136aau);  // RFC 3720, B.4
}

TEST(TensorBoardLog, RecordsAreFramedAndHoldScalars) {
  const TemporaryFolder folder;
  train::tensorboard_log(folder.path("events"), 10)->write(step(11, 0.75));
  std::filesystem::path path;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path("events"))) path = entry.path();
  EXPECT_EQ(path.filename().string().rfind("events.out.tfevents.", 0), 0u);
  const std::string bytes = read_whole_file(path);
  std::vector<std::string> events;
  for (std::size_t at = 0; at < bytes.size();) {
    std::uint64_t length = 0;
    std::uint32_t check = 0;
    std::memcpy(&length, bytes.data() + at, 8);
    std::memcpy(&check, bytes.data() + at + 8, 4);
    const std::uint32_t crc = train::crc32c(bytes.substr(at, 8));
    EXPECT_EQ(check, ((crc >> 15) | (crc << 17)) + 0xa282ead8u);
    events.push_back(bytes.substr(at + 12, length));
    at += 12 + length + 4;
    ASSERT_LE(at, bytes.size());
  }
  ASSERT_EQ(events.size(), 3u);
  EXPECT_NE(events[0].find("brain.Event:2"), std::string::npos);
  const std::string scalar = std::string("\x0a\x0atrain/loss\x15") + std::string("\0\0\x40\x3f", 4);  // tag, 0.75f
  EXPECT_NE(events[2].find(scalar), std::string::npos);
}

TEST(TensorBoardLog, EveryRunHasAFileOfItsOwn) {
  const TemporaryFolder folder;
  for (int i = 0; i < 3; ++i) train::tensorboard_log(folder.path("events"));
  int files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder.path("events"))) ++files;
  EXPECT_EQ(files, 3);
}

}  // namespace
}  // namespace lockstep::test

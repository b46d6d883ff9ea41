// lockstep trace as a user runs it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/run_command.h"
#include "support/data.h"

namespace lockstep::test {
namespace {

using testing::HasSubstr;

const std::string kPicture = std::string(LOCKSTEP_SOURCE_DIR) + "/assets/demo/images/arrow.png";
const std::string kWeights = std::string(LOCKSTEP_SOURCE_DIR) + "/assets/demo/weights.safetensors";

TEST(TraceCommand, RunsTheCommandAndShowsWhereItsTimeWent) {
  const TemporaryFolder folder;
  const std::vector<std::string> classify{"classify", "--arch", "resnet8-cifar", "--weights", kWeights, "--device", "cpu", "--json", kPicture};
  std::vector<std::string> traced{"trace", "--out", folder.path("t.json")};
  traced.insert(traced.end(), classify.begin(), classify.end());
  const CommandResult plain = run_command(classify);
  const CommandResult result = run_command(traced);
  ASSERT_EQ(plain.exit_code, 0) << plain.errors;
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_EQ(result.json().at(0).at("top"), plain.json().at(0).at("top"));
  EXPECT_THAT(result.errors, HasSubstr("contraction"));
  EXPECT_THAT(result.errors, HasSubstr("ui.perfetto.dev"));
  EXPECT_FALSE(nlohmann::json::parse(read_whole_file(folder.path("t.json"))).at("traceEvents").empty());
}

TEST(TraceCommand, GivesTheCommandsExitCode) {
  const TemporaryFolder folder;
  const std::string out = folder.path("t.json");
  EXPECT_EQ(run_command({"trace", "--out", out, "classify", "--arch", "resnet8-cifar", "--weights", "/no/such/file", kPicture}).exit_code, 1);
  EXPECT_EQ(run_command({"trace", "--out", out, "classify", "--no-such-option"}).exit_code, 2);
}

TEST(TraceCommand, RefusesWrongUsage) {
  EXPECT_EQ(run_command({"trace"}).exit_code, 2);
  const CommandResult nowhere = run_command({"trace", "--out", "/no/such/folder/t.json", "info"});
  EXPECT_EQ(nowhere.exit_code, 1);
  EXPECT_THAT(nowhere.errors, HasSubstr("/no/such/folder"));
}

}  // namespace
}  // namespace lockstep::test

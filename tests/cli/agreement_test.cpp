// --shadow and --record of any command, LOCKSTEP_SHADOW of any program, `lockstep diff` and `lockstep hash`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/run_command.h"

namespace lockstep {
inline namespace v0 {
namespace {


TEST(ShadowSlow, OfAnyCommandAndOfProgramsByTheEnvironment) {
  const test::TemporaryFolder folder;
  const std::vector<std::string> train{"train",   "--data", "digits", "--arch", "mlp",
                                       "--limit", "64",     "--json", "--out",  folder.path("run"), "--overwrite"};
  std::vector<std::string> shadowed = train;
  shadowed.insert(shadowed.end(), {"--shadow", "ref"});
  const test::CommandResult first = test::run_command(shadowed);
  EXPECT_EQ(first.exit_code, 0) << first.errors;
  EXPECT_THAT(first.errors, ::testing::HasSubstr("values compared with ref, 0 different"));
  EXPECT_EQ(test::run_command(train, {"LOCKSTEP_SHADOW=ref"}).exit_code, 0);
  const test::CommandResult wrong = test::run_command(train, {"LOCKSTEP_SHADOW=reff"});
  EXPECT_EQ(wrong.exit_code, 1);
  EXPECT_THAT(wrong.errors, ::testing::HasSubstr("\"reff\" names no device"));
}

TEST(RecordSlow, TwoRunsOfACommandAndTheirDifference) {
  const test::TemporaryFolder folder;
  const auto run = [&](const char* record, const char* seed) {
    const test::CommandResult result =
        test::run_command({"train", "--data", "digits", "--arch", "lenet", "--limit", "64", "--json", "--out", folder.path("run"),
                           "--overwrite", "--seed", seed, "--record", folder.path(record)});
    EXPECT_EQ(result.exit_code, 0) << result.errors;
  };
  run("a", "1");
  run("b", "1");
  run("c", "2");
  const test::CommandResult same = test::run_command({"diff", folder.path("a"), folder.path("b")});
  EXPECT_EQ(same.exit_code, 0) << same.output << same.errors;
  EXPECT_THAT(same.output, ::testing::HasSubstr("the same bits"));
  const test::CommandResult other = test::run_command({"diff", folder.path("a"), folder.path("c"), "--json"});
  EXPECT_EQ(other.exit_code, 1);
  EXPECT_EQ(other.json().back()["equal"], false);
  const test::CommandResult text = test::run_command({"diff", folder.path("a"), folder.path("c")});
  EXPECT_THAT(text.output, ::testing::HasSubstr("They part at kernel"));
}

TEST(HashSlow, OfAFileIsThatOfTheWeightsThatWereTrained) {
  const test::TemporaryFolder folder;
  const test::CommandResult trained = test::run_command(
      {"train", "--data", "digits", "--arch", "mlp", "--limit", "64", "--json", "--out", folder.path("run")});
  const test::CommandResult hash = test::run_command({"hash", folder.path("run/weights.safetensors"), "--json", "--each"});
  EXPECT_EQ(hash.exit_code, 0) << hash.errors;
  EXPECT_EQ(hash.json().back()["hash"], trained.json().back()["weights_hash"]);
  EXPECT_FALSE(hash.json().back()["tensors"].empty());
  EXPECT_EQ(test::run_command({"hash", folder.path("nothing")}).exit_code, 1);
}

}  // namespace
}  // namespace v0
}  // namespace lockstep

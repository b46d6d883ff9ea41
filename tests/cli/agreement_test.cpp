// --shadow and --record of any command, LOCKSTEP_SHADOW of any program, `lockstep diff` and `lockstep hash`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/run_command.h"

namespace lockstep {
inline namespace v0 {
namespace {

TEST(ShadowSlow, OfAnyCommandAndOfProgramsByTheEnvironment) {
  const test::TemporaryFolder folder;
  const std::vector<std::string> train{"train", "--data", "digits", "--arch",           "mlp",        "--limit",
                                       "64",    "--json", "--out",  folder.path("run"), "--overwrite"};
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
        test::run_command({"train", "--data", "digits", "--arch", "lenet", "--limit", "64", "--json", "--out",
                           folder.path("run"), "--overwrite", "--seed", seed, "--record", folder.path(record)});
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
  const test::CommandResult hash =
      test::run_command({"hash", folder.path("run/weights.safetensors"), "--json", "--each"});
  EXPECT_EQ(hash.exit_code, 0) << hash.errors;
  EXPECT_EQ(hash.json().back()["hash"], trained.json().back()["weights_hash"]);
  EXPECT_FALSE(hash.json().back()["tensors"].empty());
  EXPECT_EQ(test::run_command({"hash", folder.path("nothing")}).exit_code, 1);
}

TEST(Shadow, ASampleOfKernelsAndWrongOptions) {
  const test::TemporaryFolder folder;
  std::vector<std::string> train{"train", "--data", "digits", "--arch",           "mlp",      "--limit",
                                 "64",    "--json", "--out",  folder.path("run"), "--shadow", "ref"};
  std::vector<std::string> sample = train;
  sample.insert(sample.end(), {"--shadow-every", "5", "--shadow-ops", "linear,relu", "--shadow-rows", "2"});
  const test::CommandResult result = test::run_command(sample);
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_THAT(result.errors, ::testing::HasSubstr("values compared with ref, 0 different"));
  EXPECT_EQ(result.errors.find(", 0 kernels passed over"), std::string::npos) << result.errors;
  train.insert(train.end(), {"--shadow-every", "0"});
  EXPECT_EQ(test::run_command(train).exit_code, 2);
  EXPECT_EQ(test::run_command({"info", "--record-modules"}).exit_code, 2);
}

TEST(Diff, OfModulesNamesTheFirstThatParts) {
  const test::TemporaryFolder folder;
  const auto line = [](const char* module, const char* sample) {
    return std::string(R"({"ops":"Linear","module":")") + module +
           R"(","dtype":"f32","shape":[2],"hash":"0123456789abcdef","device":"cpu","file":"a","line":1,"sample":[)" +
           sample + "]}\n";
  };
  const std::string head = R"({"format":"lockstep-record-1","version":"0","kernels":2})"
                           "\n";
  const std::string a = folder.write("a", head + line("first", "1,2") + line("second", "3,\"nan\""));
  std::string changed = head + line("first", "1,2.0000001") + line("second", "3.5,\"nan\"");
  for (std::size_t at = 0; (at = changed.find("abcdef", at)) != std::string::npos;) changed.replace(at, 6, "abcdee");
  const std::string b = folder.write("b", changed);
  const test::CommandResult close = test::run_command({"diff", a, b, "--tolerance", "0.5"});
  EXPECT_EQ(close.exit_code, 0) << close.output;
  const test::CommandResult far =
      test::run_command({"diff", a, b, "--tolerance", "1e-4", "--html", folder.path("page.html")});
  EXPECT_EQ(far.exit_code, 1);
  EXPECT_THAT(far.output, ::testing::HasSubstr("They part in second (Linear): 1.67e-01"));
  EXPECT_THAT(test::read_whole_file(folder.path("page.html")), ::testing::HasSubstr("They part in second"));
  EXPECT_EQ(test::run_command({"diff", a, b, "--tolerance", "1e-4", "--json"}).json().back()["parts_in"], "second");
  EXPECT_EQ(test::run_command({"diff", a, b, "--html", "x"}).exit_code, 2);
}

// Two passes: where they part, and then which element.
TEST(Diff, OfASecondPassNamesTheElement) {
  const test::TemporaryFolder folder;
  const auto run = [&](const char* record, const char* rate, const char* kernel) {
    return test::run_command({"train", "--data", "digits", "--arch", "mlp", "--limit", "64", "--json", "--out",
                              folder.path("run"), "--overwrite", "--lr", rate, "--record", folder.path(record),
                              "--record-case", kernel});
  };
  EXPECT_EQ(run("a", "0.004", "0").exit_code, 0);
  EXPECT_EQ(run("b", "0.002", "0").exit_code, 0);
  const test::CommandResult first = test::run_command({"diff", folder.path("a"), folder.path("b"), "--json"});
  const std::string kernel = std::to_string(first.json().back()["kernels"].get<int>() + 1);
  EXPECT_EQ(run("a", "0.004", kernel.c_str()).exit_code, 0);
  EXPECT_EQ(run("b", "0.002", kernel.c_str()).exit_code, 0);
  const test::CommandResult second = test::run_command({"diff", folder.path("a"), folder.path("b")});
  EXPECT_EQ(second.exit_code, 1);
  EXPECT_THAT(second.output, ::testing::HasSubstr("elements differ, the first at"));
  const test::CommandResult replay =
      test::run_command({"replay", "--device", "ref", folder.path("a.case-" + kernel + ".safetensors")});
  EXPECT_EQ(replay.exit_code, 0) << replay.output;
}

}  // namespace
}  // namespace v0
}  // namespace lockstep

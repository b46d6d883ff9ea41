// `lockstep check --model`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/run_command.h"
#include "support/data.h"
#include "support/files.h"

namespace lockstep::test {
namespace {

using ::testing::HasSubstr;

std::string small_model(const std::string& name) {
  return (repository_data("onnx") / name / "model.onnx").string();
}

TEST(CheckModel, PrintsATableOfOperatorsAndDevices) {
  const CommandResult result = run_command(
      {"check", "--model", small_model("convolution"), "--device", "ref", "--device", "cpu", "--size", "n=3"});
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_THAT(result.output, HasSubstr("operator            runs  ref    cpu"));
  EXPECT_THAT(result.output, HasSubstr("Conv                   1  equal  equal"));
  EXPECT_THAT(result.output,
              HasSubstr("7 runs of nodes against cpu, each from cpu's inputs: the same bits everywhere"));
}

TEST(CheckModel, TakesInputsAndGivesJson) {
  const TemporaryFolder folder;
  const std::string start = folder.write("start.txt", "1 2 3 4");
  const auto lines =
      run_command({"check", "--model", small_model("loop"), "--input", "start=" + start, "--device", "ref", "--json"})
          .json();
  ASSERT_EQ(lines.size(), 5U);
  EXPECT_EQ(lines[0], nlohmann::json::parse(R"({"op":"Add","device":"ref","equal":3,"different":0,"refused":0})"));
  EXPECT_EQ(lines[4]["runs"], 10);
  EXPECT_FALSE(lines[4].contains("first_different"));
}

TEST(CheckModel, SaysWhatIsWrongWithItsOptions) {
  const auto refused = [](std::vector<std::string> words, const std::string& why) {
    words.insert(words.begin(), "check");
    const CommandResult result = run_command(words);
    EXPECT_EQ(result.exit_code, 2) << result.output;
    EXPECT_THAT(result.errors, HasSubstr(why));
  };
  const std::string model = small_model("convolution");
  refused({"--model", model, "--gradients"}, "--model takes --input");
  refused({"--input", "x=y"}, "--input and --size need --model");
  refused({"--model", model, "--size", "m=3"}, "the model has no size \"m\"");
  refused({"--model", model, "--size", "n=x"}, "--size is NAME=NUMBER");
  refused({"--model", model, "--size", "n"}, "--size is NAME=NUMBER");
  refused({"--model", model, "--input", "z=y"}, "the model has no input \"z\"");
}

}  // namespace
}  // namespace lockstep::test

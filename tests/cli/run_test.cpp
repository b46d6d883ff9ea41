#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <lockstep/io/numpy.h>

#include "cli/run_command.h"
#include "support/data.h"
#include "support/files.h"

namespace lockstep::test {
namespace {

using ::testing::HasSubstr;

std::string onnx_model(const std::string& name) {
  return (repository_data("onnx") / name / "model.onnx").string();
}

TEST(RunModel, TakesNumbersAndWritesArrays) {
  const TemporaryFolder folder;
  const std::string numbers = folder.write("x.txt", "1, 2\n");
  const CommandResult result = run_command(
      {"run", onnx_model("typed_data"), "--device", "cpu", "--input", numbers, "--output", folder.path("out")});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_THAT(result.output, HasSubstr("y  f32 [2]  "));
  // 1 + (1.5 + 3) + 0.5 and 2 + (-2.5 - 4) - 1
  EXPECT_EQ(io::load_npy(folder.path("out") + "/y.npy").to_vector<float>(), (std::vector<float>{6, -5.5}));
}

// x [n, 2, 6, 6]: as many numbers as are in two pictures are two.
TEST(RunModel, NumbersDecideAboutASizeThatTheModelLeavesOpen) {
  const TemporaryFolder folder;
  const auto run = [&](int count) {
    std::string text;
    for (int i = 0; i < count; ++i) text += std::to_string(i) + (i % 6 == 5 ? "\n" : " ");
    const std::string numbers = folder.write("x.txt", text);
    return run_command({"run", onnx_model("convolution"), "--device", "cpu", "--json", "--input", "x=" + numbers});
  };
  EXPECT_EQ(run(2 * 72).json()[0]["outputs"][0]["shape"][0], 2);
  EXPECT_THAT(run(73).errors, HasSubstr("is of shape [73]: the model takes 4 dimensions"));
}

TEST(RunModel, PrintsJsonWithHashesAndTimes) {
  const TemporaryFolder folder;
  const std::string numbers = folder.write("x.txt", "1 2");
  const auto lines = run_command({"run", onnx_model("typed_data"), "--device", "cpu", "--json", "--bench", "2",
                                  "--input", "x=" + numbers})
                         .json();
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0]["outputs"][0]["shape"], nlohmann::json::parse("[2]"));
  EXPECT_EQ(lines[0]["outputs"][0]["hash"].get<std::string>().size(), 16U);
  EXPECT_EQ(lines[0]["runs"], 2);
}

TEST(RunModel, SaysInWhichNumerics) {
  const TemporaryFolder folder;
  const std::string numbers = folder.write("x.txt", "1 2");
  const std::vector<std::string> arguments{"run",     onnx_model("typed_data"), "--device",  "cpu", "--json",
                                           "--input", "x=" + numbers,           "--numerics"};
  const auto in = [&](const std::string& numerics) {
    std::vector<std::string> all = arguments;
    all.push_back(numerics);
    return run_command(all);
  };
  EXPECT_EQ(in("blocked").json()[0]["numerics"], "blocked");
  EXPECT_EQ(in("exact").json()[0]["numerics"], "exact");
  EXPECT_THAT(in("fast").errors, HasSubstr("--numerics fast on cpu: only CUDA devices"));
  EXPECT_EQ(in("faster").exit_code, 2);
}

TEST(RunModel, SaysWhatItWants) {
  const TemporaryFolder folder;
  const CommandResult missing = run_command({"run", onnx_model("loop"), "--device", "cpu"});
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_THAT(missing.errors, HasSubstr("the input \"start\" is missing"));
  const std::string numbers = folder.write("x.txt", "1 2 3");
  const CommandResult unknown = run_command({"run", onnx_model("loop"), "--device", "cpu", "--input", "z=" + numbers});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.errors, HasSubstr("the model has no input \"z\""));
  const CommandResult wrong =
      run_command({"run", onnx_model("loop"), "--device", "cpu", "--input", "start=" + numbers});
  EXPECT_EQ(wrong.exit_code, 1);
  EXPECT_THAT(wrong.errors, HasSubstr("size 0 must be 4"));
  const std::string words = folder.write("y.txt", "one");
  EXPECT_THAT(run_command({"run", onnx_model("loop"), "--device", "cpu", "--input", words}).errors,
              HasSubstr("no text of numbers"));
}

TEST(Inspect, ListsWhatAnOnnxModelTakesAndGives) {
  const CommandResult result = run_command({"inspect", onnx_model("convolution")});
  EXPECT_THAT(result.output, HasSubstr("input   x  float [n, 2, 6, 6]"));
  EXPECT_THAT(result.output, HasSubstr("Conv x1"));
  EXPECT_THAT(result.output, HasSubstr("every node runs here"));
}

}  // namespace
}  // namespace lockstep::test

#include <gtest/gtest.h>


#include <lockstep/lockstep.h>

#include "cli/run_command.h"
#include "support/data.h"

namespace lockstep::test {
namespace {

using Metadata = std::map<std::string, std::string>;

Metadata case_of(const std::string& op, const std::string& attributes = "{}", const std::string& tolerance = "1e-6") {
  return {{"format", "lockstep-case-1"},
          {"op", op},
          {"attrs", attributes},
          {"inputs", "[\"a\"]"},
          {"outputs", "[\"out\"]"},
          {"cotangents", "{}"},
          {"grads", "[]"},
          {"atol_output", tolerance},
          {"atol_grad", "0"}};
}

nlohmann::json replay(const std::string& path, int exit_code, const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments{"replay", "--json", path};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const CommandResult result = run_command(arguments);
  EXPECT_EQ(result.exit_code, exit_code) << result.output << result.errors;
  return result.json().at(0);
}

class Replay : public testing::Test {
 protected:
  std::string write(const Tensor& a, const Tensor& out, const Metadata& metadata) const {
    const std::string path = folder_.path("case.safetensors");
    io::save_safetensors(path, {{"a", a}, {"out", out}}, metadata);
    return path;
  }
  TemporaryFolder folder_;
};

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST_F(Replay, PassesWithinTheTolerance) {
  const Tensor x = Tensor::from<float>({1, 4, kNaN, kInfinity}, {4});
  const Tensor near = Tensor::from<float>({1.0f + 1e-6f, 2, kNaN, kInfinity}, {4});
  const nlohmann::json line = replay(write(x, near, case_of("sqrt", "{}", "2e-6")), 0);
  EXPECT_EQ(line.at("status"), "pass");
  EXPECT_EQ(line.at("op"), "sqrt");
  EXPECT_EQ(line.at("gradients"), "none");
  EXPECT_NEAR(line.at("max_error"), 1e-6, 1e-7);
  EXPECT_EQ(replay(write(x, near, case_of("sqrt", "{}", "5e-7")), 1).at("status"), "fail");
}

TEST_F(Replay, SaysWhereTheFirstDifferenceIs) {
  const Tensor x = Tensor::from<float>({1, 4, 9, 16}, {2, 2});
  const nlohmann::json line = replay(write(x, Tensor::from<float>({1, 2, 3.5f, 4}, {2, 2}), case_of("sqrt")), 1);
  EXPECT_EQ(line.at("status"), "fail");
  EXPECT_EQ(line.at("max_error"), 0.5);
  EXPECT_NE(line.at("detail").get<std::string>().find("[1, 0]"), std::string::npos) << line;
}

TEST_F(Replay, NaNAndInfinityMustStandInTheirPlaces) {
  const nlohmann::json line =
      replay(write(Tensor::from<float>({-1}, {1}), Tensor::from<float>({1}, {1}), case_of("sqrt", "{}", "100")), 1);
  EXPECT_EQ(line.at("max_error"), "inf");
  const Tensor infinities = Tensor::from<float>({kInfinity, -kInfinity}, {2});
  EXPECT_EQ(replay(write(infinities, infinities.flip({0}), case_of("neg", "{}", "100")), 0).at("status"), "pass");
  EXPECT_EQ(replay(write(infinities, infinities, case_of("neg", "{}", "100")), 1).at("status"), "fail");
}

TEST_F(Replay, MovesAreEqualWhateverTheTolerance) {
  const Tensor x = Tensor::from<float>({1, 0}, {2});
  EXPECT_EQ(
      replay(write(x, Tensor::from<float>({-0.0f, 1}, {2}), case_of("flip", R"({"dims": [0]})", "1")), 0).at("status"),
      "pass");
  EXPECT_EQ(
      replay(write(x, Tensor::from<float>({0, 1.5f}, {2}), case_of("flip", R"({"dims": [0]})", "1")), 1).at("status"),
      "fail");
}

TEST_F(Replay, SliceTakesARangePerDimension) {
  const Tensor x = Tensor::from<float>({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, {3, 4});
  const auto status = [&](const Tensor& expected, const std::string& attributes, int exit_code) {
    return replay(write(x, expected, case_of("slice", attributes)), exit_code).at("status");
  };
  const Tensor part = Tensor::from<float>({5, 7, 9, 11}, {2, 2});
  EXPECT_EQ(status(part, R"({"slices": [[1, 3, 1], [1, 4, 2]]})", 0), "pass");
  EXPECT_EQ(status(part, R"({"slices": [[-2, null, null], [1, null, 2]]})", 0), "pass");
  EXPECT_EQ(status(part, R"({"slices": [[0, 2, 1], [1, 4, 2]]})", 1), "fail");
  EXPECT_EQ(status(x.narrow(0, 0, 1), R"({"slices": [[0, 1, 1]]})", 0), "pass");
  for (const char* wrong : {R"({"slices": [[0, 1]]})", R"({"slices": [1, 2]})", R"({"slices": [["0", 1, 1]]})", "{}",
                            R"({"slices": [[0, 1, 1], [0, 1, 1], [0, 1, 1]]})"}) {
    EXPECT_EQ(status(x, wrong, 1), "fail") << wrong;
  }
}

TEST_F(Replay, OtherDTypesAndShapesFail) {
  const Tensor x = Tensor::from<float>({1, 4}, {2});
  EXPECT_EQ(replay(write(x, x.reshape({2, 1}), case_of("abs")), 1).at("status"), "fail");
  EXPECT_EQ(replay(write(x, x.to(DType::f64), case_of("abs")), 1).at("status"), "fail");
}

TEST_F(Replay, WhatIsUnknownIsUnsupportedAndStrictSaysSo) {
  const Tensor x = ones({2});
  for (const Metadata& metadata : {case_of("no_such_op"), case_of("abs", R"({"no_such_attribute": 1})")}) {
    const std::string path = write(x, x, metadata);
    EXPECT_EQ(replay(path, 0).at("status"), "unsupported");
    EXPECT_EQ(replay(path, 3, {"--strict"}).at("max_error"), nullptr);
  }
}

TEST_F(Replay, GradientsAreCompared) {
  const Tensor x = Tensor::from<float>({1, -2}, {2});
  const Tensor g = Tensor::from<float>({3, 4}, {2});
  Metadata metadata = case_of("abs");
  metadata["grads"] = "[\"a\"]";
  metadata["cotangents"] = R"({"out": "cotangent.out"})";
  const auto replay_with = [&](const Tensor& expected, int exit_code) {
    const std::string path = folder_.path("gradient.safetensors");
    io::save_safetensors(path, {{"a", x}, {"out", abs(x)}, {"cotangent.out", g}, {"grad.a", expected}}, metadata);
    return replay(path, exit_code);
  };
  EXPECT_EQ(replay_with(Tensor::from<float>({3, -4}, {2}), 0).at("gradients"), "pass");
  EXPECT_EQ(replay_with(Tensor::from<float>({3, 4}, {2}), 1).at("gradients"), "fail");
  metadata["grads"] = "[\"b\"]";
  EXPECT_EQ(replay_with(x, 1).at("status"), "fail");
}

TEST_F(Replay, AnErrorOfTheOpFailsTheCase) {
  const nlohmann::json line = replay(write(ones({2}), ones({2}), case_of("permute", R"({"dims": [0, 5]})")), 1);
  EXPECT_EQ(line.at("status"), "fail");
  EXPECT_NE(line.at("detail"), "");
}

TEST_F(Replay, FilesThatAreNoCasesFailAndTheOthersContinue) {
  const Tensor x = ones({2});
  Metadata lame = case_of("abs");
  lame["inputs"] = "[\"absent\"]";
  Metadata broken = case_of("abs", "{");
  Metadata unknown = case_of("abs");
  unknown["format"] = "lockstep-case-9";
  for (const Metadata& metadata : {lame, broken, unknown, Metadata{}}) {
    EXPECT_EQ(replay(write(x, x, metadata), 1).at("status"), "fail");
  }
  const std::string good = write(x, x, case_of("abs"));
  const CommandResult result = run_command({"replay", "--json", folder_.path("absent"), good});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.json().at(1).at("status"), "pass");
}

// --- the recorded cases ---------------------------------------------------------------------------------------------

// Every case, values and gradients; none is unsupported.
void expect_all_pass(const std::string& folder, const std::string& device) {
  const CommandResult result = run_command({"replay", "--json", "--strict", "--device", device, folder});
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  std::size_t count = 0;
  for (const nlohmann::json& line : result.json()) {
    EXPECT_EQ(line.at("status"), "pass") << line;
    EXPECT_TRUE(line.at("gradients") == "pass" || line.at("gradients") == "none") << line;
    ++count;
  }
  EXPECT_GT(count, 100u);
}

TEST(RecordedCases, OwnCasesPassOnTheCpu) {
  expect_all_pass(repository_data("cases").string(), "cpu");
}
TEST(RecordedCases, OwnCasesPassOnTheReference) {
  expect_all_pass(repository_data("cases").string(), "ref");
}

TEST(RecordedCases, GoldenCasesPassOnTheCpu) {
  LOCKSTEP_REQUIRE_DATA(test_data("golden"));
  expect_all_pass(test_data("golden").string(), "cpu");
}

TEST(RecordedCases, GoldenCasesPassOnTheReference) {
  LOCKSTEP_REQUIRE_DATA(test_data("golden"));
  expect_all_pass(test_data("golden").string(), "ref");
}

}  // namespace
}  // namespace lockstep::test

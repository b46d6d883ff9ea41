// Real models out of Python packages (tools/onnx_models.py), against ONNX Runtime with its optimisations off. They lie
// in the folder of the large test data; without them each test is skipped by its name.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include <lockstep/threads.h>

#include "support/data.h"
#include "support/onnx_suite.h"

namespace lockstep::io {
namespace {

// A part of the spread of the expected values.
constexpr double kRange = 1e-4;

class NumberOfThreads {
 public:
  explicit NumberOfThreads(int count) : before_(num_threads()) { set_num_threads(count); }
  ~NumberOfThreads() { set_num_threads(before_); }
  NumberOfThreads(const NumberOfThreads&) = delete;
  NumberOfThreads& operator=(const NumberOfThreads&) = delete;

 private:
  int before_;
};

void expect_answers(const std::filesystem::path& folder, std::initializer_list<int> threads) {
  std::optional<std::uint64_t> hash;
  for (const int count : threads) {
    const NumberOfThreads these(count);
    const test::CaseResult result = test::run_onnx_case(folder.string(), Device{}, kRange);
    ASSERT_EQ(result.status, test::CaseStatus::pass) << result.name << ": " << result.reason;
    EXPECT_EQ(result.hash, hash.value_or(result.hash)) << result.name << " with " << count << " threads";
    hash = result.hash;
  }
}

class RealModel : public ::testing::TestWithParam<const char*> {};

TEST_P(RealModel, AnswersAsOnnxRuntimeWithAnyNumberOfThreads) {
  const std::filesystem::path folder = test::test_data(std::string("onnx/models/ci/") + GetParam());
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "needs " << folder << ": tools/onnx_models.py writes it";
  expect_answers(folder, {1, 2, 7});
}

INSTANTIATE_TEST_SUITE_P(Onnx, RealModel,
                         ::testing::Values("silero-vad-silero_vad", "silero-vad-silero_vad_16k_op15",
                                           "silero-vad-silero_vad_16k_sequence", "silero-vad-silero_vad_half",
                                           "silero-vad-silero_vad_op18_ifless", "silero-vad-silero_vad_openvino_16k",
                                           "magika-model", "swift-f0-model",
                                           "speechmos-aecmos_models-Run_1663829550_Stage_0",
                                           "speechmos-aecmos_models-Run_1663915512_Stage_0",
                                           "speechmos-aecmos_models-Run_1668423760_Stage_0",
                                           "speechmos-dnsmos_models-bak_ovr", "speechmos-dnsmos_models-model_v8",
                                           "speechmos-dnsmos_models-sig", "speechmos-dnsmos_models-sig_bak_ovr",
                                           "speechmos-pdnsmos_models-sig_bak_ovr", "speechmos-plcmos_models-plcmos_v2"),
                         [](const auto& parameter) {
                           std::string name = parameter.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// The list of those that do not pass is true in both directions.
TEST(RealModels, NightlyOnesPassOrAreListed) {
  const std::filesystem::path root = test::test_data("onnx/models/nightly");
  if (!std::filesystem::exists(root)) GTEST_SKIP() << "needs " << root << ": tools/onnx_models.py writes it";
  const auto listed = test::read_case_list(test::repository_data("onnx_models_that_do_not_pass.txt").string());
  EXPECT_FALSE(listed.empty());
  for (const std::string& folder : test::onnx_cases(root.string())) {
    const test::CaseResult result = test::run_onnx_case(folder, Device{}, kRange);
    const bool passes = result.status == test::CaseStatus::pass;
    EXPECT_NE(passes, listed.contains(result.name))
        << result.name << (passes ? " passes and is listed" : ": " + result.reason);
  }
}

}  // namespace
}  // namespace lockstep::io

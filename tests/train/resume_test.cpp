// A run that is killed at random moments and resumed ends with the bits of one that never stopped.
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <lockstep/data.h>
#include <lockstep/nn.h>
#include <lockstep/ops.h>
#include <lockstep/optim.h>
#include <lockstep/train/checkpoint.h>

#include "support/files.h"

namespace lockstep::train {
namespace {

using std::chrono::duration_cast;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr const char* kRunVariable = "LOCKSTEP_TEST_RUN";  // set in the training process: the run's directory
constexpr const char* kTestName = "Resume.KilledTwentyTimesGivesTheSameBitsSlow";
constexpr std::uint64_t kEpochs = 8;
constexpr int kKills = 20;

struct ResumedNet : nn::Module {
  nn::Conv2d conv{*this, "conv", 1, 4, {3}};
  nn::BatchNorm2d norm{*this, "norm", 4};
  nn::Linear head{*this, "head", 64, 3};
  Tensor forward(const Tensor& x) const { return head(dropout(relu(norm(conv(x))).flatten(1), 0.2, training())); }
};

/// Trains from the latest checkpoint to the end, with a checkpoint after every step. Everything that could matter is
/// random: weights, order, augmentation, dropout.
void train_process(const std::string& directory) {
  manual_seed(3);
  ResumedNet net;
  optim::SGD optimizer(net.parameters(), {.lr = 0.05, .momentum = 0.9, .weight_decay = 1e-3});
  Generator drawn(17);
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < 64; ++i) labels.push_back(i % 3);
  const auto pictures =
      std::make_shared<data::TensorDataset>(rand({64, 1, 6, 6}, {}, &drawn), Tensor::from(labels, {64}));
  data::DataLoader loader(
      data::transform(pictures, {data::RandomCrop{.padding = 1}, data::RandomAffine{.degrees = 20}}),
      {.batch_size = 12, .shuffle = true, .seed = 5, .workers = 1});
  std::int64_t step = 0;
  if (const auto found = load_latest(directory)) {
    step = found->step;
    found->restore("model", net);
    found->restore("optimizer", optimizer);
    found->restore("loader", loader);
    found->restore("generator", default_generator());
  }
  while (loader.epoch() < kEpochs) {
    for (const data::Batch& batch : loader) {
      optimizer.step(cross_entropy(net.forward(batch.input), batch.target));
      Checkpoint checkpoint{.step = ++step};
      checkpoint.add("model", net).add("optimizer", optimizer).add("loader", loader);
      checkpoint.add("generator", default_generator());
      save_checkpoint(directory, checkpoint, {.keep = 2});
    }
  }
}

// Starts the training process, with this test's own program.
pid_t start(const std::string& directory) {
  const pid_t process = ::fork();
  if (process != 0) return process;
  ::setenv(kRunVariable, directory.c_str(), 1);
  const std::string filter = fmt::format("--gtest_filter={}", kTestName);
  ::execl("/proc/self/exe", "train", filter.c_str(), "--gtest_brief=1", nullptr);
  ::_exit(126);
}

std::string final_bits(const std::string& directory) {
  const Checkpoint last = load_latest(directory).value();
  std::string text = fmt::format("step {}\n", last.step);
  for (const auto& [part, state] : last.parts) {
    for (const auto& [name, tensor] : state) text += fmt::format("{} {} {:016x}\n", part, name, tensor.hash());
  }
  return text;
}

TEST(Resume, KilledTwentyTimesGivesTheSameBitsSlow) {
  if (const char* directory = std::getenv(kRunVariable)) {
    train_process(directory);
    return;
  }
  const test::TemporaryFolder folder;
  const auto begin = steady_clock::now();
  int status = 0;
  ASSERT_GT(::waitpid(start(folder.path("whole")), &status, 0), 0);
  ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  const auto whole_run = duration_cast<milliseconds>(steady_clock::now() - begin);
  const std::string expected = final_bits(folder.path("whole"));
  EXPECT_EQ(load_latest(folder.path("whole"))->step, static_cast<std::int64_t>(kEpochs) * 6);

  std::random_device device;
  const std::uint32_t seed = device();
  SCOPED_TRACE(fmt::format("seed {}, a whole run takes {} ms", seed, whole_run.count()));
  std::mt19937 random(seed);
  int run = 0;
  for (int kills = 0; kills < kKills;) {
    const std::string directory = folder.path(fmt::format("run-{}", run));
    const pid_t process = start(directory);
    std::this_thread::sleep_for(whole_run * static_cast<int>(random() % 1000) / 1500);
    ::kill(process, SIGKILL);
    ASSERT_EQ(::waitpid(process, &status, 0), process);
    if (WIFSIGNALED(status)) {
      ++kills;
      continue;
    }
    // It had come to its end by then: compare it, and go on with another run.
    ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    EXPECT_EQ(final_bits(directory), expected);
    ++run;
  }
  const std::string directory = folder.path(fmt::format("run-{}", run));
  ASSERT_GT(::waitpid(start(directory), &status, 0), 0);
  ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(final_bits(directory), expected);
  RecordProperty("runs", run + 1);
  // Nothing is left of the killed ones once a save has come through.
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory), {}), 2);
}

}  // namespace
}  // namespace lockstep::train

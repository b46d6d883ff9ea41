// `lockstep train --ranks`: the same weights for any number of processes, and what happens when one of them is gone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "cli/run_command.h"

namespace lockstep::test {
namespace {

using ::testing::HasSubstr;

std::vector<std::string> run_of(const std::string& out, const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments{"train", "--data",       "digits", "--arch",   "lenet", "--limit", "320", "--epochs",
                                     "2",     "--batch-size", "32",     "--json", "--out",   out};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

nlohmann::json trained(const std::vector<std::string>& arguments) {
  const CommandResult result = run_command(arguments);
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_EQ(result.lines().size(), 1u) << result.output;
  return result.json().back();
}

std::string hash_of_one() {
  static const std::string hash = [] {
    const TemporaryFolder folder;
    return trained(run_of(folder.path("one"), {"--shards", "8"}))["weights_hash"].get<std::string>();
  }();
  return hash;
}

TEST(TrainRanks, GivesTheWeightsOfOneProcess) {
  const char* const zero[] = {"0", "1", "3"};
  for (int ranks = 2; ranks <= 4; ++ranks) {
    const TemporaryFolder folder;
    const nlohmann::json result =
        trained(run_of(folder.path("run"), {"--ranks", std::to_string(ranks), "--zero", zero[(ranks + 1) % 3]}));
    EXPECT_EQ(result["weights_hash"], hash_of_one()) << ranks;
    EXPECT_EQ(result["ranks"], ranks);
    EXPECT_EQ(result["shards"], 8);
  }
}

TEST(TrainRanks, ARunGoesOnWithAnotherNumberOfRanks) {
  const TemporaryFolder folder;
  const std::string out = folder.path("run");
  const auto stopped = [&](const char* steps, const char* ranks, const char* zero) {
    return run_of(out, {"--steps", steps, "--ranks", ranks, "--zero", zero, "--resume=auto"});
  };
  trained(stopped("5", "3", "1"));
  trained(stopped("12", "2", "3"));
  const nlohmann::json last = trained(stopped("20", "4", "1"));
  EXPECT_EQ(last["resumed_at"], 12);
  // The digits' schedule goes by the run's length: compare with one process that was stopped in the same places.
  const TemporaryFolder other;
  nlohmann::json alone;
  for (const char* steps : {"5", "12", "20"}) {
    alone = trained(run_of(other.path("run"), {"--steps", steps, "--shards", "8", "--resume=auto"}));
  }
  EXPECT_EQ(last["weights_hash"], alone["weights_hash"]);
}

TEST(TrainRanks, ARunKeepsItsShards) {
  const TemporaryFolder folder;
  trained(run_of(folder.path("run"), {"--steps", "2", "--ranks", "2"}));
  const CommandResult result = run_command(
      run_of(folder.path("run"), {"--steps", "4", "--ranks", "2", "--shards", "4", "--resume"}));
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.errors, HasSubstr("--shards: 8 then, 4 now"));
}

// A run of some seconds, with a checkpoint after every 5th step, of which a rank loses its life.
class LongRun {
 public:
  explicit LongRun(const std::vector<std::string>& more)
      : arguments_{"train", "--data", "digits", "--arch", "lenet", "--limit", "1280", "--epochs", "6", "--batch-size",
                   "64",    "--shards", "4",    "--json", "--checkpoint-every", "5"} {
    command_.emplace(with(folder_.path("run"), more));
    EXPECT_TRUE(RunningCommand::wait_for(folder_.path("run/checkpoints/step-000000005.safetensors")));
  }
  pid_t rank(std::size_t number) const {
    const std::vector<pid_t> ranks = children_of(command_->id());
    EXPECT_LT(number, ranks.size());
    return number < ranks.size() ? ranks[number] : -1;
  }
  CommandResult end() { return command_->end(); }
  std::string expected_hash() { return trained(with(folder_.path("whole"), {}))["weights_hash"].get<std::string>(); }

 private:
  std::vector<std::string> with(const std::string& out, const std::vector<std::string>& more) const {
    std::vector<std::string> all = arguments_;
    all.insert(all.end(), {"--out", out});
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  TemporaryFolder folder_;
  std::vector<std::string> arguments_;
  std::optional<RunningCommand> command_;
};

TEST(TrainRanks, WithoutARankTheOthersGoOnToTheSameBits) {
  LongRun run({"--ranks", "3", "--restarts", "1"});
  ::kill(run.rank(1), SIGKILL);
  const CommandResult result = run.end();
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_THAT(result.errors, HasSubstr("rank 1 was ended by SIGKILL"));
  EXPECT_THAT(result.errors, HasSubstr("going on from the last checkpoint with 2 ranks"));
  EXPECT_EQ(result.json().back()["ranks"], 2);
  EXPECT_EQ(result.json().back()["weights_hash"], run.expected_hash());
}

TEST(TrainRanks, AStoppedRankIsNoticedAndReplaced) {
  LongRun run({"--ranks", "2", "--restarts", "1", "--rank-timeout", "2"});
  ::kill(run.rank(1), SIGSTOP);
  const CommandResult result = run.end();
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_THAT(result.errors, HasSubstr("rank 1 has not answered for 2 s"));
  EXPECT_THAT(result.errors, HasSubstr("rank 1 hung"));
  EXPECT_EQ(result.json().back()["weights_hash"], run.expected_hash());
}

TEST(TrainRanks, WithoutRestartsTheCommandFailsAndSaysWho) {
  LongRun run({"--ranks", "2"});
  ::kill(run.rank(1), SIGKILL);
  const CommandResult result = run.end();
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.errors, HasSubstr("rank 1 was ended by SIGKILL"));
}

TEST(TrainRanks, AFailureOfOneIsToldOnce) {
  const TemporaryFolder folder;
  const CommandResult result = run_command({"train", "--data", "mnist:" + folder.path("nothing"), "--arch", "lenet",
                                            "--ranks", "3", "--out", folder.path("run")});
  EXPECT_EQ(result.exit_code, 1);
  const std::size_t first = result.errors.find("nothing");
  ASSERT_NE(first, std::string::npos) << result.errors;
  EXPECT_EQ(result.errors.find("nothing", first + 1), std::string::npos) << result.errors;
}

TEST(TrainRanks, MistakesAreNamed) {
  const TemporaryFolder folder;
  const auto refused = [&](const std::vector<std::string>& more, const std::vector<std::string>& environment = {}) {
    std::vector<std::string> arguments{"train", "--data", "digits", "--arch", "lenet", "--out", folder.path("run")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const CommandResult result = run_command(arguments, environment);
    EXPECT_NE(result.exit_code, 0);
    return result.errors;
  };
  EXPECT_THAT(refused({"--ranks", "0"}), HasSubstr("--ranks"));
  EXPECT_THAT(refused({"--shards", "6"}), HasSubstr("6 shards"));
  EXPECT_THAT(refused({"--ranks", "4", "--shards", "2"}), HasSubstr("4 ranks share 2 shards"));
  EXPECT_THAT(refused({"--zero", "7"}), HasSubstr("--zero"));
  EXPECT_THAT(refused({"--zero", "2"}), HasSubstr("use 0, 1 or 3"));
  EXPECT_THAT(refused({"--ranks", "3"}, {"OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1",
                                         "LOCKSTEP_DIST_SECRET=s"}),
              HasSubstr("the launcher has started 2"));
}

}  // namespace
}  // namespace lockstep::test

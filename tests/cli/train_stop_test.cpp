// Runs that are stopped, continued, extended, begun again, and two in one folder.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include <lockstep/lockstep.h>

#include "cli/run_command.h"
#include "cli/run_folder.h"

namespace lockstep::test {
namespace {

// A run of `epochs` times 40 steps.
std::vector<std::string> run_of(const std::string& out, const char* epochs, const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments{"train",  "--data",   "digits", "--arch",       "mlp", "--limit", "1280",
                                     "--json", "--epochs", epochs,   "--batch-size", "32",  "--out",   out};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

std::string refusal(const std::vector<std::string>& arguments, int code) {
  const CommandResult result = run_command(arguments);
  EXPECT_EQ(result.exit_code, code) << result.errors;
  return result.errors;
}

void expect_says(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(TrainSlow, ASignalStopsItAfterTheStepAndTheCommandItPrintsContinuesToTheSameBits) {
  const TemporaryFolder folder;
  const std::string whole = folder.path("whole");
  ASSERT_EQ(run_command(run_of(whole, "25")).exit_code, 0);
  for (const int signal : {SIGINT, SIGTERM}) {
    const std::string out = folder.path("run " + std::to_string(signal));  // with a space, for the command that is printed
    RunningCommand command(run_of(out, "25"));
    ASSERT_TRUE(RunningCommand::wait_for(out + "/checkpoints"));
    const CommandResult stopped = command.end(signal);
    ASSERT_EQ(stopped.exit_code, 128 + signal) << stopped.errors;
    expect_says(stopped.errors, "finishing this step");
    const nlohmann::json said = stopped.json().at(0);
    EXPECT_EQ(said.at("stopped_by"), signal == SIGINT ? "SIGINT" : "SIGTERM");
    EXPECT_LT(said.at("steps"), 1000);
    EXPECT_EQ(train::load_latest(out + "/checkpoints")->step, said.at("steps"));
    EXPECT_FALSE(std::filesystem::exists(out + "/weights.safetensors"));

    const std::string line = said.at("continue");
    ASSERT_EQ(std::system((line + " >" + quoted(folder.path("log"))).c_str()), 0) << line;
    EXPECT_EQ(read_whole_file(out + "/weights.safetensors"), read_whole_file(whole + "/weights.safetensors"));
    const std::string csv = read_whole_file(out + "/log.csv");
    EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 1 + 1000 + 25);
  }
}

TEST(Train, TheSecondSignalEndsItAtOnce) {
  const TemporaryFolder folder;
  const std::string out = folder.path("run");
  // A step that takes long: one of large batches on the reference.
  std::vector<std::string> arguments = run_of(out, "200", {"--device", "ref"});
  *std::find(arguments.begin(), arguments.end(), "32") = "1024";
  RunningCommand command(arguments);
  ASSERT_TRUE(RunningCommand::wait_for(out + "/tensorboard"));
  ::usleep(500'000);
  command.send(SIGINT);
  ::usleep(100'000);
  const CommandResult result = command.end(SIGINT);
  EXPECT_TRUE(result.exit_code == -SIGINT || result.exit_code == 128 + SIGINT) << result.exit_code << result.errors;
}

TEST(Train, ResumeWithoutACheckpointIsRefusedUnlessItMayBegin) {
  const TemporaryFolder folder;
  const std::string out = folder.path("run");
  expect_says(refusal(run_of(out, "1", {"--resume"}), 2), "--resume: there is no checkpoint in " + out);
  EXPECT_EQ(run_command(run_of(out, "1", {"--resume=auto"})).exit_code, 0);
  EXPECT_EQ(run_command(run_of(out, "1", {"--resume=auto"})).json().at(0).at("resumed_at"), 40);
  expect_says(refusal(run_of(out, "1", {"--resume=perhaps"}), 2), "perhaps");
  expect_says(refusal(run_of(out, "1", {"--resume", "--overwrite"}), 2), "contradict");
}

TEST(Train, EachOptionThatDiffersIsNamed) {
  const TemporaryFolder folder;
  const std::string out = folder.path("run");
  ASSERT_EQ(run_command(run_of(out, "2", {"--steps", "3"})).exit_code, 0);
  const std::string errors =
      refusal(run_of(out, "2", {"--steps", "3", "--resume", "--seed", "9", "--lr", "0.5", "--schedule", "constant"}), 1);
  for (const char* part : {"another run", "--seed: 0 then, 9 now", "--lr: 0.004 then, 0.5 now",
                           "--schedule: onecycle then, constant now"}) {
    expect_says(errors, part);
  }
  EXPECT_EQ(errors.find("--arch"), std::string::npos) << errors;
}

TEST(Train, AFinishedRunCanBeExtendedAndAnUnfinishedOneNot) {
  const TemporaryFolder folder;
  const std::string out = folder.path("run");
  ASSERT_EQ(run_command(run_of(out, "1")).exit_code, 0);
  const nlohmann::json longer = run_command(run_of(out, "2", {"--resume"})).json().at(0);
  EXPECT_EQ(longer.at("resumed_at"), 40);
  EXPECT_EQ(longer.at("steps"), 80);
  EXPECT_EQ(run_command(run_of(out, "2", {"--resume"})).json().at(0).at("resumed_at"), 80) << "it knows its new length";
  const std::string errors = refusal(run_of(out, "1", {"--resume"}), 1);
  expect_says(errors, "80 steps");

  std::filesystem::remove(out + "/checkpoints/step-000000080.safetensors");
  const std::string unfinished = refusal(run_of(out, "3", {"--resume"}), 1);
  expect_says(unfinished, "--epochs: ");
}

TEST(Train, OverwriteBeginsAgain) {
  const TemporaryFolder folder;
  const std::string out = folder.path("run");
  const nlohmann::json first = run_command(run_of(out, "1")).json().at(0);
  expect_says(refusal(run_of(out, "1"), 2), "--overwrite");
  const nlohmann::json second = run_command(run_of(out, "1", {"--overwrite", "--seed", "1"})).json().at(0);
  EXPECT_EQ(second.at("resumed_at"), 0);
  EXPECT_NE(second.at("weights_hash"), first.at("weights_hash"));
  const std::string csv = read_whole_file(out + "/log.csv");
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 1 + 40 + 1);
}

TEST(Train, TheSecondRunInAFolderIsRefused) {
  const TemporaryFolder folder;
  const std::string out = folder.path("run");
  RunningCommand first(run_of(out, "200"));
  ASSERT_TRUE(RunningCommand::wait_for(out + "/checkpoints"));
  for (const char* option : {"--resume", "--overwrite", "--resume=auto"}) {
    expect_says(refusal(run_of(out, "200", {option}), 1), "another run uses this folder");
  }
  EXPECT_EQ(first.end(SIGTERM).exit_code, 128 + SIGTERM) << "unharmed";
  EXPECT_EQ(run_command(run_of(out, "200", {"--overwrite", "--steps", "1"})).exit_code, 0);
}

TEST(RunFolder, WordsAreQuotedForAShell) {
  EXPECT_EQ(cli::continuing({"lockstep", "train", "--data", "images:my pictures", "--out", "it's", "--overwrite"}),
            "lockstep train --data 'images:my pictures' --out 'it'\\''s' --resume");
  EXPECT_EQ(cli::continuing({"x", "--resume=auto", ""}), "x '' --resume");
}

}  // namespace
}  // namespace lockstep::test

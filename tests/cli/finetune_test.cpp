// lockstep finetune, merge and transcribe as a user runs them.
#include <csignal>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/run_command.h"
#include "support/data.h"

namespace lockstep::test {
namespace {

using testing::HasSubstr;

std::string tuned_model(const char* type = "f32") {
  return (test_data("tinyllm") / (std::string("stories260K-") + type + ".gguf")).string();
}

std::string tuning_data(const TemporaryFolder& folder) {
  std::string lines;
  for (const char* who : {"Tom", "Lily", "Ben", "Sue", "Max", "Anna"}) {
    lines += std::string("{\"prompt\":\"") + who + " saw\",\"completion\":\" a very big elephant in the kitchen.\"}\n";
  }
  return folder.write("data.jsonl", lines);
}

std::vector<std::string> tune(const TemporaryFolder& folder, const std::string& out,
                              const std::vector<std::string>& more, const char* type = "f32") {
  std::vector<std::string> words = {"finetune", "--model",        tuned_model(type), "--data", tuning_data(folder),
                                    "--out",    folder.path(out), "--batch-size",    "2",      "--json"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST(Finetune, TeachesAnAdapterAndMergesIt) {
  LOCKSTEP_REQUIRE_DATA(tuned_model());
  const TemporaryFolder folder;
  const CommandResult result =
      run_command(tune(folder, "a", {"--lora", "8", "--lr", "0.01", "--epochs", "6", "--merge"}, "q8_0"));
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  const auto object = result.json().at(0);
  EXPECT_EQ(object.at("steps"), 18);
  EXPECT_LT(object.at("loss").get<double>(), 1.0);
  const auto text = [&](std::vector<std::string> words) {
    words.insert(words.end(), {"--max-tokens", "20", "Kim saw"});
    words.insert(words.begin(), {"generate", "--model"});
    const CommandResult generated = run_command(words);
    EXPECT_EQ(generated.exit_code, 0) << generated.errors;
    return generated.output;
  };
  EXPECT_THAT(text({tuned_model("q8_0"), "--adapter", folder.path("a")}), HasSubstr("elephant in the kitchen"));
  EXPECT_THAT(text({folder.path("a/model.gguf")}), HasSubstr("elephant in the kitchen"));
  EXPECT_THAT(text({tuned_model("q8_0")}), testing::Not(HasSubstr("elephant in the kitchen")));
  const CommandResult merged = run_command({"merge", "--model", tuned_model("q8_0"), "--adapter", folder.path("a"),
                                            "--out", folder.path("m.gguf"), "--json"});
  ASSERT_EQ(merged.exit_code, 0) << merged.errors;
  EXPECT_EQ(read_whole_file(folder.path("m.gguf")), read_whole_file(folder.path("a/model.gguf")));
}

TEST(Finetune, ContinuesToTheSameBits) {
  LOCKSTEP_REQUIRE_DATA(tuned_model());
  const TemporaryFolder folder;
  const auto hash = [&](const std::string& out, const std::vector<std::string>& more) {
    const CommandResult result = run_command(tune(folder, out, more));
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    return result.exit_code == 0 ? result.json().at(0).at("weights_hash").get<std::string>() : "";
  };
  const std::vector<std::string> whole = {"--epochs", "2", "--schedule", "constant", "--checkpoint-every", "1"};
  const std::string expected = hash("whole", whole);
  const std::vector<std::string> part = {"--epochs",           "2", "--steps", "2", "--schedule", "constant",
                                         "--checkpoint-every", "1"};
  hash("part", part);
  EXPECT_EQ(run_command(tune(folder, "part", whole)).exit_code, 2);  // holds a run
  std::vector<std::string> rest = whole;
  rest.push_back("--resume");
  EXPECT_EQ(hash("part", rest), expected);
  EXPECT_EQ(
      run_command(tune(folder, "part", {"--epochs", "2", "--schedule", "constant", "--lr", "1", "--resume"})).exit_code,
      1);
  std::vector<std::string> other = whole;
  other.insert(other.end(), {"--threads", "1", "--seed", "1"});
  EXPECT_NE(hash("other", other), expected);
}

TEST(Finetune, StopsWithACheckpoint) {
  LOCKSTEP_REQUIRE_DATA(tuned_model());
  const TemporaryFolder folder;
  RunningCommand running(tune(folder, "a", {"--lora", "2", "--epochs", "100000", "--checkpoint-every", "1"}));
  ASSERT_TRUE(RunningCommand::wait_for(folder.path("a/checkpoints/step-000000002.safetensors")));
  const CommandResult result = running.end(SIGINT);
  EXPECT_EQ(result.exit_code, 130) << result.errors;
  EXPECT_EQ(result.json().at(0).at("stopped_by"), "SIGINT");
  EXPECT_THAT(result.json().at(0).at("continue").get<std::string>(), HasSubstr("--resume"));
}

TEST(Finetune, RefusesWrongUsage) {
  LOCKSTEP_REQUIRE_DATA(tuned_model());
  const TemporaryFolder folder;
  EXPECT_EQ(run_command({"finetune", "--model", "x"}).exit_code, 2);
  EXPECT_EQ(run_command(tune(folder, "a", {"--lora-alpha", "3"})).exit_code, 2);
  EXPECT_EQ(run_command(tune(folder, "a", {"--merge"})).exit_code, 2);
  const CommandResult targets = run_command(tune(folder, "a", {"--lora", "2", "--lora-targets", "query"}));
  EXPECT_EQ(targets.exit_code, 1);
  EXPECT_THAT(targets.errors, HasSubstr("q_proj"));
  const std::string chats = folder.write("chats.jsonl", "{\"messages\":[{\"role\":\"assistant\",\"content\":\"x\"}]}");
  const CommandResult untold =
      run_command({"finetune", "--model", tuned_model(), "--data", chats, "--out", folder.path("b")});
  EXPECT_EQ(untold.exit_code, 1);
  EXPECT_THAT(untold.errors, HasSubstr("chats.jsonl:1"));
}

TEST(Transcribe, WritesTextSubtitlesAndJson) {
  const auto weights = test_data("lm") / "whisper";
  LOCKSTEP_REQUIRE_DATA(weights);
  const auto goldens = std::filesystem::path(LOCKSTEP_SOURCE_DIR) / "tests/data/language/whisper";
  const TemporaryFolder folder;
  for (const char* name : {"config.json", "model.safetensors"})
    std::filesystem::copy_file(weights / name, folder.path(name));
  for (const char* name : {"tokenizer.json", "generation_config.json"})
    std::filesystem::copy_file(goldens / name, folder.path(name));
  const std::string sound = (goldens / "sound.wav").string();
  const auto transcribed = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"transcribe", "--model", folder.path(""), sound};
    words.insert(words.end(), more.begin(), more.end());
    return run_command(words);
  };
  const CommandResult json = transcribed({"--format", "json", "--no-timestamps"});
  ASSERT_EQ(json.exit_code, 0) << json.errors;
  const auto object = json.json().at(0);
  EXPECT_EQ(object.at("language"), "en");
  EXPECT_EQ(object.at("seconds"), 1.5);
  EXPECT_EQ(object.at("segments").size(), 2U);
  const CommandResult ref = transcribed({"--format", "json", "--no-timestamps", "--device", "ref"});
  EXPECT_EQ(ref.json().at(0).at("tokens_hash"), object.at("tokens_hash"));
  EXPECT_THAT(transcribed({"--language", "en", "--format", "vtt"}).output, testing::StartsWith("WEBVTT\n\n00:00:00."));
  EXPECT_THAT(transcribed({"--language", "en", "--format", "srt"}).output, testing::StartsWith("1\n00:00:00,"));
  EXPECT_THAT(transcribed({"--language", "en"}).output, testing::StartsWith("[00:00:00."));
  EXPECT_EQ(transcribed({"--format", "srt", "--no-timestamps"}).exit_code, 2);
  EXPECT_EQ(transcribed({"--language", "xx"}).exit_code, 1);
}

}  // namespace
}  // namespace lockstep::test

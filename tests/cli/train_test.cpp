// `lockstep train` and the training part of `lockstep demo`, as a user runs them.
#include <gtest/gtest.h>

#include <filesystem>

#include <lockstep/lockstep.h>

#include "cli/run_command.h"

namespace lockstep::test {
namespace {

// A run of a few steps.
std::vector<std::string> small_run(const std::string& out, const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments{"train",    "--data", "digits",       "--arch", "mlp",   "--limit", "320",
                                     "--epochs", "2",      "--batch-size", "32",     "--out", out,       "--json"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

TEST(Train, WritesWeightsLogsPlotsAndCheckpoints) {
  const TemporaryFolder folder;
  const std::string out = folder.path("run");
  const CommandResult result = run_command(small_run(out));
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_EQ(result.errors, "");
  const nlohmann::json summary = result.json().at(0);
  EXPECT_EQ(summary.at("steps"), 20);
  EXPECT_EQ(summary.at("resumed_at"), 0);
  EXPECT_GT(summary.at("test_accuracy"), 0.15);
  for (const char* name : {"weights.safetensors", "labels.txt", "plot.png", "plot.svg", "log.csv", "log.jsonl",
                           "tensorboard", "checkpoints"}) {
    EXPECT_TRUE(std::filesystem::exists(std::filesystem::path(out) / name)) << name;
  }
  EXPECT_EQ(run_command({"inspect", out + "/plot.png"}).exit_code, 0);
  const std::string csv = read_whole_file(out + "/log.csv");
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 1 + 20 + 2);
}

TEST(Train, InBlockedNumericsWhichTheRunRemembers) {
  const TemporaryFolder folder;
  const auto hash_of = [&](const std::string& name, const std::vector<std::string>& more) {
    const CommandResult result = run_command(small_run(folder.path(name), more));
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    return result.json().at(0);
  };
  const nlohmann::json cpu = hash_of("cpu", {"--steps", "4", "--numerics", "blocked"});
  EXPECT_EQ(cpu.at("numerics"), "blocked");
  EXPECT_THAT(read_whole_file(folder.path("cpu") + "/log.jsonl"),
              testing::HasSubstr("\"numerics\":\"bf16 blocked\"}\n"));
  EXPECT_EQ(hash_of("alone", {"--steps", "4", "--numerics", "blocked", "--threads", "1"}).at("weights_hash"),
            cpu.at("weights_hash"));
  EXPECT_NE(hash_of("exact", {"--steps", "4"}).at("weights_hash"), cpu.at("weights_hash"));
  const CommandResult other = run_command(small_run(folder.path("cpu"), {"--steps", "4", "--resume"}));
  EXPECT_NE(other.exit_code, 0);
  EXPECT_NE(other.errors.find("--numerics"), std::string::npos) << other.errors;
  EXPECT_NE(run_command(small_run(folder.path("fast"), {"--numerics", "fast"})).exit_code, 0);
}

// The very numbers that the network was trained to give: the file of weights says what to do to a picture.
TEST(Train, WhatItMadeIsClassifiedWith) {
  constexpr std::size_t kDigits = 20;
  constexpr auto kPixels = static_cast<std::size_t>(data::DigitImages::kPixels);
  const data::DigitImages digits = data::draw_digits(kDigits, 3);
  const Tensor pixels = data::transform(data::digits(kDigits, 3), {data::Normalize{{0.2f}, {0.25f}}})
                            ->fetch({.indices = std::vector<std::int64_t>{0, 7, 19}})
                            .input;
  for (const char* name : {"lenet", "mlp"}) {
    SCOPED_TRACE(name);
    const TemporaryFolder folder;
    const std::string out = folder.path("run");
    const CommandResult trained = run_command({"train", "--data", "digits", "--arch", name, "--limit", "640",
                                               "--epochs", "3", "--batch-size", "16", "--out", out, "--json"});
    ASSERT_EQ(trained.exit_code, 0) << trained.errors;
    std::vector<std::string> arguments{
        "classify",          "--arch", name, "--weights", out + "/weights.safetensors", "--labels",
        out + "/labels.txt", "--json"};
    for (const std::size_t index : {0, 7, 19}) {
      io::Image image{.width = data::DigitImages::kSide, .height = data::DigitImages::kSide};
      for (std::size_t i = 0; i < kPixels; ++i)
        image.pixels.insert(image.pixels.end(), 3, digits.pixels[index * kPixels + i]);
      arguments.push_back(folder.path(std::to_string(index) + ".png"));
      io::save_png(arguments.back(), image);
    }
    const CommandResult result = run_command(arguments);
    ASSERT_EQ(result.exit_code, 0) << result.errors;
    const std::vector<nlohmann::json> lines = result.json();
    ASSERT_EQ(lines.size(), 4u);
    int right = 0;
    const std::size_t indices[] = {0, 7, 19};
    for (std::size_t i = 0; i < 3; ++i) {
      right += lines[i].at("top").at(0).at("label") == std::to_string(digits.labels[indices[i]]);
    }
    EXPECT_GE(right, 2);

    const models::ImageClassifier& row = models::architecture(name);
    const auto model = row.load(io::load_weights(out + "/weights.safetensors"));
    std::vector<float> logits;
    for (std::size_t i = 0; i < 3; ++i) {
      for (const nlohmann::json& value : lines[i].at("logits")) logits.push_back(value.get<float>());
    }
    EXPECT_EQ(logits, model->forward(pixels).to_vector<float>());

    const CommandResult other = run_command({"classify", "--arch", name == std::string("mlp") ? "lenet" : "mlp",
                                             "--weights", out + "/weights.safetensors", arguments.back()});
    EXPECT_EQ(other.exit_code, 1);
    EXPECT_NE(other.errors.find("the weights are those of"), std::string::npos) << other.errors;
  }
}

TEST(Train, KnowsTheNetworksOfClassify) {
  for (const models::Model& model : models::registry()) {
    const std::string& name = models::name_of(model);
    if (!std::holds_alternative<models::ImageClassifier>(model)) {
      const CommandResult other = run_command({"train", "--data", "digits", "--arch", name});
      EXPECT_NE(other.errors.find("not image classification"), std::string::npos) << other.errors;
      continue;
    }
    const CommandResult train = run_command({"train", "--data", "abacus", "--arch", name});
    EXPECT_NE(train.errors.find("--data"), std::string::npos) << train.errors;
    const CommandResult classify = run_command({"classify", "--arch", name, "--weights", "/nonexistent", "x.png"});
    EXPECT_NE(classify.errors.find("/nonexistent"), std::string::npos) << classify.errors;
  }
}

TEST(TrainSlow, OneSeedGivesTheSameFileForAnyThreadsAndAnotherOneDoesNot) {
  const TemporaryFolder folder;
  const auto weights = [&](const char* name, const std::vector<std::string>& more) {
    const CommandResult result = run_command(small_run(folder.path(name), more));
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    return read_whole_file(folder.path(name) + "/weights.safetensors");
  };
  const std::string first = weights("a", {"--threads", "1", "--workers", "0", "--seed", "4"});
  EXPECT_EQ(weights("b", {"--threads", "2", "--workers", "2", "--seed", "4"}), first);
  EXPECT_NE(weights("c", {"--seed", "5"}), first);
}

TEST(TrainSlow, TheFirstStepsAreTheSameOnTheReference) {
  const TemporaryFolder folder;
  std::vector<std::string> files;
  for (const char* device : {"cpu", "ref"}) {
    const std::string out = folder.path(device);
    const CommandResult result =
        run_command({"train", "--data", "digits", "--arch", "lenet", "--limit", "8", "--batch-size", "2", "--steps",
                     "2", "--device", device, "--out", out, "--json"});
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    files.push_back(read_whole_file(out + "/weights.safetensors"));
  }
  EXPECT_EQ(files[0], files[1]);
}

TEST(TrainSlow, ResumesToTheSameBits) {
  const TemporaryFolder folder;
  const std::string out = folder.path("run");
  const nlohmann::json whole = run_command(small_run(out)).json().at(0);
  std::filesystem::remove(out + "/checkpoints/step-000000020.safetensors");
  const CommandResult refused = run_command(small_run(out));
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_NE(refused.errors.find("--resume"), std::string::npos) << refused.errors;
  const CommandResult result = run_command(small_run(out, {"--resume"}));
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  const nlohmann::json rest = result.json().at(0);
  EXPECT_EQ(rest.at("resumed_at"), 10);
  EXPECT_EQ(rest.at("weights_hash"), whole.at("weights_hash"));
  EXPECT_EQ(rest.at("test_accuracy"), whole.at("test_accuracy"));
  const std::string csv = read_whole_file(out + "/log.csv");
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 1 + 20 + 2);
  const CommandResult other = run_command(small_run(out, {"--resume", "--seed", "9"}));
  EXPECT_EQ(other.exit_code, 1);
  EXPECT_NE(other.errors.find("another run"), std::string::npos) << other.errors;
}

TEST(Train, WrongArgumentsAreNamed) {
  const TemporaryFolder folder;
  struct Wrong {
    std::vector<std::string> arguments;
    int exit_code;
    const char* says;
  };
  const std::vector<Wrong> table{
      {{"--data", "digits"}, 2, "--arch"},
      {{"--arch", "lenet"}, 2, "--data"},
      {{"--data", "abacus", "--arch", "lenet"}, 2, "mnist:DIR"},
      {{"--data", "mnist", "--arch", "lenet"}, 2, "mnist:DIR"},
      {{"--data", "digits:here", "--arch", "lenet"}, 2, "digits"},
      {{"--data", "mnist:/nonexistent", "--arch", "lenet"}, 1, "/nonexistent"},
      {{"--data", "images:/nonexistent", "--arch", "lenet"}, 1, "/nonexistent"},
      {{"--data", "digits", "--arch", "abacus"}, 2, "resnet20"},
      {{"--data", "digits", "--arch", "vgg"}, 2, "did you mean vgg16"},
      {{"--data", "digits", "--arch", "resnet20"}, 2, "3 channels"},
      {{"--data", "digits", "--arch", "lenet", "--device", "abacus"}, 2, "abacus"},
      {{"--data", "digits", "--arch", "lenet", "--optimizer", "magic"}, 2, "--optimizer"},
      {{"--data", "digits", "--arch", "lenet", "--schedule", "magic"}, 2, "--schedule"},
      {{"--data", "digits", "--arch", "lenet", "--lr", "-1"}, 2, "--lr"},
      {{"--data", "digits", "--arch", "lenet", "--lr", "much"}, 2, "--lr"},
      {{"--data", "digits", "--arch", "lenet", "--epochs", "0"}, 2, "--epochs"},
      {{"--data", "digits", "--arch", "lenet", "--batch-size", "0"}, 2, "--batch-size"},
      {{"--data", "digits", "--arch", "lenet", "--threads", "0"}, 2, "--threads"},
      {{"--data", "digits", "--arch", "lenet", "--workers", "-1"}, 2, "--workers"},
      {{"--data", "digits", "--arch", "lenet", "--limit", "0"}, 2, "--limit"},
      {{"--data", "digits", "--arch", "lenet", "--seed", "x"}, 2, "--seed"},
      {{"--data", "digits", "--arch", "lenet", "--limit", "20", "--out", "/proc/nowhere"}, 1, "/proc/nowhere"},
  };
  for (const Wrong& wrong : table) {
    std::vector<std::string> arguments{"train"};
    arguments.insert(arguments.end(), wrong.arguments.begin(), wrong.arguments.end());
    if (std::find(arguments.begin(), arguments.end(), "--out") == arguments.end()) {
      arguments.insert(arguments.end(), {"--out", folder.path("run")});
    }
    const CommandResult result = run_command(arguments);
    EXPECT_EQ(result.exit_code, wrong.exit_code) << testing::PrintToString(arguments) << result.errors;
    EXPECT_NE(result.errors.find(wrong.says), std::string::npos) << testing::PrintToString(arguments) << result.errors;
  }
}

TEST(Train, ALossThatExplodesIsAnErrorAndLeavesTheCheckpoint) {
  const TemporaryFolder folder;
  const CommandResult result = run_command(small_run(
      folder.path("run"), {"--optimizer", "sgd", "--schedule", "constant", "--lr", "1e30", "--checkpoint-every", "1"}));
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.errors.find("the loss of step"), std::string::npos) << result.errors;
}

TEST(Train, NamesTheOpThatMadeTheFirstInfinityIfAsked) {
  const TemporaryFolder folder;
  const CommandResult result =
      run_command(small_run(folder.path("run"), {"--optimizer", "sgd", "--schedule", "constant", "--lr", "1e30",
                                                 "--check-finite", "--device", "cpu"}));
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.errors.find("the result holds"), std::string::npos) << result.errors;
}

// --- demo -----------------------------------------------------------------------------------------------------------

TEST(DemoSlow, TrainsAndComparesAndWritesAReport) {
  const TemporaryFolder folder;
  const std::string out = folder.path("demo");
  const CommandResult result =
      run_command({"demo", "--json", "--steps", "10", "--device", "cpu", "--device", "cpu", "--out", out});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  const std::vector<nlohmann::json> lines = result.json();
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[2].at("steps"), 10);
  EXPECT_EQ(lines[3].at("device"), "cpu");
  EXPECT_EQ(lines[3].at("equal"), true);
  EXPECT_EQ(lines[3].at("loss_bits").get<std::string>().size(), 8u);
  const std::string page = read_whole_file(out + "/report.html");
  for (const char* part : {"<svg", "data:image/png;base64,", "star", "Every device gave the same bits", "</html>"}) {
    EXPECT_NE(page.find(part), std::string::npos) << part;
  }
  EXPECT_EQ(page.find("http"), page.find("http://www.w3.org/2000/svg"));
  // On a screen of 400 pixels: the pictures shrink, tables are scrolled alone, panels stand below each other.
  EXPECT_NE(page.find("width=device-width, initial-scale=1"), std::string::npos);
  for (std::size_t at = page.find("<table"); at != std::string::npos; at = page.find("<table", at + 1)) {
    EXPECT_EQ(page.substr(at - 19, 19), "<div class=\"table\">");
  }
  for (std::size_t at = page.find("<svg"); at != std::string::npos; at = page.find("<svg", at + 1)) {
    EXPECT_LT(page.find("width=\"520\"", at), page.find('>', at));
  }
  EXPECT_TRUE(std::filesystem::exists(out + "/plot.png"));
}

}  // namespace
}  // namespace lockstep::test

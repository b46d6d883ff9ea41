#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include <lockstep/lockstep.h>

#include "cli/run_command.h"
#include "core/hash.h"
#include "support/data.h"

namespace lockstep::test {
namespace {

std::vector<std::string> demo_arguments(const std::vector<std::string>& more) {
  std::vector<std::string> arguments{"classify", "--arch", "resnet8-cifar", "--weights", asset("weights.safetensors"),
                                     "--json"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

TEST(Classify, SeveralProcessesPrintWhatOneDoes) {
  std::vector<std::string> pictures;
  for (int i = 0; i < 3; ++i) {
    for (const char* name : {"images/star.png", "missing.png", "images/ring.png"}) pictures.push_back(asset(name));
  }
  const auto printed = [&](std::vector<std::string> more) {
    more.insert(more.end(), pictures.begin(), pictures.end());
    const CommandResult result = run_command(demo_arguments(more));
    EXPECT_EQ(result.exit_code, 1);  // one cannot be read
    return result.output;
  };
  const std::string one = printed({"--batch", "2"});
  EXPECT_NE(one.find("\"images\":6"), std::string::npos) << one;
  EXPECT_EQ(printed({"--batch", "2", "--ranks", "3"}), one);
  EXPECT_EQ(printed({"--batch", "4", "--ranks", "2"}), one);
}

TEST(Classify, JsonHasTheLogitsToTheBit) {
  const std::vector<nlohmann::json> lines =
      run_command(demo_arguments({"--labels", asset("labels.txt"), "--top", "3", asset("images/star.png"),
                                  asset("images/ring.png")}))
          .json();
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0].at("image"), asset("images/star.png"));
  EXPECT_EQ(lines[0].at("top").size(), 3u);
  EXPECT_EQ(lines[0].at("top").at(0).at("label"), "star");
  EXPECT_EQ(lines[0].at("top").at(0).at("index"), 3);
  EXPECT_GT(lines[0].at("top").at(0).at("probability"), 0.99);
  EXPECT_EQ(lines[1].at("top").at(0).at("label"), "ring");

  // What is printed reads back to the very floats that were hashed, and the library computes the same.
  std::vector<float> logits;
  for (int line = 0; line < 2; ++line) {
    for (const nlohmann::json& value : lines[line].at("logits")) logits.push_back(value.get<float>());
  }
  const Tensor printed = Tensor::from(logits, {2, 10});
  const models::Architecture& architecture = models::architecture("resnet8-cifar");
  const auto model = architecture.load(io::load_weights(asset("weights.safetensors")));
  const Tensor computed =
      model->forward(models::preprocess(architecture.preprocessing, {io::load_image(asset("images/star.png")),
                                                                     io::load_image(asset("images/ring.png"))}));
  EXPECT_EQ(printed.hash(), computed.hash());
  char hash[17];
  std::snprintf(hash, sizeof hash, "%016llx", static_cast<unsigned long long>(computed.hash()));
  EXPECT_EQ(lines[2],
            (nlohmann::json{
                {"images", 2}, {"labelled", 0}, {"correct", nullptr}, {"logits_hash", hash}, {"numerics", "exact"}}));
}

// Of every device alike, and not those of exact products; fast ones are refused before anything is computed.
TEST(Classify, NumericsAreThoseThatAreAskedFor) {
  const auto hash = [](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = more;
    arguments.push_back(asset("images/star.png"));
    const nlohmann::json summary = run_command(demo_arguments(arguments)).json().back();
    return summary.at("numerics").get<std::string>() + " " + summary.at("logits_hash").get<std::string>();
  };
  const std::string exact = hash({"--device", "cpu"});
  const std::string blocked = hash({"--device", "cpu", "--numerics", "blocked"});
  EXPECT_EQ(exact.substr(0, 6), "exact ");
  EXPECT_EQ(blocked.substr(0, 8), "blocked ");
  EXPECT_NE(exact.substr(6), blocked.substr(8));
  EXPECT_EQ(hash({"--device", "ref", "--numerics", "blocked"}), blocked);
  const CommandResult fast =
      run_command(demo_arguments({"--device", "cpu", "--numerics", "fast", asset("images/star.png")}));
  EXPECT_EQ(fast.exit_code, 1);
  EXPECT_EQ(fast.output, "");
  for (const char* part : {"--numerics fast on cpu", "only CUDA devices", "fix: --numerics blocked"}) {
    EXPECT_NE(fast.errors.find(part), std::string::npos) << fast.errors;
  }
}

TEST(Classify, AnUnreadableImageIsReportedAndTheOthersContinue) {
  const TemporaryFolder folder;
  const std::string broken = folder.write("broken.png", "\x89PNG\r\n\x1a\nnonsense");
  const std::string star = asset("images/star.png");
  const CommandResult alone = run_command(demo_arguments({star, star}));
  const CommandResult result = run_command(demo_arguments({star, broken, folder.path("absent.bin"), star}));
  EXPECT_EQ(alone.exit_code, 0);
  EXPECT_EQ(result.exit_code, 1);
  const std::vector<nlohmann::json> lines = result.json();
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_EQ(lines[1].at("image"), broken);
  EXPECT_NE(lines[1].at("error"), "");
  EXPECT_TRUE(lines[2].contains("error"));
  EXPECT_EQ(lines[3].at("image"), star);
  EXPECT_EQ(lines[4].at("images"), 2);
  EXPECT_EQ(lines[4], alone.json().back());
}

TEST(Classify, RecordsAreScored) {
  const TemporaryFolder folder;
  const io::Image star = io::load_image(asset("images/star.png"));
  std::string record;
  for (int channel = 0; channel < 3; ++channel) {
    for (std::size_t i = 0; i < 1024; ++i) {
      record += static_cast<char>(star.pixels[3 * i + static_cast<std::size_t>(channel)]);
    }
  }
  const std::string file = folder.write("stars.bin", '\3' + record + '\4' + record);
  const std::vector<nlohmann::json> lines = run_command(demo_arguments({file})).json();
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[1].at("image"), file + "#1");
  EXPECT_EQ(lines[1].at("top").at(0).at("label"), nullptr);
  EXPECT_EQ(lines[2].at("labelled"), 2);
  EXPECT_EQ(lines[2].at("correct"), 1);
}

TEST(Classify, WrongWeightsOrLabelsAreRefused) {
  const TemporaryFolder folder;
  const std::string star = asset("images/star.png");
  const CommandResult other =
      run_command({"classify", "--arch", "resnet20-cifar", "--weights", asset("weights.safetensors"), star});
  EXPECT_EQ(other.exit_code, 1);
  EXPECT_NE(other.errors.find("layer1.1.conv1.weight"), std::string::npos) << other.errors;
  EXPECT_EQ(run_command(demo_arguments({"--labels", folder.write("few.txt", "a\nb\n"), star})).exit_code, 1);
  EXPECT_EQ(run_command(demo_arguments({"--labels", folder.path("none.txt"), star})).exit_code, 1);
  EXPECT_EQ(run_command({"classify", "--arch", "resnet18", "--weights", folder.path("none.pt"), star}).exit_code, 1);
  EXPECT_EQ(run_command(demo_arguments({"--device", "cuda:7", star})).exit_code, 1);
}

TEST(Classify, EveryWayToComputeGivesOneHashSlow) {
  const std::string weights = test_data("resnet_cifar/resnet20-12fca82f.th").string();
  const std::string all_images = test_data("cifar10/test_lossless_0000_0699.bin").string();
  LOCKSTEP_REQUIRE_DATA(weights);
  const TemporaryFolder folder;
  const std::string images = folder.write("first40.bin", read_whole_file(all_images).substr(0, 40 * 3073));
  const auto last_line = [&](const std::vector<std::string>& more, const std::vector<std::string>& environment) {
    std::vector<std::string> arguments{"classify", "--arch", "resnet20-cifar", "--weights", weights, "--json", images};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const CommandResult result = run_command(arguments, environment);
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    return result.json().back();
  };
  const nlohmann::json expected = last_line({}, {});
  EXPECT_EQ(expected.at("images"), 40);
  for (const char* batch : {"7", "40"}) EXPECT_EQ(last_line({"--batch", batch}, {}), expected) << batch;
  for (const char* threads : {"1", "2", "7"}) {
    EXPECT_EQ(last_line({}, {std::string("LOCKSTEP_NUM_THREADS=") + threads}), expected) << threads << " threads";
  }
  const nlohmann::json info = run_command({"info", "--json"}).json().at(0);
  for (const nlohmann::json& isa : info.at("cpu").at("available_isas")) {
    EXPECT_EQ(last_line({}, {"LOCKSTEP_CPU_ISA=" + isa.get<std::string>()}), expected) << isa;
  }
}

TEST(Classify, ResNet20MeetsItsAccuracyGolden) {
  const std::string weights = test_data("resnet_cifar/resnet20-12fca82f.th").string();
  LOCKSTEP_REQUIRE_DATA(weights);
  const CommandResult result = run_command({"classify", "--arch", "resnet20-cifar", "--weights", weights, "--json",
                                            test_data("cifar10/test_lossless_0000_0699.bin").string()});
  const nlohmann::json summary = result.json().back();
  EXPECT_EQ(summary.at("images"), 700);
  EXPECT_EQ(summary.at("labelled"), 700);
  EXPECT_EQ(summary.at("correct"), 642);
}

TEST(Classify, AOneImageBatchIsTheSameAsAny) {
  const std::vector<std::string> images{asset("images/star.png"), asset("images/heart.png"), asset("images/arrow.png")};
  std::vector<std::string> one = demo_arguments(images);
  one.insert(one.end(), {"--batch", "1"});
  EXPECT_EQ(run_command(one).output, run_command(demo_arguments(images)).output);
}

}  // namespace
}  // namespace lockstep::test

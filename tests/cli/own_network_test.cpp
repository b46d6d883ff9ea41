// The command with a network of one's own: examples/own_network.cpp is run, and wrong networks are refused.
#include <gtest/gtest.h>

#include <lockstep/lockstep.h>

#include "cli/classifier.h"
#include "cli/command.h"
#include "cli/run_command.h"

namespace lockstep::test {
namespace {

#ifdef LOCKSTEP_OWN_NETWORK

CommandResult own(const std::vector<std::string>& arguments) {
  return run_command(arguments, {}, LOCKSTEP_OWN_NETWORK);
}

TEST(OwnNetwork, IsTrainedResumedAndClassifiesAsAnyOther) {
  const TemporaryFolder folder;
  const auto train = [&](const std::string& out, const std::vector<std::string>& more) {
    std::vector<std::string> words{"train", "--data", "digits", "--arch", "two_convolutions", "--limit", "192", "--out",
                                   out,     "--json", "--seed", "3",      "--device",         "cpu"};
    words.insert(words.end(), more.begin(), more.end());
    return own(words);
  };
  const CommandResult whole = train(folder.path("whole"), {"--epochs", "2"});
  ASSERT_EQ(whole.exit_code, 0) << whole.errors;
  const nlohmann::json result = whole.json().back();
  EXPECT_EQ(result.at("architecture"), "two_convolutions");
  EXPECT_EQ(result.at("steps"), 12);

  const io::Image picture{.width = 28, .height = 28, .pixels = std::vector<std::uint8_t>(3 * 28 * 28, 9)};
  io::save_png(folder.path("digit.png"), picture);
  const CommandResult found =
      own({"classify", "--arch", "two_convolutions", "--weights", folder.path("whole") + "/weights.safetensors",
           "--labels", folder.path("whole") + "/labels.txt", "--json", folder.path("digit.png")});
  ASSERT_EQ(found.exit_code, 0) << found.errors;
  EXPECT_EQ(found.json().front().at("logits").size(), 10u);

  // The command itself does not know it.
  const CommandResult other = run_command({"classify", "--arch", "two_convolutions", "--weights",
                                           folder.path("whole") + "/weights.safetensors", folder.path("digit.png")});
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_NE(other.errors.find("two_convolutions"), std::string::npos);
}

TEST(OwnNetwork, StandsBesideTheOthers) {
  const CommandResult help = own({"train", "--help"});
  EXPECT_NE(help.output.find("two_convolutions"), std::string::npos);
  EXPECT_NE(help.output.find("lenet"), std::string::npos);
  const CommandResult wrong = own({"train", "--data", "digits", "--arch", "two_convolution"});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_NE(wrong.errors.find("did you mean two_convolutions"), std::string::npos) << wrong.errors;
}

#endif

models::ImageClassifier row(const std::string& name) {
  return {.name = name,
          .classifier = "fc.weight",
          .recipe = {.optimizer = "adam", .lr = 1e-3, .schedule = "constant"},
          .build = [](const models::ImageClassifierConfig&) { return std::unique_ptr<nn::Layer>(); }};
}

TEST(OwnNetwork, RefusesHalfARowAndNamesThatAreTaken) {
  EXPECT_NO_THROW(cli::Architectures({row("mine")}));
  EXPECT_EQ(cli::Architectures({row("mine")}).chosen("mine").name, "mine");
  EXPECT_THROW(cli::Architectures({row("")}), ValueError);
  EXPECT_THROW(cli::Architectures({row("lenet")}), ValueError);
  EXPECT_THROW(cli::Architectures({row("resnet20")}), ValueError);  // a short name
  EXPECT_THROW(cli::Architectures({row("mine"), row("mine")}), ValueError);
  for (const auto& spoil : std::vector<std::function<void(models::ImageClassifier&)>>{
           [](auto& r) { r.build = nullptr; }, [](auto& r) { r.classifier.clear(); },
           [](auto& r) { r.recipe.optimizer = "lbfgs"; }, [](auto& r) { r.recipe.lr = 0; }}) {
    models::ImageClassifier half = row("mine");
    spoil(half);
    EXPECT_THROW(cli::Architectures({half}), ValueError);
  }
}

}  // namespace
}  // namespace lockstep::test

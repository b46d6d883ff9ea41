// Exit codes, help, info, inspect and demo.
#include <gtest/gtest.h>

#include <lockstep/io.h>
#include <lockstep/ops.h>

#include "cli/run_command.h"
#include "support/data.h"

namespace lockstep::test {
namespace {

TEST(Command, WrongUsageExitsWithTwoAndSaysWhy) {
  const std::vector<std::vector<std::string>> wrong{
      {},
      {"unheard"},
      {"classify"},
      {"info", "--unheard"},
      {"classify", "--arch", "resnet19", "--weights", "w", "i.png"},
      {"classify", "--arch", "resnet18", "--weights", "w", "--top", "0", "i"},
      {"replay", "--device", "abacus", "case"}};
  for (const std::vector<std::string>& arguments : wrong) {
    const CommandResult result = run_command(arguments);
    EXPECT_EQ(result.exit_code, 2) << testing::PrintToString(arguments);
    EXPECT_NE(result.errors, "") << testing::PrintToString(arguments);
    EXPECT_EQ(result.output, "") << testing::PrintToString(arguments);
  }
}

TEST(Command, HelpShowsExamples) {
  for (const char* name : {"info", "classify", "inspect", "replay", "check", "demo", "train"}) {
    const CommandResult result = run_command({name, "--help"});
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_NE(result.output.find(std::string("lockstep ") + name), std::string::npos) << result.output;
    EXPECT_NE(result.output.find("--json"), std::string::npos) << result.output;
  }
  EXPECT_EQ(run_command({"--version"}).exit_code, 0);
}

TEST(Command, AFullDiskIsAnError) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "needs /dev/full";
  const int status = std::system((quoted(LOCKSTEP_CLI) + " info >/dev/full 2>/dev/null").c_str());
  EXPECT_EQ(WEXITSTATUS(status), 1);
}

TEST(Command, OutputThatIsNoTerminalHasNoEscapes) {
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{{"info"}, {"demo", "--pictures-only"}}) {
    const CommandResult result = run_command(arguments);
    EXPECT_EQ(result.output.find('\x1b'), std::string::npos);
    EXPECT_EQ(result.errors, "");
  }
}

TEST(Readme, ShowsTheExampleThatIsBuilt) {
  const std::string root = LOCKSTEP_SOURCE_DIR;
  const std::string example = read_whole_file(root + "/examples/ten_lines.cpp");
  EXPECT_NE(read_whole_file(root + "/README.md").find("```cpp\n" + example + "```"), std::string::npos);
}

// --- info -----------------------------------------------------------------------------------------------------------

TEST(Info, NamesDevicesAndWhyOthersAreMissing) {
  const nlohmann::json info = run_command({"info", "--json"}, {"LOCKSTEP_NUM_THREADS=3"}).json().at(0);
  EXPECT_EQ(info.at("threads"), 3);
  EXPECT_EQ(info.at("devices").at(0).at("device"), "ref");
  EXPECT_EQ(info.at("devices").at(1).at("device"), "cpu");
  for (const nlohmann::json& missing : info.at("unavailable")) {
    EXPECT_NE(missing.at("reason"), "");
    EXPECT_NE(missing.at("fix"), "");
  }
  const std::string text = run_command({"info"}).output;
  for (const char* part : {"Lockstep", "ref", "cpu"}) EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(Info, ObeysTheInstructionSetThatIsAskedFor) {
  const nlohmann::json info = run_command({"info", "--json"}, {"LOCKSTEP_CPU_ISA=scalar"}).json().at(0);
  EXPECT_EQ(info.at("cpu").at("isa"), "scalar");
  const CommandResult wrong = run_command({"info"}, {"LOCKSTEP_CPU_ISA=abacus"});
  EXPECT_EQ(wrong.exit_code, 1);
  EXPECT_NE(wrong.errors.find("abacus"), std::string::npos) << wrong.errors;
}

// --- inspect --------------------------------------------------------------------------------------------------------

TEST(Inspect, ListsTensors) {
  const CommandResult result = run_command({"inspect", "--json", asset("weights.safetensors")});
  const nlohmann::json listing = result.json().at(0);
  EXPECT_EQ(listing.at("format"), "safetensors");
  EXPECT_EQ(listing.at("metadata").at("format"), "pt");
  bool found = false;
  for (const nlohmann::json& tensor : listing.at("tensors")) {
    if (tensor.at("name") != "conv1.weight") continue;
    found = true;
    EXPECT_EQ(tensor.at("dtype"), "f16");
    EXPECT_EQ(tensor.at("shape"), (std::vector<int>{16, 3, 3, 3}));
    EXPECT_EQ(tensor.at("bytes"), 864);
  }
  EXPECT_TRUE(found);
  EXPECT_NE(run_command({"inspect", asset("weights.safetensors")}).output.find("layer3.0.bn2.running_var"),
            std::string::npos);
}

TEST(Inspect, KnowsImagesRecordsAndPickles) {
  const nlohmann::json image = run_command({"inspect", "--json", asset("images/star.png")}).json().at(0);
  EXPECT_EQ(image.at("width"), 32);
  const TemporaryFolder folder;
  const std::string records = folder.write("two.bin", std::string(2 * 3073, '\3'));
  const nlohmann::json listing = run_command({"inspect", "--json", records}).json().at(0);
  EXPECT_EQ(listing.at("records"), 2);
  EXPECT_EQ(listing.at("per_class").at(3), 2);
}

// Models are called pytorch_model.bin, too: the name counts only where the content says nothing.
TEST(Inspect, GoesByContentAndKeepsTypes) {
  const TemporaryFolder folder;
  const std::string model = folder.path("pytorch_model.bin");
  io::save_pytorch(model, {{"w", ones({2, 3})}});
  const nlohmann::json listing = run_command({"inspect", "--json", model}).json().at(0);
  EXPECT_EQ(listing.at("format"), "PyTorch zip");
  EXPECT_EQ(listing.at("tensors").at(0).at("shape"), (std::vector<int>{2, 3}));

  const std::string nested = std::string(LOCKSTEP_SOURCE_DIR) + "/tests/data/pickles/nested.pt";
  const nlohmann::json metadata = run_command({"inspect", "--json", nested}).json().at(0).at("metadata");
  EXPECT_EQ(metadata.at("epoch"), 3);
  EXPECT_EQ(metadata.at("best"), 0.875);
  EXPECT_EQ(metadata.at("done"), false);
  EXPECT_EQ(metadata.at("none"), "None");
  EXPECT_EQ(metadata.at("huge"), 1099511627776);
  EXPECT_NE(run_command({"inspect", nested}).output.find("epoch = 3\n"), std::string::npos);
}

TEST(Inspect, NamesWhatItDoesNotRead) {
  const TemporaryFolder folder;
  const CommandResult result = run_command({"inspect", folder.write("model.gif", "GIF89a")});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.errors.find("this is a GIF image: not supported"), std::string::npos) << result.errors;
}

TEST(Inspect, RefusesWhatItDoesNotKnow) {
  const TemporaryFolder folder;
  const std::string text = folder.write("note.txt", "no tensors in here");
  EXPECT_EQ(run_command({"inspect", text}).exit_code, 1);
  EXPECT_EQ(run_command({"inspect", folder.path("absent")}).exit_code, 1);
}

TEST(Inspect, ANameCannotCommandTheTerminal) {
  const TemporaryFolder folder;
  const std::string path = folder.path("hostile.safetensors");
  io::save_safetensors(path, {{"a\x1b[2Jb", ones({1})}}, {{"key", "\x1b]0;title\x07"}});
  const CommandResult result = run_command({"inspect", path});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.output.find('\x1b'), std::string::npos);
  EXPECT_EQ(run_command({"inspect", "--json", path}).json().at(0).at("tensors").at(0).at("name"), "a\x1b[2Jb");
}

// --- demo -----------------------------------------------------------------------------------------------------------

TEST(Demo, EveryDeviceIsRightAndEqual) {
  const CommandResult result = run_command({"demo", "--pictures-only", "--json"});
  EXPECT_EQ(result.exit_code, 0);
  const std::vector<nlohmann::json> lines = result.json();
  ASSERT_EQ(lines.size(), 3u);
  for (int device = 0; device < 2; ++device) {
    EXPECT_EQ(lines[device].at("correct"), 12);
    EXPECT_EQ(lines[device].at("logits_hash"), lines[0].at("logits_hash"));
    EXPECT_EQ(lines[device].at("kernels"), lines[0].at("kernels"));
    EXPECT_EQ(lines[device].at("bytes_moved"), lines[0].at("bytes_moved"));
  }
  EXPECT_EQ(lines[2].at("equal"), true);
  const CommandResult text = run_command({"demo", "--pictures-only"});
  EXPECT_NE(text.output.find(lines[0].at("logits_hash").get<std::string>()), std::string::npos) << text.output;
}

TEST(Demo, AMissingFolderIsExplained) {
  const CommandResult result = run_command({"demo"}, {"LOCKSTEP_ASSETS=/nonexistent"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.errors.find("LOCKSTEP_ASSETS"), std::string::npos) << result.errors;
}

}  // namespace
}  // namespace lockstep::test

// Exit codes, help, info, inspect and demo.
#include <gtest/gtest.h>

#include <lockstep/io.h>
#include <lockstep/ops.h>

#include "cli/run_command.h"
#include "io/builders.h"
#include "support/data.h"
#include "support/peak_memory.h"

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

TEST(Command, MistakesAreNamed) {
  struct Mistake {
    std::vector<std::string> arguments;
    const char* says;
  };
  const std::vector<Mistake> table{
      {{}, "which command?\n  commands: info, classify, "},
      {{"trian"}, "there is no command \"trian\"; did you mean train?"},
      {{"trian", "--data", "digits"}, "did you mean train?"},
      {{"abacus"}, "there is no command \"abacus\"\n"},
      {{"--unheard", "info"}, "there is no option --unheard before a command"},
      {{"train", "--unheard"}, "train: there is no option --unheard\n"},
      {{"train", "--epoch", "3"}, "there is no option --epoch; did you mean --epochs?"},
      {{"train", "--epoch=3", "--arch", "mlp"}, "there is no option --epoch; did you mean --epochs?"},
      {{"train"}, "train: --data and --arch are missing"},
      {{"train", "--data", "digits"}, "train: --arch is missing"},
      {{"inspect"}, "inspect: FILE is missing"},
      {{"inspect", "a", "b"}, "\"b\" is one word too many"},
      {{"train", "--data", "digits", "--arch", "mlp", "--lr", "abc"}, "train: --lr: \"abc\" is no number"},
      {{"train", "--data", "digits", "--arch", "mlp", "--lr", "-1"}, "--lr: -1 is not greater than 0"},
      {{"train", "--data", "digits", "--arch", "mlp", "--lr", "nan"}, "--lr: \"nan\" is no number"},
      {{"train", "--data", "digits", "--arch", "mlp", "--lr", "1e999"}, "--lr: \"1e999\" is no number"},
      {{"train", "--data", "digits", "--arch", "mlp", "--epochs", "0"}, "--epochs: 0 is not from 1 to 1000000"},
      {{"train", "--data", "digits", "--arch", "mlp", "--epochs", "1.5"}, "--epochs: \"1.5\" is no whole number"},
      {{"train", "--data", "digits", "--arch", "mlp", "--seed", "-1"}, "--seed: -1 is out of range"},
      {{"train", "--data", "digits", "--arch", "mlp", "--optimizer", "adan"}, "is none of sgd, adam, adamw; did you mean adam?"},
      {{"train", "--data", "digits", "--arch", "resnet19"}, "--arch: \"resnet19\" is no network; did you mean resnet18?"},
      {{"classify", "--arch", "resnet19", "--weights", "w", "i.png"}, "did you mean resnet18?"},
  };
  for (const Mistake& mistake : table) {
    const CommandResult result = run_command(mistake.arguments);
    EXPECT_EQ(result.exit_code, 2) << testing::PrintToString(mistake.arguments);
    EXPECT_TRUE(result.errors.starts_with("lockstep: ")) << result.errors;
    EXPECT_NE(result.errors.find(mistake.says), std::string::npos) << result.errors;
    EXPECT_LT(result.errors.size(), 400u) << result.errors;
    EXPECT_EQ(result.output, "");
  }
}

TEST(Command, TrainAndClassifyNameTheSameNetworks) {
  const auto networks = [](const char* command) {
    const std::string help = run_command({command, "--help"}).output;
    const std::size_t start = help.find("The network: ");
    std::string words;
    for (const char c : help.substr(start, help.find("--", start) - start)) {
      if (c != '\n' && c != ' ') words += c;
    }
    return words.substr(0, words.rfind("mlp") + 3);
  };
  EXPECT_GT(networks("train").size(), 100u);
  EXPECT_EQ(networks("train"), networks("classify"));
  EXPECT_EQ(run_command({"classify", "--arch", "resnet20", "--weights", "/nonexistent", "x"}).exit_code, 1) << "known";
}

TEST(Command, ShowsNoPlacesInItsOwnSources) {
  const TemporaryFolder folder;
  const CommandResult result =
      run_command({"train", "--data", "digits", "--arch", "mlp", "--limit", "320", "--batch-size", "32", "--optimizer",
                   "sgd", "--schedule", "constant", "--lr", "1e30", "--out", folder.path("run")});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.errors.find("the loss of step"), std::string::npos) << result.errors;
  EXPECT_EQ(result.errors.find(".cpp:"), std::string::npos) << result.errors;
}

TEST(Command, SaysWhyAFolderCannotBeMade) {
  const TemporaryFolder folder;
  const std::string file = folder.write("file", "");
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"train", "--data", "digits", "--arch", "mlp", "--out", file + "/run"}, {"demo", "--out", file + "/run"}}) {
    const CommandResult result = run_command(arguments);
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_NE(result.errors.find("/run: cannot create the folder: Not a directory"), std::string::npos) << result.errors;
  }
}

TEST(Command, NamesTheFileThatMemoryRunsOutFor) {
  if (peak_growth([] {}) == std::nullopt) GTEST_SKIP() << "sanitizers need the address space that this takes away";
  const TemporaryFolder folder;
  const std::string picture = folder.write("flat.jpg", flat_jpeg(8000, 1));
  const std::string errors = folder.path("errors");
  const int status = std::system(("ulimit -v 300000; " + quoted(LOCKSTEP_CLI) + " inspect " + quoted(picture) +
                                  " 2>" + quoted(errors) + " >/dev/null")
                                     .c_str());
  EXPECT_EQ(WEXITSTATUS(status), 1);
  EXPECT_EQ(read_whole_file(errors), "lockstep: " + picture + ": there is not enough memory to read it\n");
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

TEST(Inspect, GoesByTheNameWhereTheContentSaysNothing) {
  const TemporaryFolder folder;
  const CommandResult onnx = run_command({"inspect", folder.write("model.onnx", "\x12\x34 whatever this is")});
  EXPECT_NE(onnx.errors.find("by its name an ONNX model, but does not begin as one"), std::string::npos) << onnx.errors;
  const CommandResult gguf = run_command({"inspect", folder.write("model.gguf", "\x12\x34 whatever this is")});
  EXPECT_NE(gguf.errors.find("by its name a GGUF file"), std::string::npos) << gguf.errors;
  // Fields 1, 2, 7 and 8: the version, the producer, a graph, a set of operators.
  const std::string model("\x08\x08\x12\x07pytorch\x3a\x02\x0a\x00\x42\x02\x10\x11", 19);
  const CommandResult whole = run_command({"inspect", folder.write("model", model)});
  EXPECT_NE(whole.errors.find("a node names no operator"), std::string::npos) << whole.errors;
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

TEST(Inspect, ItsOwnNameCannotCommandTheTerminal) {
  const TemporaryFolder folder;
  const std::string path = folder.path("a\x9b" "31mred\xff.safetensors");
  io::save_safetensors(path, {{"a", ones({1})}});
  for (const std::string& file : {path, path + "\x9b"}) {
    const CommandResult result = run_command({"inspect", file});
    EXPECT_EQ((result.output + result.errors).find('\x9b'), std::string::npos);
    EXPECT_EQ((result.output + result.errors).find('\xff'), std::string::npos);
  }
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

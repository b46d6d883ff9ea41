// lockstep generate, tokenize and logits as a user runs them.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <lockstep/io/gguf.h>
#include <lockstep/io/numpy.h>
#include <lockstep/io/weights.h>
#include <lockstep/ops.h>

#include "cli/run_command.h"
#include "support/data.h"

namespace lockstep::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string stories() {
  return (test_data("tinyllm") / "stories260K-f32.gguf").string();
}

TEST(Logits, AreTheSameWithEveryCache) {
  LOCKSTEP_REQUIRE_DATA(stories());
  std::string hash;
  for (const std::string cache : {"none", "step", "chunk:3"}) {
    const CommandResult result =
        run_command({"logits", "--model", stories(), "--tokens", "1,403,407,261,378", "--cache", cache, "--json"});
    ASSERT_EQ(result.exit_code, 0) << result.errors;
    const auto object = result.json().at(0);
    EXPECT_EQ(object.at("shape"), (std::vector<int>{1, 5, 512}));
    EXPECT_EQ(object.at("kind"), "logits");
    if (hash.empty()) hash = object.at("hash").get<std::string>();
    EXPECT_EQ(object.at("hash"), hash) << cache;
  }
}

TEST(Logits, ReadsAndWritesNpyFiles) {
  LOCKSTEP_REQUIRE_DATA(stories());
  const TemporaryFolder folder;
  io::save_npy(folder.path("ids.npy"), Tensor::from(std::vector<std::int32_t>{1, 2, 3, 4, 5, 6}, {2, 3}));
  const CommandResult result = run_command({"logits", "--model", stories(), "--tokens-file", folder.path("ids.npy"),
                                            "--out", folder.path("out.npy"), "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  const Tensor logits = io::load_npy(folder.path("out.npy"));
  EXPECT_EQ(logits.shape(), (Shape{2, 3, 512}));
  EXPECT_EQ(logits.dtype(), DType::f32);
}

TEST(Logits, RefusesWrongUsage) {
  EXPECT_EQ(run_command({"logits", "--model", "x"}).exit_code, 2);
  EXPECT_EQ(run_command({"logits", "--model", "x", "--tokens", "1,a"}).exit_code, 2);
  EXPECT_EQ(run_command({"logits", "--model", "x", "--tokens", "1,"}).exit_code, 2);
  EXPECT_EQ(run_command({"logits", "--model", "x", "--tokens", "1", "--cache", "chunk:0"}).exit_code, 2);
  const CommandResult missing = run_command({"logits", "--model", "/no/such/model", "--tokens", "1"});
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_THAT(missing.errors, HasSubstr("/no/such/model"));
}

TEST(Logits, MoreTokensThanTheModelHasPositionsAreRefused) {
  LOCKSTEP_REQUIRE_DATA(stories());
  const TemporaryFolder folder;
  for (const std::string cache : {"none", "step", "chunk:100"}) {
    const auto run = [&](std::int64_t count) {
      io::save_npy(folder.path("ids.npy"), ones({1, count}, {.dtype = DType::i32}));
      return run_command({"logits", "--model", stories(), "--tokens-file", folder.path("ids.npy"), "--cache", cache});
    };
    const CommandResult result = run(513);
    EXPECT_EQ(result.exit_code, 1) << cache;
    EXPECT_THAT(result.errors, HasSubstr("513 tokens, but the model was made for 512 positions"));
    EXPECT_EQ(run(cache == "step" ? 2 : 512).exit_code, 0) << cache;
  }
}

TEST(Logits, AFolderWithoutAModelSaysWhatWasLookedFor) {
  const TemporaryFolder folder;
  const auto errors = [&] { return run_command({"logits", "--model", folder.path(""), "--tokens", "1"}).errors; };
  EXPECT_THAT(errors(), AllOf(HasSubstr("the folder has no config.json"), HasSubstr("looked for: config.json"),
                              HasSubstr("weights there: none"), HasSubstr("fix: ")));
  folder.write("other.gguf", "");
  EXPECT_THAT(errors(), HasSubstr("weights there: other.gguf"));
  folder.write("config.json", R"({"model_type": "llama"})");
  folder.write("pytorch_model-00001-of-00002.bin", "");
  EXPECT_THAT(errors(), AllOf(HasSubstr("has config.json, but no weights"), HasSubstr("model.safetensors.index.json"),
                              HasSubstr("pytorch_model-00001-of-00002.bin")));
  folder.write("model.safetensors", "");
  EXPECT_THAT(errors(), HasSubstr("config.json: vocab_size: is missing"));
  const CommandResult text = run_command({"generate", "--model", folder.path(""), "Hi"});
  EXPECT_THAT(text.errors, AllOf(HasSubstr("the folder has no tokenizer"),
                                 HasSubstr("looked for: tokenizer.json, tokenizer.model"), HasSubstr("fix: ")));
}

TEST(Generate, WritesWhatLlama2cWrites) {
  LOCKSTEP_REQUIRE_DATA(stories());
  const CommandResult result =
      run_command({"generate", "--model", stories(), "--max-tokens", "30", "Once upon a time", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  const auto object = result.json().at(0);
  EXPECT_THAT(object.at("text").get<std::string>(), testing::StartsWith(", there was a little girl named Lily."));
  EXPECT_EQ(object.at("tokens").size(), 30u);
  EXPECT_EQ(object.at("logprobs").size(), 30u);
  EXPECT_EQ(object.at("tokens_hash").get<std::string>().size(), 16u);
  const CommandResult shown = run_command({"generate", "--model", stories(), "--max-tokens", "30", "Once upon a time"});
  EXPECT_EQ(shown.output, object.at("text").get<std::string>() + "\n");
}

// Rounded when they are written, however the tokens come.
TEST(Generate, RemembersKeysInTheTypeThatIsAskedFor) {
  LOCKSTEP_REQUIRE_DATA(stories());
  const auto hash = [](const char* cache, const char* type) {
    const CommandResult result = run_command({"logits", "--model", stories(), "--tokens", "1,403,407,261,378",
                                              "--cache", cache, "--cache-type", type, "--json"});
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    return result.json().at(0).at("hash").get<std::string>();
  };
  for (const char* type : {"f16", "bf16"}) {
    EXPECT_EQ(hash("step", type), hash("chunk:3", type));
    EXPECT_NE(hash("step", type), hash("step", "f32"));
  }
  EXPECT_EQ(
      run_command({"generate", "--model", stories(), "--cache-type", "f16", "--max-tokens", "4", "Once"}).exit_code, 0);
  const CommandResult narrow = run_command({"generate", "--model", stories(), "--cache-type", "q8_0", "Once"});
  EXPECT_EQ(narrow.exit_code, 1);
  EXPECT_THAT(narrow.errors, HasSubstr("heads of 8 elements are no whole blocks of 32"));
  const CommandResult wrong = run_command({"generate", "--model", stories(), "--cache-type", "f64", "Once"});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_THAT(wrong.errors, HasSubstr("a cache is of f32, f16, bf16 or q8_0"));
  EXPECT_EQ(run_command({"logits", "--model", stories(), "--tokens", "1", "--cache-type", "f16"}).exit_code, 2);
  const CommandResult far = run_command({"generate", "--model", stories(), "--context", "9999", "Once"});
  EXPECT_EQ(far.exit_code, 1);
  EXPECT_THAT(far.errors, HasSubstr("a context of 9999 tokens is asked for, and the model was made for"));
}

// stories260K with a chat template, which it does not have.
std::string chat_stories(const TemporaryFolder& folder, const std::string& source) {
  io::Metadata metadata = io::list_tensors(stories()).metadata;
  metadata["tokenizer.chat_template"] = source;
  const std::string path = folder.path("chat.gguf");
  io::save_gguf(path, io::load_weights(stories()), metadata);
  return path;
}

constexpr const char* kStoryTemplate =
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'system' %}{{ m.content }} {% elif loop.last %}{{ m.content "
    "}}{% else %}"
    "{{ m.content ~ ' ' }}{% endif %}{% endfor %}";

TEST(Generate, WritesAMessageByTheTemplateOfTheModel) {
  LOCKSTEP_REQUIRE_DATA(stories());
  const TemporaryFolder folder;
  const std::string model = chat_stories(folder, kStoryTemplate);
  const auto text = [&](std::vector<std::string> more) {
    std::vector<std::string> words = {"generate", "--model", model, "--max-tokens", "12"};
    words.insert(words.end(), more.begin(), more.end());
    const CommandResult result = run_command(words);
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    return result.output;
  };
  EXPECT_EQ(text({"--chat", "Once upon a time"}), text({"Once upon a time"}));
  EXPECT_EQ(text({"--chat", "--system", "Once upon", "a time"}), text({"Once upon a time"}));
  const CommandResult none = run_command({"generate", "--model", stories(), "--chat", "hi"});
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_THAT(none.errors, HasSubstr("has no chat template"));
  EXPECT_EQ(run_command({"generate", "--model", model, "--system", "x", "hi"}).exit_code, 2);
}

TEST(Chat, AnswersLineByLine) {
  LOCKSTEP_REQUIRE_DATA(stories());
  const TemporaryFolder folder;
  const std::string model = chat_stories(
      folder, kStoryTemplate + std::string("{% if messages | length > 5 %}{{ raise_exception('enough') }}{% endif %}"));
  const auto talk = [&](const std::string& input, const std::string& more = "") {
    return run_command(
        {"-c", fmt::format("printf '{}' | '{}' chat --model '{}' --max-tokens 8 {}", input, LOCKSTEP_CLI, model, more)},
        {}, "/bin/sh");
  };
  const CommandResult one = talk("Once upon a time\\n");
  ASSERT_EQ(one.exit_code, 0) << one.errors;
  const CommandResult plain = run_command({"generate", "--model", model, "--max-tokens", "8", "Once upon a time"});
  EXPECT_EQ(one.output, plain.output);
  const std::string first = plain.output.substr(0, plain.output.size() - 1);

  // The second answer continues the conversation; /undo and /reset take it back.
  const std::string saved = folder.path("saved.json");
  const CommandResult more = talk("Once upon a time\\nAnd then\\n/undo\\n/save " + saved +
                                  "\\n/reset\\nOnce upon a time\\n/exit\\nnever read\\n");
  ASSERT_EQ(more.lines().size(), 3u) << more.output;
  EXPECT_EQ(more.lines()[0], first);
  EXPECT_EQ(more.lines()[2], first);
  const auto messages = nlohmann::json::parse(read_whole_file(saved));
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_EQ(messages[1].at("content"), first);
  const CommandResult second =
      run_command({"generate", "--model", model, "--max-tokens", "8", "Once upon a time " + first + " And then"});
  EXPECT_EQ(more.lines()[1] + "\n", second.output);
  EXPECT_EQ(talk("Once upon a time\\nAnd then\\n", "--ranks 2").output, first + "\n" + second.output);

  // A message that the template refuses is taken back, and the conversation goes on.
  const CommandResult refused = talk("a\\nb\\nc\\nd\\n");
  EXPECT_EQ(refused.exit_code, 0);
  EXPECT_THAT(refused.errors, HasSubstr("refuses the conversation: enough"));
  EXPECT_EQ(run_command({"chat"}).exit_code, 2);
}

TEST(Generate, RefusesAPromptThatLeavesNoRoom) {
  LOCKSTEP_REQUIRE_DATA(stories());
  const CommandResult result = run_command({"generate", "--model", stories(), std::string(2000, 'x')});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.output, "");
  EXPECT_THAT(result.errors, HasSubstr("a context of 512"));
}

// Before a model is looked for.
TEST(Generate, RefusesOptionsThatCannotBe) {
  LOCKSTEP_REQUIRE_DATA(stories());
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--temperature", "-1"}, "temperature is -1"},   {{"--top-p", "0"}, "top_p is 0"},
      {{"--mirostat", "3"}, "which mirostat needs"},    {{"--stop", ""}, "--stop"},
      {{"--logit-bias", "1=nan"}, "logit_bias is nan"}, {{"--seed", "1", "--seed", "2"}, "--seed is there twice"}};
  for (const auto& [words, message] : cases) {
    std::vector<std::string> line = {"generate", "--model", "/no/such/model", "--tokenizer", stories(), "Once"};
    line.insert(line.end(), words.begin(), words.end());
    const CommandResult result = run_command(line);
    EXPECT_EQ(result.exit_code, 2) << result.errors;
    EXPECT_THAT(result.errors, HasSubstr(message));
  }
}

// Values are copied and told by recursion.
TEST(Generate, RefusesASchemaThatNestsWithoutEnd) {
  LOCKSTEP_REQUIRE_DATA(stories());
  const TemporaryFolder folder;
  const std::string deep = "{\"const\":" + std::string(2'000'000, '[') + std::string(2'000'000, ']') + "}";
  const std::string schema = folder.write("deep.json", deep);
  const CommandResult result = run_command({"generate", "--model", stories(), "--json-schema", schema, "Once"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.errors, HasSubstr("deep.json: JSON schema: it nests too deep"));
}

TEST(Generate, StopsBeforeAStopText) {
  LOCKSTEP_REQUIRE_DATA(stories());
  const CommandResult result = run_command({"generate", "--model", stories(), "--stop", " girl", "Once upon a time"});
  EXPECT_EQ(result.output, ", there was a little\n");
}

TEST(Generate, DrawsTheSameWithTheSameSeed) {
  LOCKSTEP_REQUIRE_DATA(stories());
  const auto tokens = [](const std::string& seed) {
    const CommandResult result = run_command({"generate", "--model", stories(), "--temperature", "1", "--top-p", "0.9",
                                              "--seed", seed, "--max-tokens", "20", "One day", "--json"});
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    return result.json().at(0).at("tokens_hash").get<std::string>();
  };
  EXPECT_EQ(tokens("1"), tokens("1"));
  EXPECT_NE(tokens("1"), tokens("2"));
}

TEST(Tokenize, ThereAndBack) {
  LOCKSTEP_REQUIRE_DATA(stories());
  const CommandResult there = run_command({"tokenize", "--model", stories(), "Once upon a time", "--json"});
  ASSERT_EQ(there.exit_code, 0) << there.errors;
  EXPECT_EQ(there.json().at(0).at("tokens"), (std::vector<int>{1, 403, 407, 261, 378}));
  const CommandResult back = run_command({"tokenize", "--model", stories(), "--decode", "403,407,261,378"});
  EXPECT_EQ(back.output, "Once upon a time\n");
  EXPECT_EQ(run_command({"tokenize", "--model", stories()}).exit_code, 2);
}

TEST(Quantize, WritesAFileThatGeneratesAndInspects) {
  LOCKSTEP_REQUIRE_DATA(stories());
  const TemporaryFolder folder;
  const std::string out = folder.path("q8.gguf");
  const CommandResult result = run_command({"quantize", stories(), out, "--type", "Q8_0", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  const auto object = result.json().at(0);
  EXPECT_EQ(object.at("type"), "Q8_0");
  EXPECT_EQ(object.at("tensors").at(0).at("to"), "Q8_0");
  EXPECT_LT(object.at("bytes_after").get<int>() * 2, object.at("bytes_before").get<int>());
  const CommandResult text = run_command({"generate", "--model", out, "--max-tokens", "30", "Once upon a time"});
  EXPECT_THAT(text.output, testing::StartsWith(", there was a little girl named Lily.")) << text.errors;
  EXPECT_THAT(run_command({"quantize", stories(), out, "--type", "Q8_0"}).output, HasSubstr("packed as Q8_0"));
  EXPECT_EQ(run_command({"quantize", stories(), out, "--type", "IQ2_XXS"}).exit_code, 2);
  const CommandResult itself = run_command({"quantize", out, out, "--type", "Q8_0"});
  EXPECT_EQ(itself.exit_code, 2);
  EXPECT_THAT(itself.errors, HasSubstr("OUT is IN"));
  EXPECT_EQ(run_command({"quantize", stories(), out}).exit_code, 2);
  const CommandResult twice = run_command({"quantize", out, folder.path("q4.gguf"), "--type", "Q4_0"});
  EXPECT_EQ(twice.exit_code, 1);
  EXPECT_THAT(twice.errors, HasSubstr("packed already (Q8_0)"));
}

}  // namespace
}  // namespace lockstep::test

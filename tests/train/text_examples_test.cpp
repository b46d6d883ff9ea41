#include <lockstep/train/text_examples.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <lockstep/error.h>
#include <lockstep/ops.h>

#include "support/data.h"
#include "support/files.h"

namespace lockstep::train {
namespace {

using test::message_of;
using testing::HasSubstr;

std::string stories_model() {
  return (test::test_data("tinyllm") / "stories260K-f32.gguf").string();
}

constexpr const char* kMarkedTemplate =
    "{% for m in messages %}[{{ m.role }}]{{ m.content }}.{% endfor %}{% if add_generation_prompt %}[assistant]{% "
    "endif %}";

// The learned tokens of an example as text.
std::string learned(const TextExample& example, const text::Tokenizer& tokenizer) {
  std::string result;
  for (std::size_t i = 0; i < example.tokens.size(); ++i) {
    if (example.learned[i]) result += tokenizer.bytes(example.tokens[i]);
  }
  return result;
}

TEST(TextExamples, LearnTextsWholeAndOfTheRestTheAnswers) {
  LOCKSTEP_REQUIRE_DATA(stories_model());
  const auto tokenizer = text::Tokenizer::load(stories_model());
  const text::ChatTemplate chat(kMarkedTemplate);
  const test::TemporaryFolder folder;
  const std::string path = folder.write(
      "data.jsonl",
      "{\"text\":\"Once upon a time\"}\r\n\n"
      "{\"prompt\":\"Tom had\",\"completion\":\" a dog\"}\n"
      "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"},{\"role\":\"assistant\",\"content\":\"I see\"},"
      "{\"role\":\"user\",\"content\":\"And\"},{\"role\":\"assistant\",\"content\":\"Bye\"}]}\n"
      "{\"messages\":[{\"role\":\"user\",\"content\":\"nobody answers\"}]}");
  const TextExamples texts = read_text_examples(path, tokenizer, &chat);
  ASSERT_EQ(texts.examples.size(), 3U);
  EXPECT_EQ(texts.dropped, 1);
  EXPECT_EQ(texts.cut, 0);
  const std::int64_t end = *tokenizer.end_token();
  auto whole = tokenizer.encode("Once upon a time");
  whole.push_back(end);
  EXPECT_EQ(texts.examples[0].tokens, whole);
  auto both = tokenizer.encode("Tom had a dog");
  both.push_back(end);
  EXPECT_EQ(texts.examples[1].tokens, both);
  EXPECT_EQ(learned(texts.examples[1], tokenizer), " a dog");
  EXPECT_TRUE(texts.examples[1].learned.back());
  EXPECT_EQ(texts.examples[2].tokens,
            tokenizer.encode("[user]Hi.[assistant]I see.[user]And.[assistant]Bye.", {.add_special_tokens = false}));
  EXPECT_EQ(learned(texts.examples[2], tokenizer), "I see.Bye.");
}

TEST(TextExamples, CutsLongOnes) {
  LOCKSTEP_REQUIRE_DATA(stories_model());
  const auto tokenizer = text::Tokenizer::load(stories_model());
  const test::TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 20; ++i) text += "Once upon a time ";
  const std::string path =
      folder.write("data.jsonl", "{\"text\":\"" + text + "\"}\n{\"prompt\":\"Tom\",\"completion\":\"" + text +
                                     "\"}\n{\"prompt\":\"" + text + "\",\"completion\":\"x\"}\n");
  const TextExamples texts = read_text_examples(path, tokenizer, nullptr, {.context = 8});
  EXPECT_EQ(texts.cut, 1);
  EXPECT_EQ(texts.dropped, 1);
  // Every token but the first is foretold once.
  std::vector<std::int64_t> foretold;
  for (std::size_t i = 0; i + 1 < texts.examples.size(); ++i) {
    EXPECT_LE(texts.examples[i].tokens.size(), 9U);
    foretold.insert(foretold.end(), texts.examples[i].tokens.begin() + 1, texts.examples[i].tokens.end());
  }
  auto expected = tokenizer.encode(text);
  expected.push_back(*tokenizer.end_token());
  expected.erase(expected.begin());
  EXPECT_EQ(foretold, expected);
}

TEST(TextExamples, BatchesForetellTheNextToken) {
  const data::DatasetPtr data = text_dataset(
      {{{1, 2, 3}, {false, false, true}}, {std::vector<std::int64_t>(50, 7), std::vector<bool>(50, true)}});
  const std::vector<std::int64_t> one = {0};
  const data::Batch shorter = data->fetch({.indices = one});
  EXPECT_EQ(shorter.input.shape(), (Shape{1, 32}));
  EXPECT_EQ(shorter.input.narrow(1, 0, 3).to_vector<std::int64_t>(), (std::vector<std::int64_t>{1, 2, 0}));
  EXPECT_EQ(shorter.target.narrow(1, 0, 3).to_vector<std::int64_t>(), (std::vector<std::int64_t>{-100, 3, -100}));
  const std::vector<std::int64_t> both = {1, 0};
  EXPECT_EQ(data->fetch({.indices = both}).input.shape(), (Shape{2, 49}));
  const std::vector<std::int64_t> none = {2};
  EXPECT_THROW(data->fetch({.indices = none}), IndexError);
}

TEST(TextExamples, NameTheLineThatIsWrong) {
  LOCKSTEP_REQUIRE_DATA(stories_model());
  const auto tokenizer = text::Tokenizer::load(stories_model());
  const test::TemporaryFolder folder;
  const auto format_error = [&](const std::string& content) {
    const std::string path = folder.write("data.jsonl", content);
    return message_of<FormatError>([&] { read_text_examples(path, tokenizer, nullptr); });
  };
  EXPECT_THAT(format_error("{\"text\":\"a\"}\n{oops"), HasSubstr("data.jsonl:2"));
  EXPECT_THAT(format_error("[1]"), HasSubstr("data.jsonl:1: is no JSON object"));
  EXPECT_THAT(format_error("{\"txt\":\"a\"}"), HasSubstr("has neither"));
  EXPECT_THAT(format_error("{\"text\":3}"), HasSubstr("text"));
  EXPECT_THAT(format_error("{\"messages\":[]}"), HasSubstr("no chat template"));
  const std::string empty = folder.write("empty.jsonl", "\n");
  EXPECT_THAT(message_of<ValueError>([&] { read_text_examples(empty, tokenizer, nullptr); }),
              HasSubstr("nothing to learn"));
  // A template that drops what was said before.
  const text::ChatTemplate last("{% for m in messages %}{% if loop.last %}{{ m.content }}{% endif %}{% endfor %}");
  const std::string path =
      folder.write("data.jsonl",
                   "{\"messages\":[{\"role\":\"assistant\",\"content\":\"a\"},{\"role\":\"user\",\"content\":\"b\"}]}");
  EXPECT_THAT(message_of<ValueError>([&] { read_text_examples(path, tokenizer, &last); }),
              HasSubstr("otherwise once the conversation goes on"));
}

}  // namespace
}  // namespace lockstep::train

#include "text/end_tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/files.h"

namespace lockstep::text {
namespace {

using test::message_of;
using testing::HasSubstr;

using Ids = std::vector<std::int64_t>;

// Llama 3's, say: a text ends by one token, a turn by another. A vocabulary may also have the text of a tag.
constexpr const char* kTokenizer = R"({"model": {"type": "BPE", "vocab": {"a": 0, "</s>": 1}, "merges": []},
  "added_tokens": [{"id": 2, "content": "<|end_of_text|>", "special": true},
                   {"id": 3, "content": "<|eot_id|>", "special": true}, {"id": 4, "content": "<stop>", "special": true}]})";

TEST(EndTokens, AreThoseThatArePublishedAsSuch) {
  const Tokenizer tokenizer = Tokenizer::from_json(kTokenizer);
  EXPECT_EQ(tokenizer.end_token(), 3);
  EXPECT_EQ(tokenizer.end_tokens(), (Ids{3, 2}));
  EXPECT_EQ(Tokenizer::from_json(R"({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}})").end_tokens(), Ids());
  // A message within gpt-oss' answer ends by <|end|>.
  EXPECT_EQ(Tokenizer::from_json(R"({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}, "added_tokens": [
      {"id": 1, "content": "<|end|>", "special": true}, {"id": 2, "content": "<|return|>", "special": true}]})")
                .end_tokens(),
            Ids{2});
}

TEST(EndTokens, AreThoseThatAFolderNames) {
  const auto in_folder = [](const std::vector<std::pair<std::string, std::string>>& files) {
    const test::TemporaryFolder folder;
    folder.write("tokenizer.json", kTokenizer);
    for (const auto& [name, content] : files) folder.write(name, content);
    const Tokenizer tokenizer = Tokenizer::load(folder.path(""));
    EXPECT_EQ(tokenizer.end_token(), tokenizer.end_tokens().front());
    return tokenizer.end_tokens();
  };
  EXPECT_EQ(in_folder({}), (Ids{3, 2}));
  EXPECT_EQ(in_folder({{"config.json", "{}"}, {"tokenizer_config.json", "{}"}}), (Ids{3, 2}));
  EXPECT_EQ(in_folder({{"config.json", R"({"eos_token_id": 4})"}}), Ids{4});
  EXPECT_EQ(in_folder({{"config.json", R"({"eos_token_id": 99})"}}), (Ids{3, 2}));
  EXPECT_EQ(
      in_folder({{"config.json", R"({"eos_token_id": 2})"}, {"generation_config.json", R"({"eos_token_id": [4, 3]})"}}),
      (Ids{4, 3}));
  EXPECT_EQ(in_folder({{"tokenizer_config.json", R"({"eos_token": "<stop>"})"}}), Ids{4});
  EXPECT_EQ(in_folder({{"tokenizer_config.json", R"({"eos_token": {"content": "<|end_of_text|>"}})"},
                       {"generation_config.json", R"({"eos_token_id": [4, 2]})"}}),
            (Ids{2, 4}));
  EXPECT_THAT(message_of<FormatError>([&] {
                in_folder({{"generation_config.json", R"({"eos_token_id": "x"})"}});
              }),
              HasSubstr("generation_config.json: eos_token_id: is no number"));
  EXPECT_THAT(message_of<FormatError>([&] { in_folder({{"config.json", "[]"}}); }), HasSubstr("not an object"));
}

}  // namespace
}  // namespace lockstep::text

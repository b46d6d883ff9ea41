// Tokenizers of files that are no tokenizer.json: SentencePiece's, GGUF's, tiktoken's.
#include <algorithm>
#include <cmath>
#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <lockstep/error.h>
#include <lockstep/text/tokenizer.h>

#include "core/base64.h"
#include "core/os.h"
#include "support/data.h"
#include "support/files.h"

namespace lockstep::text {
namespace {

using nlohmann::json;
using test::message_of;
using testing::HasSubstr;

using Ids = std::vector<std::int64_t>;

json golden_of(const std::string& name) {
  return json::parse(test::read_whole_file(test::repository_data("vocabularies") / (name + ".json")));
}

std::string file_of(const json& golden) {
  return *bytes_of_base64(golden.at("file").get<std::string>());
}

Tokenizer tokenizer_of(const json& golden) {
  const std::string kind = golden.at("kind").get<std::string>();
  const std::string file = file_of(golden);
  if (kind == "model") return Tokenizer::from_sentencepiece(file);
  if (kind == "tiktoken") {
    std::vector<SpecialToken> special;
    for (const auto& [text, id] : golden.at("special").items()) special.push_back({text, id.get<std::int64_t>()});
    return Tokenizer::from_tiktoken(file, golden.at("pattern").get<std::string>(), special);
  }
  const test::TemporaryFolder folder;
  return Tokenizer::load(folder.write("x.gguf", file));
}

// The packages sentencepiece, tokenizers and tiktoken: tools/make_tokenizers.py.
TEST(VocabularyFiles, GiveTheTokensOfTheirPackages) {
  int compared = 0;
  for (const os::DirectoryEntry& entry : os::list_directory(test::repository_data("vocabularies").string())) {
    const std::string name = entry.name.substr(0, entry.name.find('.'));
    const json golden = golden_of(name);
    const Tokenizer tokenizer = tokenizer_of(golden);
    for (const json& item : golden.at("cases")) {
      const std::string text = item.at("text").get<std::string>();
      EXPECT_EQ(tokenizer.encode(text, {.add_special_tokens = false}), item.at("ids").get<Ids>())
          << name << ": " << item.at("text");
      // Null: with unknown tokens, which are special ones here.
      if (!item.at("decoded").is_null()) {
        EXPECT_EQ(tokenizer.decode(item.at("ids").get<Ids>()), item.at("decoded").get<std::string>()) << name;
      }
      ++compared;
    }
  }
  EXPECT_GE(compared, 500);
}

TEST(VocabularyFiles, PutTokensAroundTextsWhereTheySaySo) {
  const auto ends = [](const Ids& ids) { return std::pair{ids.front(), ids.back()}; };
  EXPECT_EQ(ends(tokenizer_of(golden_of("gguf_llama")).encode("fox")).first, 1);
  EXPECT_EQ(ends(tokenizer_of(golden_of("gguf_t5")).encode("fox")).second, 2);
  EXPECT_EQ(ends(tokenizer_of(golden_of("gguf_bert")).encode("fox")), (std::pair<std::int64_t, std::int64_t>(2, 3)));
  const json golden = golden_of("bpe_bytes");
  const Ids plain = tokenizer_of(golden).encode("the <s>fox");
  EXPECT_NE(std::find(plain.begin(), plain.end(), 1), plain.end());  // a control token within the text
  EXPECT_NE(plain.front(), 1);
  const auto in_folder = [&](const std::string& config) {
    const test::TemporaryFolder folder;
    folder.write("tokenizer.model", file_of(golden));
    if (!config.empty()) folder.write("tokenizer_config.json", config);
    return Tokenizer::load(folder.path("")).encode("the <s>fox");
  };
  Ids around = plain;
  EXPECT_EQ(in_folder(""), plain);
  EXPECT_EQ(in_folder(R"({"tokenizer_class": "BertTokenizer"})"), plain);
  around.insert(around.begin(), 1);
  EXPECT_EQ(in_folder(R"({"tokenizer_class": "LlamaTokenizerFast"})"), around);
  around.push_back(2);
  EXPECT_EQ(in_folder(R"({"tokenizer_class": "LlamaTokenizer", "add_eos_token": true})"), around);
  EXPECT_EQ(tokenizer_of(golden).end_token(), 2);
}

std::string field(int number, const std::string& content) {
  return std::string(1, static_cast<char>(number << 3 | 2)) + static_cast<char>(content.size()) + content;
}
std::string number_field(int number, int value) {
  return std::string(1, static_cast<char>(number << 3)) + static_cast<char>(value);
}
std::string score(float value) {
  std::string bytes(4, '\0');
  std::memcpy(bytes.data(), &value, 4);
  return '\x15' + bytes;
}

TEST(VocabularyFiles, RefuseHostileModels) {
  const auto piece = [](const std::string& text, int kind, float value = 0) {
    return field(1, field(1, text) + score(value) + number_field(3, kind));
  };
  const auto refusal = [](const std::string& bytes) {
    return message_of<FormatError>([&] { Tokenizer::from_sentencepiece(bytes).encode("a b"); });
  };
  const std::string good = piece("<unk>", 2) + piece("a", 1) + piece("b", 1, -1);
  EXPECT_EQ(refusal(good), "no error");
  EXPECT_THAT(refusal(""), HasSubstr("0 pieces, of which not exactly one is the unknown one"));
  EXPECT_THAT(refusal(good + piece("<u>", 2)), HasSubstr("not exactly one is the unknown one"));
  EXPECT_THAT(refusal(good + piece("a", 1)), HasSubstr("the piece \"a\" is there twice"));
  EXPECT_THAT(refusal(good + piece("c", 7)), HasSubstr("is of type 7"));
  EXPECT_THAT(refusal(good + piece("", 1)), HasSubstr("is a piece without a text"));
  EXPECT_THAT(refusal(good + piece("\xff", 1)), HasSubstr("not UTF-8"));
  EXPECT_THAT(refusal(good + piece("c", 1, NAN)), HasSubstr("a token's score is NaN"));
  EXPECT_THAT(refusal(good + field(2, number_field(3, 3))), HasSubstr("has the model type 3, which is not supported"));
  const auto with_table = [&](const std::string& table) { return refusal(good + field(3, field(2, table))); };
  EXPECT_THAT(with_table("abc"), HasSubstr("the table of replacements is too short"));
  EXPECT_THAT(with_table(std::string("\x08\0\0\0abcd", 8)), HasSubstr("a trie of 8 bytes cannot be a part"));
  EXPECT_THAT(with_table(std::string("\x04\0\0\0abcdx", 9)), HasSubstr("does not end with a zero"));
  EXPECT_THAT(with_table(std::string("\x04\0\0\0abcd\xff\0", 10)), HasSubstr("not UTF-8"));
  EXPECT_EQ(with_table(std::string("\x04\0\0\0\xff\xff\xff\xffx\0", 10)), "no error");
  EXPECT_THAT(refusal(good + field(5, field(2, "x"))), HasSubstr("replaces texts, which is not supported"));
  for (std::size_t size = 1; size < good.size(); ++size) {
    EXPECT_NO_FATAL_FAILURE(refusal(good.substr(0, size)));
  }
}

TEST(VocabularyFiles, RefuseHostileFilesOfTiktoken) {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) {
    bytes += base64_of(std::string(1, static_cast<char>(byte))) + " " + std::to_string(byte) + "\n";
  }
  const auto refusal = [](const std::string& text, const std::vector<SpecialToken>& special = {}) {
    return message_of<FormatError>([&] { Tokenizer::from_tiktoken(text, R"(\s+|\S+)", special); });
  };
  EXPECT_EQ(refusal(bytes, {{"<|end|>", 300}}), "no error");
  EXPECT_THAT(refusal("QQ== 0\n"), HasSubstr("there is no token for the byte 0x00"));
  EXPECT_THAT(refusal(bytes + "QQ== 256\n"), HasSubstr("the token \"A\" is there twice"));
  EXPECT_THAT(refusal(bytes + "QUE= 5\n"), HasSubstr("has the id 5, which is that of"));
  for (const char* line : {"QUE=", "QUE= x", "QUE= -1", "QUE 256", " 256", "QUE= 99999999999999999999"}) {
    EXPECT_THAT(refusal(bytes + line), HasSubstr("line 257 is no token in base64 and its rank")) << line;
  }
  EXPECT_THAT(refusal(bytes + "QUE= 9000000\n"), HasSubstr("has the id 9000000, but there are"));
  EXPECT_THAT(refusal(bytes, {{"", 300}}), HasSubstr("a special token is empty"));
  const test::TemporaryFolder folder;
  const std::string path = folder.write("mine.tiktoken", bytes);
  EXPECT_THAT(message_of<FormatError>([&] { Tokenizer::load(path); }), HasSubstr("does not say how texts are split"));
}

TEST(VocabularyFiles, SayWhatIsNoTokenizer) {
  const test::TemporaryFolder folder;
  const auto refusal = [&](const std::string& bytes) {
    return message_of<FormatError>([&] { Tokenizer::load(folder.write("model.gguf", bytes)); });
  };
  EXPECT_THAT(refusal(""), HasSubstr("is no tokenizer (tokenizer.json, a GGUF file, "));
  EXPECT_THAT(refusal(""), HasSubstr("it is empty"));
  EXPECT_THAT(refusal("GGU"), HasSubstr("it begins with the bytes 47 47 55"));
  EXPECT_THAT(refusal("\x89PNG\r\n\x1a\n"), HasSubstr("it is a PNG image"));
  EXPECT_THAT(refusal("\xef\xbb\xbf \n{"), HasSubstr("not valid JSON"));
}

}  // namespace
}  // namespace lockstep::text

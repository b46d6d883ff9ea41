#include <lockstep/text/tokenizer.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <lockstep/error.h>

#include "core/os.h"
#include "io/gguf_builder.h"
#include "support/data.h"
#include "support/files.h"

namespace lockstep::text {
namespace {

using nlohmann::json;
using test::message_of;
using testing::HasSubstr;

using Ids = std::vector<std::int64_t>;

json read_json(const std::filesystem::path& path) {
  return json::parse(test::read_whole_file(path));
}

// Tokenizers of every kind, and what the Python package tokenizers makes of texts in ten scripts.
TEST(Tokenizer, GivesTheTokensOfTokenizers) {
  const std::filesystem::path folder = test::repository_data("tokenizers");
  int compared = 0;
  for (const os::DirectoryEntry& entry : os::list_directory(folder.string())) {
    const json golden = read_json(folder / entry.name);
    const Tokenizer tokenizer = Tokenizer::from_json(golden.at("tokenizer").dump());
    for (const json& item : golden.at("cases")) {
      const std::string text = item.at("text").get<std::string>();
      const Ids ids = tokenizer.encode(text);
      EXPECT_EQ(ids, item.at("ids").get<Ids>()) << entry.name << ": " << item.at("text");
      EXPECT_EQ(tokenizer.encode(text, {.add_special_tokens = false}), item.at("plain").get<Ids>()) << entry.name;
      EXPECT_EQ(tokenizer.decode(item.at("ids").get<Ids>()), item.at("decoded").get<std::string>()) << entry.name;
      ++compared;
    }
  }
  EXPECT_GE(compared, 900);
}

// Joined, they are the decoded text, but for the space that some models put in front.
TEST(Tokenizer, TellsTheBytesOfEachToken) {
  for (const std::string name :
       {"gpt2", "llama3", "qwen2", "smollm", "sentence_piece", "unigram_bytes", "metaspace_first"}) {
    const json golden = read_json(test::repository_data("tokenizers") / (name + ".json"));
    const Tokenizer tokenizer = Tokenizer::from_json(golden.at("tokenizer").dump());
    for (const json& item : golden.at("cases")) {
      const Ids ids = item.at("plain").get<Ids>();
      std::string joined;
      for (const std::int64_t id : ids) joined += tokenizer.bytes(id);
      const std::string decoded = tokenizer.decode(ids, {.skip_special_tokens = true});
      EXPECT_TRUE(joined == decoded || joined == " " + decoded) << name << ": " << item.at("text") << "\n" << joined;
    }
    EXPECT_EQ(tokenizer.bytes(-1), "");
    EXPECT_EQ(tokenizer.bytes(tokenizer.size()), "");
  }
}

// The vocabulary of stories260K in its GGUF file; the cases are those of llama2.c.
TEST(Tokenizer, ReadsTheVocabularyOfGgufFiles) {
  const auto folder = test::test_data("tinyllm");
  LOCKSTEP_REQUIRE_DATA(folder);
  const Tokenizer tokenizer = Tokenizer::load((folder / "stories260K-f32.gguf").string());
  EXPECT_EQ(tokenizer.size(), 512);
  for (const json& item : read_json(folder / "tokenizer_cases.json")) {
    const std::string text = item.at("text").get<std::string>();
    const Ids ids = tokenizer.encode(text);
    EXPECT_EQ(ids, item.at("ids_with_bos").get<Ids>()) << text;
    EXPECT_EQ(tokenizer.decode(ids, {.skip_special_tokens = true}), text);
  }
}

// Files of llama.cpp name how a family splits texts; the tokens are those of the family's tokenizer.json.
TEST(Tokenizer, KnowsTheFamiliesOfGgufFiles) {
  const auto list = [](std::uint32_t type, std::size_t count, const std::string& elements) {
    return test::bytes_of(type) + test::bytes_of<std::uint64_t>(count) + elements;
  };
  const std::vector<std::pair<std::string, std::vector<std::string>>> families = {
      {"gpt2", {"gpt-2", "phi-2", "olmo", "modern-bert", "mpt", "exaone4"}},
      {"smollm", {"smollm", "starcoder", "refact", "command-r", "codeshell"}},
      {"llama3", {"llama-bpe", "falcon3", "lfm2", "llama3"}},
      {"gpt4o", {"gpt-4o", "llama4"}},
      {"tekken", {"tekken"}},
      {"deepseek_coder", {"deepseek-coder"}},
      {"deepseek3", {"deepseek-v3"}}};
  const test::TemporaryFolder folder;
  for (const auto& [name, pres] : families) {
    const json golden = read_json(test::repository_data("tokenizers") / (name + ".json"));
    const json& model = golden.at("tokenizer").at("model");
    std::vector<std::string> tokens(model.at("vocab").size());
    for (const auto& [token, id] : model.at("vocab").items()) tokens[id.get<std::size_t>()] = token;
    std::string texts;
    std::string types;
    for (const std::string& token : tokens) {
      texts += test::gguf_text(token);
      types += test::bytes_of<std::int32_t>(token.starts_with("<|") && token.ends_with("|>") ? 3 : 1);
    }
    std::string merges;
    for (const json& merge : model.at("merges")) {
      merges += test::gguf_text(merge[0].get<std::string>() + " " + merge[1].get<std::string>());
    }
    for (const std::string& pre : pres) {
      const std::string path = folder.write(
          "x.gguf",
          test::gguf_file({test::gguf_value("tokenizer.ggml.model", 8, test::gguf_text("gpt2")),
                           test::gguf_value("tokenizer.ggml.eos_token_id", 4, test::bytes_of<std::uint32_t>(7)),
                           test::gguf_value("tokenizer.ggml.eot_token_id", 4, test::bytes_of<std::uint32_t>(5)),
                           test::gguf_value("tokenizer.ggml.pre", 8, test::gguf_text(pre)),
                           test::gguf_value("tokenizer.ggml.tokens", 9, list(8, tokens.size(), texts)),
                           test::gguf_value("tokenizer.ggml.token_type", 9, list(5, tokens.size(), types)),
                           test::gguf_value("tokenizer.ggml.merges", 9, list(8, model.at("merges").size(), merges))}));
      const Tokenizer tokenizer = Tokenizer::load(path);
      EXPECT_EQ(tokenizer.end_token(), 7);
      EXPECT_THAT(tokenizer.end_tokens(), testing::IsSupersetOf({7, 5}));
      for (const json& item : golden.at("cases")) {
        EXPECT_EQ(tokenizer.encode(item.at("text").get<std::string>()), item.at("plain").get<Ids>())
            << pre << ": " << item.at("text");
      }
    }
  }
}

// Old files of Llama 3 do not say that texts begin with a token: their family does.
TEST(Tokenizer, FamiliesOfGgufFilesSayHowTextsBegin) {
  const auto texts = [](std::initializer_list<std::string> list) {
    std::string bytes = test::bytes_of<std::uint32_t>(8) + test::bytes_of<std::uint64_t>(list.size());
    for (const std::string& text : list) bytes += test::gguf_text(text);
    return bytes;
  };
  const test::TemporaryFolder folder;
  const auto tokens_of = [&](const std::string& pre, std::optional<char> begins) {
    std::vector<std::string> metadata = {
        test::gguf_value("tokenizer.ggml.model", 8, test::gguf_text("gpt2")),
        test::gguf_value("tokenizer.ggml.pre", 8, test::gguf_text(pre)),
        test::gguf_value("tokenizer.ggml.tokens", 9, texts({"<s>", "a", "b"})),
        test::gguf_value("tokenizer.ggml.bos_token_id", 4, test::bytes_of<std::uint32_t>(0)),
        test::gguf_value("tokenizer.ggml.merges", 9, texts({}))};
    if (begins) metadata.push_back(test::gguf_value("tokenizer.ggml.add_bos_token", 7, std::string(1, *begins)));
    return Tokenizer::load(folder.write("x.gguf", test::gguf_file(metadata))).encode("ab");
  };
  for (const char* pre : {"llama-bpe", "llama3", "tekken"}) {
    EXPECT_EQ(tokens_of(pre, std::nullopt), (Ids{0, 1, 2})) << pre;
    EXPECT_EQ(tokens_of(pre, char{0}), (Ids{1, 2})) << pre;
  }
  EXPECT_EQ(tokens_of("qwen35", std::nullopt), (Ids{1, 2}));
  EXPECT_EQ(tokens_of("gpt-2", char{1}), (Ids{0, 1, 2}));
  for (const char* pre : {"falcon", "gpt-2 phi-2", "", " "}) {
    EXPECT_THAT(message_of<FormatError>([&] { tokens_of(pre, std::nullopt); }),
                testing::AllOf(HasSubstr("is not supported"), HasSubstr("gpt-2"), HasSubstr("qwen35")))
        << pre;
  }
}

TEST(Tokenizer, RefusesTextThatIsNoUtf8AndIdsThatAreNoTokens) {
  const json golden = read_json(test::repository_data("tokenizers") / "gpt2.json");
  const Tokenizer tokenizer = Tokenizer::from_json(golden.at("tokenizer").dump());
  EXPECT_THROW(tokenizer.encode("a\xff"), ValueError);
  EXPECT_THROW(tokenizer.encode("\xed\xa0\x80"), ValueError);  // a surrogate
  EXPECT_THROW(tokenizer.decode({-1}), IndexError);
  EXPECT_THROW(tokenizer.decode({tokenizer.size()}), IndexError);
  EXPECT_EQ(tokenizer.find("<|endoftext|>"), 0);
  EXPECT_EQ(tokenizer.token(0), "<|endoftext|>");
  EXPECT_EQ(tokenizer.token(-1), std::nullopt);
}

TEST(Tokenizer, NamesWhatItDoesNotSupport) {
  const auto refusal = [](const char* path, const json& value) {
    json file = read_json(test::repository_data("tokenizers") / "gpt2.json").at("tokenizer");
    file[json::json_pointer(path)] = value;
    return message_of<FormatError>([&] { Tokenizer::from_json(file.dump()); });
  };
  EXPECT_EQ(refusal("/model/unk_token", nullptr), "no error");
  EXPECT_THAT(refusal("/normalizer", {{"type", "Magic"}}),
              HasSubstr("tokenizer.json: normalizer: type: the normalizer \"Magic\" is not supported"));
  EXPECT_THAT(refusal("/normalizer", {{"type", "Precompiled"}, {"precompiled_charsmap", "a"}}),
              HasSubstr("precompiled_charsmap: is no base64"));
  EXPECT_THAT(refusal("/normalizer", {{"type", "Precompiled"}, {"precompiled_charsmap", "CAAAAA=="}}),
              HasSubstr("a trie of 8 bytes cannot be a part"));
  EXPECT_THAT(refusal("/pre_tokenizer", {{"type", "UnicodeScripts"}}),
              HasSubstr("the pre-tokenizer \"UnicodeScripts\""));
  EXPECT_THAT(refusal("/decoder", {{"type", "CTC"}}), HasSubstr("the decoder \"CTC\" is not supported"));
  EXPECT_THAT(refusal("/model/type", "Magic"), HasSubstr("the model \"Magic\" is not supported"));
  EXPECT_THAT(refusal("/model/merges/0", "zz yy"), HasSubstr("merge 0 of \"zz\" and \"yy\": \"zz\" is no token"));
  EXPECT_THAT(refusal("/model/merges/0", 1), HasSubstr("merges: holds something else"));
  EXPECT_THAT(refusal("/model/vocab/!", -1), HasSubstr("token \"!\" has no id below"));
  EXPECT_THAT(refusal("/model/vocab/!", 16'000'000), HasSubstr("has the id 16000000, but there are"));
  EXPECT_THAT(refusal("/added_tokens/0/id", 5), HasSubstr("has the id 5, which is that of"));
  EXPECT_THAT(refusal("/model/continuing_subword_prefix", std::string(99, '#')),
              HasSubstr("is shorter than continuing_subword_prefix"));
}

TEST(Tokenizer, RefusesHostileGgufVocabularies) {
  const auto texts = [](const std::vector<std::string>& values) {
    std::string result = test::bytes_of<std::uint32_t>(8) + test::bytes_of<std::uint64_t>(values.size());
    for (const std::string& value : values) result += test::gguf_text(value);
    return result;
  };
  const auto refusal = [&](const std::vector<std::string>& values) {
    const test::TemporaryFolder folder;
    const std::string path = folder.write("x.gguf", test::gguf_file(values));
    return message_of<FormatError>([&] { Tokenizer::load(path); });
  };
  const std::string model = test::gguf_value("tokenizer.ggml.model", 8, test::gguf_text("llama"));
  const std::string tokens = test::gguf_value("tokenizer.ggml.tokens", 9, texts({"a", "b"}));
  const auto scores = [](std::vector<float> values) {
    std::string bytes = test::bytes_of<std::uint32_t>(6) + test::bytes_of<std::uint64_t>(values.size());
    for (const float value : values) bytes += test::bytes_of(value);
    return test::gguf_value("tokenizer.ggml.scores", 9, bytes);
  };
  const auto bos = test::gguf_value("tokenizer.ggml.bos_token_id", 4, test::bytes_of<std::uint32_t>(2));
  EXPECT_EQ(refusal({model, tokens, scores({0, 1})}), "no error");
  EXPECT_THAT(refusal({model}), HasSubstr("tokenizer.ggml.tokens: is missing"));
  EXPECT_THAT(refusal({model, tokens, scores({0})}), HasSubstr("has 1 entries for 2 tokens"));
  EXPECT_THAT(refusal({model, tokens, scores({0, NAN})}), HasSubstr("holds NaN"));
  EXPECT_THAT(refusal({model, tokens, scores({0, 1}), bos}),
              HasSubstr("tokenizer.ggml.bos_token_id: 2 is no token (of 2)"));
  EXPECT_THAT(refusal({test::gguf_value("tokenizer.ggml.model", 8, test::gguf_text("plamo2")), tokens}),
              HasSubstr("\"plamo2\" is not supported (llama, t5, gpt2, bert, rwkv)"));
  const std::string rwkv = test::gguf_value("tokenizer.ggml.model", 8, test::gguf_text("rwkv"));
  EXPECT_THAT(refusal({rwkv, tokens}), HasSubstr("there is no token for the byte 0x00"));
  for (const char* wrong : {"", "\\", "\\x4", "\\x4g", "\\u0041"}) {
    EXPECT_THAT(refusal({rwkv, test::gguf_value("tokenizer.ggml.tokens", 9, texts({wrong}))}),
                HasSubstr("is no string of bytes"))
        << wrong;
  }
  EXPECT_THAT(refusal({test::gguf_value("tokenizer.ggml.model", 8, test::gguf_text("bert")), tokens}),
              HasSubstr("tokenizer.ggml.unknown_token_id: is missing"));
  const std::string types = test::gguf_value(
      "tokenizer.ggml.token_type", 9,
      test::bytes_of<std::uint32_t>(5) + test::bytes_of<std::uint64_t>(2) + test::bytes_of<std::uint64_t>(7));
  EXPECT_THAT(refusal({model, tokens, scores({0, 1}), types}), HasSubstr("7 is no type of a token"));
}

}  // namespace
}  // namespace lockstep::text

// Two texts as one: what the package tokenizers makes of the pairs of tests/data/rerank (tools/make_rerank_goldens.py).
#include <algorithm>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include <lockstep/error.h>
#include <lockstep/text/tokenizer.h>

#include "support/data.h"
#include "support/files.h"

namespace lockstep::text {
namespace {

using nlohmann::json;
using test::message_of;
using testing::HasSubstr;
using Ids = std::vector<std::int64_t>;

std::string folder_of(const std::string& name) {
  return (test::repository_data("rerank") / name).string();
}

json json_of(const std::string& path) {
  std::ifstream file(path);
  return json::parse(file);
}

class Pairs : public testing::TestWithParam<std::string> {};

TEST_P(Pairs, AreThoseOfTokenizers) {
  const json golden = json_of(folder_of(GetParam()) + "/golden.json");
  const Tokenizer tokenizer = Tokenizer::load(folder_of(GetParam()));
  for (const json& one : golden.at("cases")) {
    const std::string query = one.at("query");
    const std::string document = one.at("document");
    const TokenPair whole = tokenizer.encode_pair(query, document);
    EXPECT_EQ(whole.ids, one.at("whole").get<Ids>());
    EXPECT_EQ(whole.types, one.at("whole_types").get<Ids>());
    const TokenPair cut = tokenizer.encode_pair(query, document, golden.at("most"));
    EXPECT_EQ(cut.ids, one.at("ids").get<Ids>());
    EXPECT_EQ(cut.types, one.at("types").get<Ids>());
  }
}

INSTANTIATE_TEST_SUITE_P(Of, Pairs,
                         testing::Values("bert", "distilbert", "modernbert", "qwen3", "roberta", "xlm_roberta"),
                         [](const auto& name) { return name.param; });

// The longer text loses its end until both have as many tokens, then both do.
TEST(Pair, TheLongerTextIsCutFirst) {
  const Tokenizer tokenizer = Tokenizer::load(folder_of("bert"));
  const std::int64_t separator = *tokenizer.find("[SEP]");
  const auto lengths = [&](const std::string& first, const std::string& second, std::int64_t most) {
    const TokenPair pair = tokenizer.encode_pair(first, second, most);
    EXPECT_EQ(static_cast<std::int64_t>(pair.ids.size()), most);
    const auto middle = std::find(pair.ids.begin(), pair.ids.end(), separator) - pair.ids.begin();
    return std::pair{middle - 1, static_cast<std::int64_t>(pair.ids.size()) - middle - 2};
  };
  using Lengths = std::pair<std::ptrdiff_t, std::int64_t>;
  const std::string three = "cats eat cats";
  const std::string six = "cats eat cats eat cats eat";
  EXPECT_EQ(lengths(three, six, 10), (Lengths{3, 4}));
  EXPECT_EQ(lengths(six, three, 10), (Lengths{4, 3}));
  EXPECT_EQ(lengths(three, six, 7), (Lengths{2, 2}));
  EXPECT_EQ(lengths(three, six, 8), (Lengths{2, 3}));
  EXPECT_EQ(lengths(six, three, 8), (Lengths{3, 2}));
  EXPECT_EQ(lengths(three, three, 8), (Lengths{2, 3}));
  EXPECT_EQ(lengths(three, six, 4), (Lengths{0, 1}));
  EXPECT_THAT(message_of<ValueError>([&] { tokenizer.encode_pair("a", "b", 3); }), HasSubstr("no room"));
}

TEST(Pair, OfBertProcessing) {
  json file = json_of(folder_of("bert") + "/tokenizer.json");
  const std::int64_t first = file["model"]["vocab"]["[CLS]"];
  const std::int64_t end = file["model"]["vocab"]["[SEP]"];
  file["post_processor"] = {{"type", "BertProcessing"}, {"cls", {"[CLS]", first}}, {"sep", {"[SEP]", end}}};
  const Tokenizer own = Tokenizer::from_json(file.dump());
  const Tokenizer other = Tokenizer::load(folder_of("bert"));
  EXPECT_EQ(own.encode_pair("cats eat", "fish").ids, other.encode_pair("cats eat", "fish").ids);
  EXPECT_EQ(own.encode_pair("cats eat", "fish").types, other.encode_pair("cats eat", "fish").types);
}

TEST(Pair, RefusesTemplatesThatMakeNoSense) {
  json file = json_of(folder_of("bert") + "/tokenizer.json");
  const auto message = [&] { return message_of<FormatError>([&] { Tokenizer::from_json(file.dump()); }); };
  file["post_processor"]["pair"].erase(1);
  EXPECT_THAT(message(), HasSubstr("pair: does not have each of two texts once"));
  file["post_processor"].erase("pair");
  EXPECT_EQ(message(), "no error");
  file["post_processor"]["special_tokens"]["[SEP]"]["ids"] = {100000};
  EXPECT_THAT(message(), HasSubstr("[SEP]: names no token"));
}

// What tokenizer.json says, GGUF files do.
TEST(Pair, OfGgufFiles) {
  for (const std::string name : {"roberta", "modernbert"}) {
    const Tokenizer own = Tokenizer::load(folder_of(name) + "/model.gguf");
    const Tokenizer other = Tokenizer::load(folder_of(name));
    EXPECT_EQ(own.encode_pair("what do cats eat", "Fish!").ids, other.encode_pair("what do cats eat", "Fish!").ids);
  }
}

}  // namespace
}  // namespace lockstep::text

#include "server/tools.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <lockstep/error.h>
#include <lockstep/text/grammar.h>

namespace lockstep::server {
namespace {

const ToolForm kHermes{"<tool_call>\n", "\n</tool_call>", "arguments"};
const ToolForm kBare{"", "", "parameters"};

Json two_tools() {
  return Json::parse(
      R"([{"type":"function","function":{"name":"add","parameters":{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}}},
                         {"type":"function","function":{"name":"stop"}}])");
}

text::Grammar grammar_for(const ToolChoice& choice, const ToolForm& form) {
  return text::Grammar::from_gbnf(tool_grammar(two_tools(), choice, form));
}

TEST(Tools, AGrammarOfCalls) {
  const std::string add = "<tool_call>\n{\"name\":\"add\",\"arguments\":{\"a\":3}}\n</tool_call>";
  const std::string stop = "<tool_call>\n{\"name\": \"stop\", \"arguments\": {}}\n</tool_call>";
  const text::Grammar required = grammar_for({.kind = ToolChoice::Kind::required}, kHermes);
  EXPECT_TRUE(required.matches(add));
  EXPECT_TRUE(required.matches(stop + "\n" + add));
  for (const std::string& bad :
       {std::string(), "Hi " + add, std::string("<tool_call>\n{\"name\":\"sub\",\"arguments\":{}}\n</tool_call>"),
        std::string("<tool_call>\n{\"name\":\"add\",\"arguments\":{}}\n</tool_call>")}) {
    EXPECT_FALSE(required.matches(bad)) << bad;
  }
  EXPECT_FALSE(
      grammar_for({.kind = ToolChoice::Kind::required, .parallel = false}, kHermes).matches(stop + "\n" + add));
  EXPECT_FALSE(grammar_for({.kind = ToolChoice::Kind::required, .name = "add"}, kHermes).matches(stop));
  // Free text may hold parts of the mark, but not the mark without a call.
  const text::Grammar automatic = grammar_for({.kind = ToolChoice::Kind::automatic}, kHermes);
  for (const std::string& good : {std::string(), std::string("Hi é!"), "Let me see.\n" + add,
                                  std::string("<tool_call> is <<tool_call"), "<<tool_" + add + "\n" + stop}) {
    EXPECT_TRUE(automatic.matches(good)) << good;
  }
  for (const std::string& bad : {std::string("<tool_call>\n"), std::string("x<tool_call>\ny"), add + "and so on"}) {
    EXPECT_FALSE(automatic.matches(bad)) << bad;
  }
  const text::Grammar bare = grammar_for({.kind = ToolChoice::Kind::automatic}, kBare);
  for (const char* good : {"", "Hi", "{\"name\":\"add\",\"parameters\":{\"a\":1}}"})
    EXPECT_TRUE(bare.matches(good)) << good;
  for (const char* bad : {"{", "{\"name\":\"add\"}", "{}"}) EXPECT_FALSE(bare.matches(bad)) << bad;
}

TEST(Tools, CallsOfAnAnswer) {
  const ToolAnswer answer = tool_answer(
      "Well.\n<tool_call>\n{\"name\":\"add\",\"arguments\":{\"a\":3}}\n</"
      "tool_call>\n<tool_call>\n{\"name\":\"stop\",\"arguments\":{}}\n</tool_call>",
      kHermes, "7");
  EXPECT_EQ(answer.content, "Well.");
  ASSERT_EQ(answer.calls.size(), 2u);
  EXPECT_EQ(answer.calls[0].dump(),
            R"({"id":"call_7_0","type":"function","function":{"name":"add","arguments":"{\"a\":3}"}})");
  EXPECT_EQ(answer.calls[1]["function"]["arguments"], "{}");
  EXPECT_EQ(tool_answer("Hi {\"a\"", kBare, "7").content, "Hi {\"a\"");
  EXPECT_EQ(tool_answer("{\"name\":\"stop\",\"parameters\":{}}", kBare, "7").calls.size(), 1u);
  const std::string cut = "Hi <tool_call>\n{\"name\":\"add\",";
  EXPECT_EQ(tool_answer(cut, kHermes, "7").content, cut);
  EXPECT_TRUE(tool_answer(cut, kHermes, "7").calls.empty());
}

TEST(Tools, FormsOfTemplates) {
  const text::ChatTemplate hermes(
      "{% for m in messages %}{% for c in m.tool_calls or [] %}<tool_call>\n{\"name\": \"{{ c.function.name }}\", "
      "\"arguments\": "
      "{{ c.function.arguments | tojson }}}\n</tool_call>{% endfor %}{% endfor %}");
  EXPECT_EQ(tool_form(hermes).arguments, "arguments");
  const text::ChatTemplate llama(
      "{% for m in messages %}{% for c in m.tool_calls or [] %}{\"name\": \"{{ c.function.name }}\", \"parameters\": "
      "{{ c.function.arguments | tojson }}}{% endfor %}{% endfor %}");
  EXPECT_EQ(tool_form(llama).arguments, "parameters");
  EXPECT_THROW(tool_form(text::ChatTemplate("{{ messages[0].content }}")), HttpError);
  EXPECT_THROW(tool_form(text::ChatTemplate("{{ raise_exception('no') }}")), HttpError);
}

TEST(Tools, SaysWhatIsWrong) {
  const ToolChoice choice{.kind = ToolChoice::Kind::required};
  EXPECT_THROW(tool_grammar(Json::array(), choice, kHermes), HttpError);
  EXPECT_THROW(tool_grammar(Json::object(), choice, kHermes), HttpError);
  EXPECT_THROW(tool_grammar(Json::parse(R"([{"type":"function"}])"), choice, kHermes), HttpError);
  EXPECT_THROW(tool_grammar(Json::parse(R"([{"type":"web_search"}])"), choice, kHermes), HttpError);
  const Json pattern =
      Json::parse(R"([{"type":"function","function":{"name":"f","parameters":{"type":"string","pattern":"(a)\\1"}}}])");
  EXPECT_THROW(tool_grammar(pattern, choice, kHermes), FormatError);
}

}  // namespace
}  // namespace lockstep::server

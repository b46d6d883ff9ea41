#include "server/tools.h"

#include <algorithm>
#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <lockstep/error.h>
#include <lockstep/models/constraint.h>
#include <lockstep/text/grammar.h>

#include "server/marks.h"
#include "support/data.h"
#include "support/files.h"
#include "support/http_client.h"
#include "support/marked_tokenizer.h"
#include "support/served_stories.h"

namespace lockstep::server {
namespace {

using nlohmann::json;
using test::events_of;
using test::HttpAnswer;
using test::stories;
using test::Told;
using testing::HasSubstr;

const ToolForm kHermes{"<tool_call>\n", "\n</tool_call>\n<tool_call>\n", "\n</tool_call>", "arguments"};
const ToolForm kBare{"", "", "", "parameters"};

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
  const Answer answer = tool_answer(
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

// A template as the vendors write it, of one call; an answer with two, and what becomes of it.
struct Vendor {
  const char* name;
  const char* call;  ///< of c
  std::vector<std::string> special;
  const char* answer;
};

const std::vector<Vendor>& vendors() {
  static const std::vector<Vendor> result = {
      {"Mistral Nemo",
       R"([TOOL_CALLS][{{ (c.function | tojson)[:-1] }}, "id": "{{ c.id }}"}])",
       {"[TOOL_CALLS]"},
       R"(Well.[TOOL_CALLS][{"name": "add", "arguments": {"a": 3}, "id": "abcdefgh1"}, {"name": "stop", "arguments": {}}])"},
      {"Mistral 7B",
       R"([TOOL_CALLS] [{{ (c.function | tojson)[:-1] }}, "id": "{{ c.id }}"}])",
       {"[TOOL_CALLS]"},
       R"(Well.[TOOL_CALLS] [{"name": "add", "arguments": {"a": 3}, "id": "abcdefgh1"}, {"name": "stop", "arguments": {}}])"},
      {"Devstral",
       "[TOOL_CALLS]{{ c.function.name }}[ARGS]{{ c.function.arguments | tojson }}",
       {"[TOOL_CALLS]", "[ARGS]"},
       R"(Well.[TOOL_CALLS]add[ARGS]{"a": 3}[TOOL_CALLS]stop[ARGS]{})"},
      {"Mistral Small 3.2",
       "[TOOL_CALLS]{{ c.function.name }}[CALL_ID]{{ c.id }}[ARGS]{{ c.function.arguments | tojson }}",
       {"[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"},
       R"(Well.[TOOL_CALLS]add[CALL_ID]abcdefgh1[ARGS]{"a": 3}[TOOL_CALLS]stop[ARGS]{})"},
      {"DeepSeek V3.1",
       "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>{{ c.function.name }}<｜tool▁sep｜>{{ c.function.arguments | tojson "
       "}}"
       "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
       {"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>",
        "<｜tool▁calls▁end｜>"},
       R"(Well.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>add<｜tool▁sep｜>{"a": 3}<｜tool▁call▁end｜>)"
       R"(<｜tool▁call▁begin｜>stop<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>)"},
      {"Gemma 4",
       "<|tool_call>call:{{ c.function.name }}{{ '{' }}{% for k, v in c.function.arguments | dictsort %}{{ k }}:{{ v }}"
       "{% endfor %}{{ '}' }}<tool_call|>",
       {"<|tool_call>", "<tool_call|>"},
       "Well.<|tool_call>call:add{a:3}<tool_call|><|tool_call>call:stop{}<tool_call|>"},
      {"DeepSeek R1",  // whose arguments must be a text, and its content null
       "{% if m.content is none %}<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>{{ c.type + '<｜tool▁sep｜>' + "
       "c.function.name + '\n```json\n' + c.function.arguments + '\n```<｜tool▁call▁end｜>' }}{% endif %}",
       {"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>",
        "<｜tool▁calls▁end｜>"},
       "Well.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>add\n```json\n{\"a\": "
       "3}\n```<｜tool▁call▁end｜>\n"
       "<｜tool▁call▁begin｜>function<｜tool▁sep｜>stop\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>"},
  };
  return result;
}

text::ChatTemplate template_of(const Vendor& vendor) {
  return text::ChatTemplate(std::string("{% for m in messages %}{% for c in m.tool_calls or [] %}") + vendor.call +
                            "{% endfor %}{% endfor %}");
}

void expect_two_calls(const Answer& answer, const std::string& text) {
  EXPECT_EQ(answer.content, "Well.") << text;
  ASSERT_EQ(answer.calls.size(), 2u) << text;
  EXPECT_EQ(text_of(answer.calls[0]["function"]), R"({"name":"add","arguments":"{\"a\":3}"})");
  EXPECT_EQ(text_of(answer.calls[1]["function"]), R"({"name":"stop","arguments":"{}"})");
}

// Marks that are no special tokens (as many GGUF files have them) are texts.
TEST(Tools, FormsOfVendorsAsTexts) {
  for (const Vendor& vendor : vendors()) {
    SCOPED_TRACE(vendor.name);
    const ToolForm form = tool_form(template_of(vendor));
    const std::string answer = vendor.answer;
    const text::Grammar grammar = grammar_for({.kind = ToolChoice::Kind::automatic}, form);
    EXPECT_TRUE(grammar.matches(answer));
    EXPECT_TRUE(grammar.matches("Well."));
    EXPECT_FALSE(grammar.matches(answer + "and so on"));
    EXPECT_FALSE(grammar.matches(answer.substr(0, answer.size() - 1)));
    EXPECT_TRUE(grammar_for({.kind = ToolChoice::Kind::required}, form).matches(answer.substr(5)));
    EXPECT_FALSE(grammar_for({.kind = ToolChoice::Kind::required}, form).matches(answer));
    EXPECT_FALSE(grammar_for({.kind = ToolChoice::Kind::automatic, .parallel = false}, form).matches(answer));
    expect_two_calls(tool_answer(answer, form, "7"), answer);
    const std::string cut = answer.substr(0, answer.find("stop"));
    EXPECT_EQ(tool_answer(cut, form, "7").content, cut);
  }
}

// The grammar reads special tokens, and no text that looks like them; what was cut off shows none.
TEST(Tools, FormsOfVendorsAsSpecialTokens) {
  for (const Vendor& vendor : vendors()) {
    SCOPED_TRACE(vendor.name);
    const text::Tokenizer tokenizer = test::marked_tokenizer(vendor.special);
    const ToolForm form = with_marks(tool_form(template_of(vendor)), tokenizer);
    EXPECT_EQ(form.marks.size(), vendor.special.size());
    std::string text;
    const auto constraint =
        models::constrain(grammar_for({.kind = ToolChoice::Kind::automatic}, form), text::TokenTexts(tokenizer), {});
    for (const std::int64_t token : tokenizer.encode(vendor.answer)) {
      EXPECT_NO_THROW(constraint->accept(token));
      text += form.marks.contains(token) ? mark_of(token) : tokenizer.bytes(token);
      EXPECT_EQ(tool_answer(text, form, "7").content.find(kMarkBegin), std::string::npos) << text;
    }
    expect_two_calls(tool_answer(text, form, "7"), text);
    const std::string looks = "[TOOL_CALLS] is a name";
    EXPECT_TRUE(grammar_for({.kind = ToolChoice::Kind::automatic}, form).matches(looks));
    EXPECT_EQ(tool_answer(looks, form, "7").content, looks);
  }
}

// Texts between special tokens, whatever is in them; members in the order of their names.
TEST(Tools, ArgumentsOfGemma) {
  const text::Tokenizer tokenizer = test::marked_tokenizer({"<|tool_call>", "<tool_call|>", "<|\"|>"});
  const auto gemma = std::find_if(vendors().begin(), vendors().end(),
                                  [](const Vendor& vendor) { return vendor.name == std::string("Gemma 4"); });
  const ToolForm form = with_marks(tool_form(template_of(*gemma)), tokenizer);
  const Json tools =
      Json::parse(R"([{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{
      "text":{"type":"string","maxLength":12},"Kind":{"enum":["cat","dog",3,true,null,["a",{"b":1}]]},
      "list":{"type":"array","items":{"type":"number"}},"more":{"type":"object","properties":{"on":{"type":"boolean"}}},
      "any":{}},"required":["text"]}}}])");
  const text::Grammar grammar =
      text::Grammar::from_gbnf(tool_grammar(tools, {.kind = ToolChoice::Kind::required}, form));
  const auto allowed = [&](const std::string& arguments, std::string* marked = nullptr) {
    const auto constraint = models::constrain(grammar, text::TokenTexts(tokenizer), {});
    try {
      for (const std::int64_t token : tokenizer.encode("<|tool_call>call:f{" + arguments + "}<tool_call|>")) {
        constraint->accept(token);
        if (marked) *marked += form.marks.contains(token) ? mark_of(token) : tokenizer.bytes(token);
      }
    } catch (const ValueError&) {
      return false;
    }
    return true;
  };
  std::string text;
  ASSERT_TRUE(
      allowed("any:{x:[<|\"|>,<|\"|>,null]},Kind:[<|\"|>a<|\"|>,{b:1}],list:[1,-2.5e3],more:{on:true},"
              "text:<|\"|>a\"}, {<\\<|\"|>",
              &text));
  const Answer answer = tool_answer(text, form, "7");
  ASSERT_EQ(answer.calls.size(), 1u);
  EXPECT_EQ(
      answer.calls[0]["function"]["arguments"],
      R"({"any":{"x":[",",null]},"Kind":["a",{"b":1}],"list":[1,-2500.0],"more":{"on":true},"text":"a\"}, {<\\"})");
  for (const char* good : {"text:<|\"|><|\"|>", "Kind:3,text:<|\"|>a<|\"|>", "any:[],text:<|\"|>a<|\"|>"}) {
    EXPECT_TRUE(allowed(good)) << good;
  }
  for (const char* bad :
       {"", "text:\"a\"", "text: <|\"|>a<|\"|>", "text:<|\"|>a<|\"|>,Kind:3", "Kind:4,text:<|\"|><|\"|>",
        "text:<|\"|>0123456789abc<|\"|>", "list:[1,],text:<|\"|><|\"|>"}) {
    EXPECT_FALSE(allowed(bad)) << bad;
  }
  // What is not whole is no call.
  for (std::size_t size = 0; size < text.size(); ++size) {
    EXPECT_TRUE(tool_answer(text.substr(0, size), form, "7").calls.empty());
  }
  for (const char* refused : {R"({"type":"object","properties":{"a:b":{}}})",
                              R"({"type":"object","properties":{"a":{"type":"string","pattern":"a+"}}})"}) {
    Json other = tools;
    other[0]["function"]["parameters"] = Json::parse(refused);
    EXPECT_THROW(tool_grammar(other, {.kind = ToolChoice::Kind::required}, form), FormatError);
  }
}

TEST(Tools, IdsAreThoseOfTheAnswerWhereItHasSome) {
  for (const Vendor& vendor : vendors()) {
    const ToolForm form = tool_form(template_of(vendor));
    const Json calls = tool_answer(vendor.answer, form, "7").calls;
    const bool told = std::string(vendor.answer).find("abcdefgh1") != std::string::npos;
    if (told) {
      EXPECT_EQ(calls[0]["id"], "abcdefgh1");
    }
    EXPECT_EQ(calls[1]["id"].get<std::string>().size(), form.short_ids ? 9u : std::string("call_7_1").size());
    EXPECT_NE(calls[0]["id"], calls[1]["id"]);
  }
}

TEST(Tools, TemplatesGetCallsAsTheyTakeThem) {
  const Vendor& deepseek = vendors().back();
  const text::ChatTemplate chat = template_of(deepseek);
  const Json messages = Json::parse(
      R"([{"role":"assistant","content":"","tool_calls":[{"type":"function","function":{"name":"add","arguments":{"a":3}}}]}])");
  const std::string text = chat.apply_json(text_of(Json{{"messages", messages_of(messages, tool_form(chat))}}));
  EXPECT_THAT(text, testing::HasSubstr("add\n```json\n{\"a\":3}\n```"));
}

// Of the file that tools/make_chat_template_goldens.py writes.
TEST(Tools, FormsOfPublishedTemplates) {
  const char* const path = std::getenv("LOCKSTEP_CHAT_TEMPLATES");
  if (path == nullptr) GTEST_SKIP() << "LOCKSTEP_CHAT_TEMPLATES names no file of tools/make_chat_template_goldens.py";
  const std::vector<std::pair<std::string, std::string>> expected = {
      {"Mistral-Nemo-Instruct-2407", "[TOOL_CALLS]["},
      {"Devstral-Small-2507", "[TOOL_CALLS]"},
      {"Ministral-3-14B-Reasoning-2512", "[TOOL_CALLS]"},
      {"Mistral-Small-3.2-24B-Instruct-2506", "[TOOL_CALLS]"},
      {"DeepSeek-V3.1", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>"},
      {"DeepSeek-R1-Distill-Llama-8B", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>"},
      {"DeepSeek-R1-Distill-Qwen-32B", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>"},
      {"llama-cpp-deepseek-r1", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>"},
      {"gemma-4-31B-it", "<|tool_call>call:"},
      {"Qwen2.5-7B-Instruct", "<tool_call>\n"},
      {"Hermes-3-Llama-3.1-8B-tool_use", "<tool_call>\n"},
      {"meta-llama-Llama-3.1-8B-Instruct", ""},
  };
  const Json golden = Json::parse(test::read_whole_file(path));
  for (const auto& [name, open] : expected) {
    bool found = false;
    for (const Json& entry : golden.at("templates")) {
      if (entry.at("name").get<std::string>().find(name) == std::string::npos) continue;
      found = true;
      const text::ChatTemplate chat(entry.at("source").get<std::string>(), text_of(entry.at("variables")));
      try {
        EXPECT_EQ(tool_form(chat).open, open) << name;
      } catch (const HttpError& error) {
        ADD_FAILURE() << name << ": " << error.what();
      }
    }
    EXPECT_TRUE(found) << name;
  }
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

// A template that writes calls as Qwen's does.
constexpr const char* kToolTemplate =
    "{% for t in tools or [] %}{{ t | tojson }}\n{% endfor %}{% for m in messages %}{{ m.content }}{% for c in "
    "m.tool_calls or [] %}"
    "<tool_call>\n{\"name\": {{ c.function.name | tojson }}, \"arguments\": {{ c.function.arguments | tojson "
    "}}}\n</tool_call>"
    "{% endfor %}{% endfor %}";

TEST(LanguageService, CallsFunctions) {
  LOCKSTEP_REQUIRE_DATA(stories());
  LanguageService service({.model = models::load_language_model(stories()),
                           .tokenizer = text::Tokenizer::load(stories()),
                           .chat = text::ChatTemplate(kToolTemplate),
                           .name = "stories",
                           .fingerprint = "fp_test",
                           .device = {}});
  HttpServer http({.port = 0});
  service.add_to(http);
  const int port = test::port_of(http.start());
  const json tools =
      json::parse(R"([{"type":"function","function":{"name":"find","parameters":{"$defs":{"k":{"enum":["cat","dog"]}},
      "type":"object","properties":{"kind":{"$ref":"#/$defs/k"},"count":{"type":"integer"}},"required":["kind"]}}},
      {"type":"function","function":{"name":"stop"}}])");
  json body = {{"messages", {{{"role", "user"}, {"content", "Tom had a"}}}}, {"tools", tools}, {"max_tokens", 150}};
  const auto ask = [&](const json& asked) {
    const HttpAnswer answer = request(port, "POST", "/v1/chat/completions", asked.dump());
    EXPECT_EQ(answer.status, 200) << answer.body;
    return answer.json().at("choices").at(0);
  };
  for (const json& choice : {json("required"), json::parse(R"({"type":"function","function":{"name":"find"}})")}) {
    body["tool_choice"] = choice;
    body["parallel_tool_calls"] = false;
    for (int seed = 0; seed < 3; ++seed) {
      body["seed"] = seed;
      const json answer = ask(body);
      EXPECT_EQ(answer.at("finish_reason"), "tool_calls") << answer;
      const json& call = answer.at("message").at("tool_calls").at(0);
      const json arguments = json::parse(call.at("function").at("arguments").get<std::string>());
      if (call.at("function").at("name") == "find") {
        EXPECT_TRUE(arguments.at("kind") == "cat" || arguments.at("kind") == "dog") << call;
      } else {
        EXPECT_EQ(call.at("function").at("name"), "stop");
        EXPECT_TRUE(choice.is_string() && arguments.empty());
      }
      // Streamed, it is the same call.
      body["stream"] = true;
      const HttpAnswer streamed = request(port, "POST", "/v1/chat/completions", body.dump());
      body.erase("stream");
      json delta;
      for (const json& event : events_of(streamed.body)) {
        if (event.at("choices").at(0).at("delta").contains("tool_calls")) delta = event.at("choices").at(0).at("delta");
      }
      EXPECT_EQ(delta.at("tool_calls").at(0).at("function"), call.at("function"));
      EXPECT_EQ(delta.at("tool_calls").at(0).at("index"), 0);
    }
  }
  // Left to itself, this model tells stories; a call in the conversation and its result are read by the template.
  body["tool_choice"] = "auto";
  body["messages"].push_back(json::parse(
      R"({"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"find","arguments":"{\"kind\":\"cat\"}"}}]})"));
  body["messages"].push_back({{"role", "tool"}, {"tool_call_id", "1"}, {"content", "a cat. They"}});
  body["max_tokens"] = 20;
  const json story = ask(body);
  EXPECT_EQ(story.at("finish_reason"), "length");
  EXPECT_FALSE(story.at("message").at("content").get<std::string>().empty());
  body["tool_choice"] = json::parse(R"({"type":"function","function":{"name":"lose"}})");
  EXPECT_THAT(request(port, "POST", "/v1/chat/completions", body.dump()).body, HasSubstr("there is no tool"));
  body["response_format"] = {{"type", "json_object"}};
  EXPECT_THAT(request(port, "POST", "/v1/chat/completions", body.dump()).body, HasSubstr("cannot be had together"));
  body.erase("tools");
  EXPECT_THAT(request(port, "POST", "/v1/chat/completions", body.dump()).body, HasSubstr("needs tools"));
}

// A mark that is a special token is read, and shown to nobody.
TEST(LanguageService, CallsFunctionsByMarksThatAreSpecialTokens) {
  LOCKSTEP_REQUIRE_DATA(stories());
  const Told told({.model = models::load_language_model(stories()),
                   .tokenizer = test::marked_tokenizer({"[TOOL_CALLS]", "[ARGS]"}),
                   .chat = text::ChatTemplate("{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}"
                                              "[TOOL_CALLS]{{ c.function.name }}[ARGS]{{ c.function.arguments | tojson "
                                              "}}{% endfor %}{% endfor %}"),
                   .name = "stories",
                   .fingerprint = "fp_test",
                   .device = {}});
  const json tools = json::parse(
      R"([{"type":"function","function":{"name":"find","parameters":{"type":"object","properties":{"kind":{"enum":["cat","dog"]}},"required":["kind"]}}}])");
  json body = {{"messages", {{{"role", "user"}, {"content", "Tom had a"}}}},
               {"tools", tools},
               {"parallel_tool_calls", false},
               {"max_tokens", 60}};
  const auto expect_call = [&](const json& message) {
    ASSERT_TRUE(message.contains("tool_calls")) << message;
    const json& call = message.at("tool_calls").at(0);
    EXPECT_EQ(call.at("function").at("name"), "find");
    EXPECT_THAT(json::parse(call.at("function").at("arguments").get<std::string>()).at("kind"),
                testing::AnyOf(json("cat"), json("dog")));
    EXPECT_EQ(call.at("id").get<std::string>().size(), 9u);
  };
  // Left to itself it draws other tokens; a bias has it begin a call.
  for (const char* choice : {"required", "auto"}) {
    body["tool_choice"] = choice;
    if (choice == std::string("auto")) body["logit_bias"] = {{std::to_string(test::kFirstMark), 100}};
    const json answer = told.post("/v1/chat/completions", body).json().at("choices").at(0);
    EXPECT_EQ(answer.at("finish_reason"), "tool_calls") << answer;
    EXPECT_TRUE(answer.at("message").at("content").is_null()) << answer;
    expect_call(answer.at("message"));
    body["stream"] = true;
    const HttpAnswer streamed = told.post("/v1/chat/completions", body);
    body.erase("stream");
    json delta;
    for (const json& event : events_of(streamed.body)) {
      if (event.at("choices").at(0).at("delta").contains("tool_calls")) delta = event.at("choices").at(0).at("delta");
    }
    expect_call(delta);
    EXPECT_EQ(delta.at("tool_calls").at(0).at("function"), answer.at("message").at("tool_calls").at(0).at("function"));
  }
  // Cut off within the call, and without tools: no mark is seen.
  body["max_tokens"] = 3;
  const json cut = told.post("/v1/chat/completions", body).json().at("choices").at(0);
  EXPECT_EQ(cut.at("finish_reason"), "length");
  EXPECT_EQ(cut.at("message").at("content"), "fi");
  body["tool_choice"] = "none";
  body["max_tokens"] = 2;
  EXPECT_EQ(told.post("/v1/chat/completions", body).json().at("choices").at(0).at("message").at("content"), "");
}

}  // namespace
}  // namespace lockstep::server

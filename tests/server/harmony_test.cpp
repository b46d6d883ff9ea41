// The answers of gpt-oss: channels, calls, and conversations as its template takes them.
#include "server/harmony.h"

#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <lockstep/models/constraint.h>

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
using test::stories;
using test::Told;
using testing::HasSubstr;

// In the form of the published one, without what it says of itself, the date and the tools' types.
constexpr const char* kHarmony =
    "{% for t in tools or [] %}{{ '<|start|>developer<|message|>' + t.function.description + '<|end|>' }}{% endfor %}"
    "{% for m in messages %}{% if m.tool_calls %}{% if m.content and m.thinking %}{{ raise_exception('both') }}{% "
    "endif "
    "%}{% if m.thinking %}{{ '<|start|>assistant<|channel|>analysis<|message|>' + m.thinking + '<|end|>' }}{% endif %}"
    "{{ '<|start|>assistant to=functions.' + m.tool_calls[0].function.name + '<|channel|>commentary json<|message|>' + "
    "m.tool_calls[0].function.arguments | tojson + '<|call|>' }}{% elif m.role == 'tool' %}{{ "
    "'<|start|>functions to=assistant<|channel|>commentary<|message|>' + m.content + '<|end|>' }}{% else %}{{ "
    "'<|start|>' "
    "+ m.role + '<|message|>' + m.content + '<|end|>' }}{% endif %}{% endfor %}{{ '<|start|>assistant' }}";

const text::Tokenizer& tokenizer() {
  static const text::Tokenizer result = test::marked_tokenizer(
      {"<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|constrain|>", "<|call|>", "<|return|>"});
  return result;
}

HarmonyForm form() {
  return harmony_form(text::ChatTemplate(kHarmony), tokenizer()).value();
}

std::string marked(const std::string& text) {
  std::set<std::int64_t> marks;
  return with_marks(text, tokenizer(), marks);
}

Answer read(const std::string& text, bool calls = true, bool apart = true, bool whole = true) {
  return harmony_answer(marked(text), form(), "7", calls, apart, whole);
}

Json add_and_stop() {
  return Json::parse(
      R"([{"type":"function","function":{"name":"add","parameters":{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}}},
          {"type":"function","function":{"name":"stop"}}])");
}

constexpr const char* kThought = "<|channel|>analysis<|message|>Let me <see>.<|end|><|start|>assistant";
constexpr const char* kCall = R"(<|channel|>commentary to=functions.add <|constrain|>json<|message|>{"a": 3})";

TEST(Harmony, IsKnownByTheTemplateAndTheTokenizer) {
  EXPECT_EQ(form().marks.size(), 5u);
  EXPECT_FALSE(harmony_form(text::ChatTemplate("{{ messages[0].content }}"), tokenizer()));
  EXPECT_FALSE(harmony_form(text::ChatTemplate("{{ raise_exception('no') }}"), tokenizer()));
  EXPECT_FALSE(harmony_form(text::ChatTemplate(kHarmony), test::marked_tokenizer({"<|start|>"})));
}

TEST(Harmony, ChannelsAreThoughtsContentAndCalls) {
  const std::string thought = kThought;
  const Answer said = read(thought + "<|channel|>final<|message|>2 < 3");
  EXPECT_EQ(said.reasoning, "Let me <see>.");
  EXPECT_EQ(said.content, "2 < 3");
  EXPECT_TRUE(said.calls.empty());
  const Answer twice =
      read(thought + thought + "<|channel|>commentary<|message|>I add.<|end|><|start|>assistant" + kCall);
  EXPECT_EQ(twice.reasoning, "Let me <see>.\nLet me <see>.");
  EXPECT_EQ(twice.content, "I add.");
  ASSERT_EQ(twice.calls.size(), 1u);
  EXPECT_EQ(text_of(twice.calls[0]),
            R"({"id":"call_7_0","type":"function","function":{"name":"add","arguments":"{\"a\":3}"}})");
  // Whom a call is to may stand before the channel, as in the template; the kind may be left out.
  for (const char* head :
       {" to=functions.add<|channel|>commentary json<|message|>", " to=functions.add<|channel|>analysis<|message|>",
        "<|channel|>commentary<|channel|>commentary to=functions.add<|message|>"}) {
    const Answer answer = read(thought + head + R"({"a":3})");
    ASSERT_EQ(answer.calls.size(), 1u) << head;
    EXPECT_EQ(answer.calls[0], twice.calls[0]) << head;
  }
  // A channel that is said twice.
  EXPECT_EQ(read("<|channel|>commentary to=assistant<|channel|>final<|message|>Hi").content, "Hi");
}

TEST(Harmony, WhatIsNoCallIsNotLost) {
  const std::string call = kCall;
  EXPECT_EQ(read(call.substr(0, call.size() - 2)).content, "{\"a\": ");
  EXPECT_EQ(read(call, false).reasoning, "{\"a\": 3}");
  EXPECT_EQ(read("<|channel|>analysis to=python<|message|>1 + 1").reasoning, "1 + 1");
  EXPECT_EQ(read("No format<|start|> at all").content, "No format at all");
  const std::string head = std::string(kThought) + "<|channel|>fin";
  EXPECT_EQ(read(head).content, "");
  EXPECT_EQ(read(head).reasoning, "Let me <see>.");
}

TEST(Harmony, ThoughtsThatAreNotApartStandInTheContent) {
  const Answer answer = read(std::string(kThought) + "<|channel|>final<|message|>Hi", true, false);
  EXPECT_EQ(answer.content, "<|channel|>analysis<|message|>Let me <see>.<|end|>\nHi");
  EXPECT_EQ(answer.reasoning, "");
}

// What is told of the beginning of an answer stays.
TEST(Harmony, PartsGrowAtTheirEnds) {
  const std::string thought = kThought;
  for (const bool apart : {true, false}) {
    for (const std::string& last :
         {std::string("<|channel|>final<|message|>Hi"), std::string(kCall), std::string(kCall).substr(0, 70)}) {
      const std::string text =
          thought + thought + "<|channel|>commentary<|message|>I add.<|end|><|start|>assistant" + last;
      const Answer whole = read(text, true, apart);
      std::string begun;
      for (const std::int64_t token : tokenizer().encode(text, {.add_special_tokens = false})) {
        begun += form().marks.contains(token) ? mark_of(token) : tokenizer().bytes(token);
        const Answer answer = harmony_answer(begun, form(), "7", true, apart, false);
        EXPECT_TRUE(whole.reasoning.starts_with(answer.reasoning)) << begun;
        EXPECT_TRUE(whole.content.starts_with(answer.content)) << begun;
        EXPECT_TRUE(answer.calls.empty()) << begun;
        EXPECT_EQ(answer.reasoning.find(kMarkBegin) + answer.content.find(kMarkBegin), 2 * std::string::npos) << begun;
      }
    }
  }
}

bool held(const text::Grammar& grammar, const std::string& text) {
  const auto constraint = models::constrain(grammar, text::TokenTexts(tokenizer()), tokenizer().end_tokens());
  std::vector<float> logits(static_cast<std::size_t>(tokenizer().size()), 0.0f);
  try {
    for (const std::int64_t token : tokenizer().encode(text, {.add_special_tokens = false})) constraint->accept(token);
    constraint->hide(logits);
  } catch (const ValueError&) {
    return false;
  }
  return logits[static_cast<std::size_t>(tokenizer().end_tokens().front())] == 0;
}

TEST(Harmony, AGrammarOfAnswersWithCalls) {
  const auto grammar_for = [](const ToolChoice& choice) {
    return text::Grammar::from_gbnf(harmony_grammar(add_and_stop(), choice, form()));
  };
  const text::Grammar automatic = grammar_for({.kind = ToolChoice::Kind::automatic});
  const text::Grammar required = grammar_for({.kind = ToolChoice::Kind::required});
  const text::Grammar named = grammar_for({.kind = ToolChoice::Kind::required, .name = "stop"});
  const std::string thought = kThought;
  for (const std::string& before : {std::string(), thought, thought + thought,
                                    thought + "<|channel|>commentary<|message|>I add.<|end|><|start|>assistant"}) {
    EXPECT_TRUE(held(automatic, before + "<|channel|>final<|message|>2 < 3"));
    EXPECT_FALSE(held(required, before + "<|channel|>final<|message|>2 < 3"));
    for (const std::string& call :
         {std::string(kCall), std::string(R"(<|channel|>commentary to=functions.stop<|message|>{})"),
          std::string(R"( to=functions.add<|channel|>commentary json<|message|>{"a":3})")}) {
      EXPECT_TRUE(held(automatic, before + call)) << call;
      EXPECT_TRUE(held(required, before + call)) << call;
      EXPECT_EQ(held(named, before + call), call.find("stop") != std::string::npos) << call;
    }
  }
  for (const char* bad :
       {"Hi", "<|channel|>final", "<|channel|>analysis<|message|>Hm",
        "<|channel|>commentary to=functions.sub<|message|>{}", "<|channel|>commentary to=functions.add<|message|>{}",
        "<|channel|>commentary to=functions.add<|message|>{\"a\":3} so"}) {
    EXPECT_FALSE(held(automatic, bad)) << bad;
  }
}

TEST(Harmony, TemplatesGetThoughtsAndCallsAsTheyTakeThem) {
  const text::ChatTemplate chat(kHarmony);
  const Json messages = Json::parse(R"([{"role":"user","content":"u"},
    {"role":"assistant","content":"I ask.","reasoning_content":"Hm","tool_calls":[
       {"id":"1","function":{"name":"add","arguments":{"a":3}}},{"id":"2","function":{"name":"stop","arguments":{}}}]},
    {"role":"tool","tool_call_id":"2","content":"two"},{"role":"tool","tool_call_id":"1","content":"one"},
    {"role":"assistant","content":"Done.","reasoning_content":"So"}])");
  const std::string text = chat.apply_json(
      text_of(Json{{"messages", harmony_messages(messages)}, {"tools", harmony_tools(add_and_stop())}}));
  EXPECT_EQ(text,
            "<|start|>developer<|message|><|end|><|start|>developer<|message|><|end|>"
            "<|start|>user<|message|>u<|end|><|start|>assistant<|channel|>analysis<|message|>Hm<|end|>"
            "<|start|>assistant to=functions.add<|channel|>commentary json<|message|>{\"a\": 3}<|call|>"
            "<|start|>functions to=assistant<|channel|>commentary<|message|>one<|end|>"
            "<|start|>assistant to=functions.stop<|channel|>commentary json<|message|>{}<|call|>"
            "<|start|>functions to=assistant<|channel|>commentary<|message|>two<|end|>"
            "<|start|>assistant<|message|>Done.<|end|><|start|>assistant");
  Json lost = messages;
  lost[2]["tool_call_id"] = "3";
  EXPECT_THROW(harmony_messages(lost), HttpError);
}

// Of the file that tools/make_chat_template_goldens.py writes.
TEST(Harmony, ThePublishedTemplateTakesThem) {
  const char* const path = std::getenv("LOCKSTEP_CHAT_TEMPLATES");
  if (path == nullptr) GTEST_SKIP() << "LOCKSTEP_CHAT_TEMPLATES names no file of tools/make_chat_template_goldens.py";
  bool found = false;
  const Json golden = Json::parse(test::read_whole_file(path));
  for (const Json& entry : golden.at("templates")) {
    const text::ChatTemplate chat(entry.at("source").get<std::string>(), text_of(entry.at("variables")));
    const bool is_gpt_oss = entry.at("name").get<std::string>().find("gpt-oss") != std::string::npos;
    EXPECT_EQ(harmony_form(chat, tokenizer()).has_value(), is_gpt_oss) << entry.at("name");
    if (!is_gpt_oss) continue;
    found = true;
    const Json messages = Json::parse(R"([{"role":"user","content":"u"},{"role":"assistant","content":"I ask.",
      "reasoning_content":"Hm","tool_calls":[{"id":"1","function":{"name":"add","arguments":{"a":3}}}]},
      {"role":"tool","tool_call_id":"1","content":"3"}])");
    EXPECT_THAT(
        chat.apply_json(
            text_of(Json{{"messages", harmony_messages(messages)}, {"tools", harmony_tools(add_and_stop())}}),
            {.now = "2026-11-28"}),
        HasSubstr(
            "<|start|>assistant<|channel|>analysis<|message|>Hm<|end|><|start|>assistant to=functions.add<|channel|>"
            "commentary json<|message|>{\"a\": 3}<|call|><|start|>functions.add to=assistant<|channel|>commentary"
            "<|message|>\"3\"<|end|><|start|>assistant"));
  }
  EXPECT_TRUE(found);
}

// Streamed or not, an answer is thoughts, content and calls, and none of its marks is seen.
TEST(LanguageService, AnswersInChannels) {
  LOCKSTEP_REQUIRE_DATA(stories());
  const Told told({.model = models::load_language_model(stories()),
                   .tokenizer = test::marked_tokenizer({"<|start|>", "<|channel|>", "<|message|>", "<|end|>",
                                                        "<|constrain|>", "<|call|>", "<|return|>"}),
                   .chat = text::ChatTemplate(kHarmony),
                   .name = "stories",
                   .fingerprint = "fp_test",
                   .device = {}});
  json body = {{"messages", {{{"role", "user"}, {"content", "Tom had a"}}}}, {"max_tokens", 90}};
  // Channels are mostly "analysis", and end soon.
  body["logit_bias"] = {{std::to_string(tokenizer().encode("a").front()), 3},
                        {std::to_string(test::kFirstMark + 3), 8}};
  int thoughts = 0;
  const auto ask = [&] {
    const auto whole = told.post("/v1/chat/completions", body);
    EXPECT_EQ(whole.status, 200) << whole.body;
    json choice = whole.json().at("choices").at(0);
    if (choice.at("message").contains("tool_calls")) choice["message"]["tool_calls"][0].erase("id");
    body["stream"] = true;
    json streamed = {{"role", "assistant"}, {"content", ""}};
    json last;
    for (const json& event : events_of(told.post("/v1/chat/completions", body).body)) {
      last = event.at("choices").at(0);
      for (const char* part : {"content", "reasoning_content"}) {
        if (!last.at("delta").contains(part)) continue;
        streamed[part] = streamed.value(part, "") + last.at("delta").at(part).get<std::string>();
      }
      for (json call : last.at("delta").value("tool_calls", json::array())) {
        EXPECT_EQ(call.at("index"), streamed.value("tool_calls", json::array()).size());
        call.erase("index");
        call.erase("id");  // begins with the request's
        streamed["tool_calls"].push_back(call);
      }
    }
    body.erase("stream");
    EXPECT_EQ(last.at("tokens_hash"), choice.at("tokens_hash"));
    EXPECT_EQ(last.at("finish_reason"), choice.at("finish_reason"));
    if (choice.at("message").at("content").is_null()) streamed["content"] = nullptr;
    EXPECT_EQ(streamed, choice.at("message"));
    EXPECT_EQ(streamed.dump().find(kMarkBegin), std::string::npos) << streamed;
    thoughts += streamed.contains("reasoning_content") ? 1 : 0;
    return choice;
  };
  body["response_format"] = json::parse(R"({"type":"json_schema","json_schema":{"schema":{"enum":["cat","dog"]}}})");
  for (int seed = 0; seed < 3; ++seed) {
    body["seed"] = seed;
    const json choice = ask();
    if (choice.at("finish_reason") == "stop") {
      EXPECT_THAT(choice.at("message").at("content"), testing::AnyOf("\"cat\"", "\"dog\""));
    }
  }
  body.erase("response_format");
  body["tools"] = json::parse(
      R"([{"type":"function","function":{"name":"find","parameters":{"type":"object","properties":{"kind":{"enum":["cat","dog"]}},"required":["kind"]}}}])");
  int calls = 0;
  for (const char* choice : {"required", "auto"}) {
    body["tool_choice"] = choice;
    for (int seed = 0; seed < 3; ++seed) {
      body["seed"] = seed;
      const json answer = ask();
      if (answer.at("finish_reason") != "tool_calls") continue;
      ++calls;
      const json& call = answer.at("message").at("tool_calls").at(0).at("function");
      EXPECT_EQ(call.at("name"), "find");
      EXPECT_THAT(json::parse(call.at("arguments").get<std::string>()).at("kind"), testing::AnyOf("cat", "dog"));
    }
  }
  EXPECT_GT(thoughts, 0);
  EXPECT_GT(calls, 0);
  // A text at which it is to stop is not found in the number of a mark.
  body["tool_choice"] = "required";
  body["seed"] = 0;
  const json alike = ask();
  body["stop"] = {"9", "0"};
  EXPECT_EQ(ask().at("tokens_hash"), alike.at("tokens_hash"));
}

}  // namespace
}  // namespace lockstep::server

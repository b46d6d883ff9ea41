// Thoughts of answers, apart from what is said.
#include "server/thoughts.h"

#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <lockstep/text/chat_template.h>

#include "server/answer.h"
#include "server/marks.h"
#include "support/data.h"
#include "support/files.h"
#include "support/http_client.h"
#include "support/marked_tokenizer.h"
#include "support/served_stories.h"

namespace lockstep::server {
namespace {

using nlohmann::json;
using test::stories;
using test::Told;
using testing::HasSubstr;

ThoughtForm tags() {
  return thought_form(test::marked_tokenizer({}));
}

Answer taken(const std::string& text, const ThoughtForm& form, bool opened = false, bool apart = true,
             bool whole = true) {
  Answer answer{.content = text};
  take_thoughts(answer, form, opened, apart, whole);
  return answer;
}

TEST(Thoughts, AreApartFromWhatIsSaid) {
  const Answer answer = taken("\n<think>\nHm, <b>.\n</think>\n\nYes. <think>", tags());
  EXPECT_EQ(answer.reasoning, "Hm, <b>.");
  EXPECT_EQ(answer.content, "Yes. <think>");
  const Answer opened = taken("\nHm.\n</think>\n\nYes.", tags(), true);
  EXPECT_EQ(opened.reasoning, "Hm.");
  EXPECT_EQ(opened.content, "Yes.");
  EXPECT_EQ(taken("<think>\n\n</think>\n\nYes.", tags()).reasoning, "");
  // Cut off, and without any: a text stays as it is.
  EXPECT_EQ(taken("<think>Hm", tags()).reasoning, "Hm");
  EXPECT_EQ(taken("<think>Hm", tags()).content, "");
  EXPECT_EQ(taken("\n a <think> b </think> ", tags()).content, "\n a <think> b </think> ");
  const std::string raw = "<think>\nHm.\n</think>\n\nYes.";
  EXPECT_EQ(taken(raw, tags(), false, false).content, raw);
  EXPECT_EQ(taken(raw, tags(), false, false).reasoning, "");
}

TEST(Thoughts, PartsGrowAtTheirEnds) {
  for (const std::string& text : {std::string("<think>\nHm <.\n\n</think>\n\nYes.\n"), std::string("<thin air>"),
                                  std::string(" \n<think>a"), std::string("a </think> b")}) {
    for (const bool opened : {false, true}) {
      const Answer whole = taken(text, tags(), opened);
      for (std::size_t size = 0; size <= text.size(); ++size) {
        const Answer part = taken(text.substr(0, size), tags(), opened, true, false);
        EXPECT_TRUE(whole.reasoning.starts_with(part.reasoning)) << text.substr(0, size);
        EXPECT_TRUE(whole.content.starts_with(part.content)) << text.substr(0, size);
      }
    }
  }
}

TEST(Thoughts, TagsMayBeSpecialTokens) {
  const text::Tokenizer tokenizer = test::marked_tokenizer({"[THINK]", "[/THINK]"});
  const ThoughtForm form = thought_form(tokenizer);
  EXPECT_TRUE(form.as_part);
  const std::string text = mark_of(test::kFirstMark) + "Hm" + mark_of(test::kFirstMark + 1) + "Yes.";
  EXPECT_EQ(taken(text, form).reasoning, "Hm");
  EXPECT_EQ(taken(text, form).content, "Yes.");
  EXPECT_EQ(taken(text, form, false, false).content, "[THINK]Hm[/THINK]Yes.");
  EXPECT_TRUE(opens_thoughts("a[THINK]\n", form));
  EXPECT_FALSE(opens_thoughts("a<think>", form));
  EXPECT_EQ(thought_form(test::marked_tokenizer({"<think>", "</think>"})).marks.size(), 2u);
  const Json messages = thoughtful_messages(
      Json::parse(R"([{"role":"user","content":"u"},{"role":"assistant","content":"Yes.","reasoning_content":"Hm"}])"),
      form);
  EXPECT_EQ(text_of(messages[1]["content"]), R"([{"type":"thinking","thinking":"Hm"},{"type":"text","text":"Yes."}])");
}

TEST(Thoughts, EndBeforeWhatAnAnswerIsHeldTo) {
  const text::Grammar grammar = thoughts_to_end(tags());
  for (const char* good : {"</think>", "\nHm, </thin> \"a\"\n</think>\n\n"}) EXPECT_TRUE(grammar.matches(good)) << good;
  for (const char* bad : {"", "Hm", "</think>Yes", "Hm</think></think>"}) EXPECT_FALSE(grammar.matches(bad)) << bad;
}

// Of the file that tools/make_chat_template_goldens.py writes.
TEST(Thoughts, PublishedTemplatesBeginThem) {
  const char* const path = std::getenv("LOCKSTEP_CHAT_TEMPLATES");
  if (path == nullptr) GTEST_SKIP() << "LOCKSTEP_CHAT_TEMPLATES names no file of tools/make_chat_template_goldens.py";
  const std::vector<std::pair<std::string, bool>> expected = {
      {"Qwen-Qwen3-0.6B", false}, {"Qwen3.5-4B", true}, {"llama-cpp-deepseek-r1", true}, {"DeepSeek-V3.1", false}};
  const Json golden = Json::parse(test::read_whole_file(path));
  for (const auto& [name, opens] : expected) {
    bool found = false;
    for (const Json& entry : golden.at("templates")) {
      if (entry.at("name").get<std::string>().find(name) == std::string::npos) continue;
      found = true;
      const text::ChatTemplate chat(entry.at("source").get<std::string>(), text_of(entry.at("variables")));
      EXPECT_EQ(opens_thoughts(chat.apply({{"user", "u"}}), tags()), opens) << name;
    }
    EXPECT_TRUE(found) << name;
  }
}

// A template that begins thoughts, and one that reads those of the conversation.
TEST(LanguageService, ThoughtsAreApart) {
  LOCKSTEP_REQUIRE_DATA(stories());
  const Told told(
      {.model = models::load_language_model(stories()),
       .tokenizer = text::Tokenizer::load(stories()),
       .chat = text::ChatTemplate("{% for m in messages %}{{ m.content }}({{ m.reasoning_content }}) {% endfor "
                                  "%}{% if add_generation_prompt %}<think>\n{% endif %}"),
       .name = "stories",
       .fingerprint = "fp_test",
       .device = {}});
  json body = {{"messages",
                {{{"role", "user"}, {"content", "Tom"}},
                 {{"role", "assistant"}, {"content", "Hi"}, {"reasoning_content", "Hm"}}}},
               {"temperature", 0},
               {"max_tokens", 12}};
  EXPECT_EQ(told.post("/apply-template", body).json().at("prompt"), "Tom() Hi(Hm) <think>\n");
  const json thoughts = told.post("/v1/chat/completions", body).json().at("choices").at(0);
  EXPECT_EQ(thoughts.at("message").at("content"), "");
  const std::string text = thoughts.at("message").at("reasoning_content");
  EXPECT_FALSE(text.empty());
  body["stream"] = true;
  std::string streamed;
  for (const json& event : test::events_of(told.post("/v1/chat/completions", body).body)) {
    streamed += event.at("choices").at(0).at("delta").value("reasoning_content", "");
  }
  EXPECT_EQ(streamed, text);
  body.erase("stream");
  body["reasoning_format"] = "none";
  const json raw = told.post("/v1/chat/completions", body).json().at("choices").at(0);
  EXPECT_THAT(raw.at("message").at("content").get<std::string>(), HasSubstr(text));
  EXPECT_FALSE(raw.at("message").contains("reasoning_content"));
  EXPECT_EQ(raw.at("tokens_hash"), thoughts.at("tokens_hash"));
  body["reasoning_format"] = "deepseek-legacy";
  EXPECT_THAT(told.post("/v1/chat/completions", body).body,
              HasSubstr("reasoning_format must be auto, deepseek or none"));
}

TEST(LanguageService, ThoughtsThatWereBegunEndBeforeAForm) {
  LOCKSTEP_REQUIRE_DATA(stories());
  const Told told({.model = models::load_language_model(stories()),
                   .tokenizer = test::marked_tokenizer({"<think>", "</think>"}),
                   .chat = text::ChatTemplate("{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}"
                                              "<tool_call>\n{\"name\": \"{{ c.function.name }}\", \"arguments\": {{ "
                                              "c.function.arguments | tojson }}}\n</tool_call>{% endfor %}{% endfor %}"
                                              "{% if add_generation_prompt %}<think>{% endif %}"),
                   .name = "stories",
                   .fingerprint = "fp_test",
                   .device = {}});
  json body = {{"messages", {{{"role", "user"}, {"content", "Tom"}}}},
               {"logit_bias", {{std::to_string(test::kFirstMark + 1), 9}}},
               {"max_tokens", 300}};
  int thoughts = 0;
  int ended = 0;
  const auto ask = [&] {
    const json choice = told.post("/v1/chat/completions", body).json().at("choices").at(0);
    thoughts += choice.at("message").contains("reasoning_content") ? 1 : 0;
    ended += choice.at("finish_reason") != "length" ? 1 : 0;
    return choice;
  };
  for (int seed = 0; seed < 3; ++seed) {
    body["seed"] = seed;
    body["grammar"] = "root ::= \"glad\"";
    const json held = ask();
    if (held.at("finish_reason") == "stop") {
      EXPECT_EQ(held.at("message").at("content"), "glad") << held;
    }
    body.erase("grammar");
    body["tools"] = json::parse(R"([{"type":"function","function":{"name":"stop"}}])");
    body["tool_choice"] = "required";
    const json call = ask();
    if (call.at("finish_reason") != "length") {
      EXPECT_EQ(call.at("finish_reason"), "tool_calls");
      EXPECT_EQ(call.at("message").at("tool_calls").at(0).at("function").at("name"), "stop");
    }
    body.erase("tools");
    body.erase("tool_choice");
  }
  EXPECT_GT(thoughts, 0);
  EXPECT_GT(ended, 1);
}

}  // namespace
}  // namespace lockstep::server

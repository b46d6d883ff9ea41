#include <lockstep/text/chat_template.h>

#include <cstdlib>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <lockstep/error.h>

#include "support/data.h"
#include "support/files.h"

namespace lockstep::text {
namespace {

using Json = nlohmann::ordered_json;
using test::message_of;
using testing::HasSubstr;

// What Python's jinja2 says (tools/make_chat_template_goldens.py); where it fails, so do we.
void expect_goldens(const std::filesystem::path& path) {
  const Json golden = Json::parse(test::read_whole_file(path));
  int cases = 0;
  for (const Json& entry : golden.at("templates")) {
    const auto name = entry.at("name").get<std::string>();
    std::optional<ChatTemplate> chat;
    try {
      chat.emplace(entry.at("source").get<std::string>(), entry.at("variables").dump());
    } catch (const Error& error) {
      ADD_FAILURE() << name << ": " << error.what();
      continue;
    }
    for (const Json& one : entry.at("cases")) {
      ++cases;
      const auto run = [&] { return chat->apply_json(one.at("variables").dump(), {.now = one.at("now").get<std::string>()}); };
      if (one.contains("error")) {
        // Lists stand for Python's generators here, which are no JSON.
        if (one.at("error").get<std::string>().find("generator is not JSON") != std::string::npos) continue;
        EXPECT_THROW(run(), Error) << name << ": " << one.at("error");
        continue;
      }
      try {
        EXPECT_EQ(run(), one.at("text").get<std::string>()) << name;
      } catch (const Error& error) {
        ADD_FAILURE() << name << ": " << error.what();
      }
    }
  }
  EXPECT_GE(cases, 30);
}

TEST(ChatTemplate, GivesTheTextOfJinja) { expect_goldens(test::repository_data("chat_templates.json")); }

TEST(ChatTemplate, GivesTheTextOfPublishedTemplates) {
  const char* const path = std::getenv("LOCKSTEP_CHAT_TEMPLATES");
  if (path == nullptr) GTEST_SKIP() << "LOCKSTEP_CHAT_TEMPLATES names no file of tools/make_chat_template_goldens.py";
  expect_goldens(path);
}

TEST(ChatTemplate, MessagesBecomeText) {
  const ChatTemplate chat("{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}");
  EXPECT_EQ(chat.apply({{"user", "hi"}}), "<user>hi<assistant>");
  EXPECT_EQ(chat.apply({{"user", "hi"}, {"assistant", "ho"}}, {.generation_prompt = false}), "<user>hi<assistant>ho");
}

TEST(ChatTemplate, ADateIsOnlyThereWhereItIsGiven) {
  const ChatTemplate chat("{% if strftime_now is defined %}{{ strftime_now('%Y-%m-%d') }}{% else %}no date{% endif %}");
  EXPECT_EQ(chat.apply({}), "no date");
  EXPECT_EQ(chat.apply({}, {.now = "2026-11-23"}), "2026-11-23");
  for (const char* wrong : {"today", "2026-13-01", "2026-02-30", "2026-11-23 25:00:00", "2026-11-2x"}) {
    EXPECT_THAT(message_of<ValueError>([&] { chat.apply({}, {.now = wrong}); }), HasSubstr("is no date")) << wrong;
  }
}

TEST(ChatTemplate, ModelsBringTheirs) {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("model");
  std::filesystem::create_directory(path);
  EXPECT_THAT(message_of<ValueError>([&] { ChatTemplate::load(path); }), HasSubstr("has no chat template"));
  folder.write("model/tokenizer_config.json",
                   R"({"bos_token": {"content": "<b>"}, "chat_template": [{"name": "tool_use", "template": "no"},
                       {"name": "default", "template": "{{ bos_token }}1"}]})");
  EXPECT_EQ(ChatTemplate::load(path).apply({}), "<b>1");
  EXPECT_EQ(ChatTemplate::load(path + "/tokenizer_config.json").apply({}), "<b>1");
  folder.write("model/chat_template.jinja", "{{ bos_token }}2");
  EXPECT_EQ(ChatTemplate::load(path).apply({}), "<b>2");
  folder.write("model/tokenizer_config.json", "[]");
  EXPECT_THAT(message_of<FormatError>([&] { ChatTemplate::load(path); }), HasSubstr("no JSON object"));
}

TEST(ChatTemplate, LongLoopsEnd) {
  for (const char* source : {"{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
                             "{% for i in range(100000) %}{{ [(1, 2), (3, 4)] | groupby(0) }}{% endfor %}"}) {
    EXPECT_THAT(message_of<FormatError>([&] {
                  (void)ChatTemplate(source).apply({{"user", "hi"}});
                }),
                HasSubstr("too many steps"));
  }
}

TEST(ChatTemplate, HostileTemplatesEnd) {
  const auto error = [](const std::string& source) {
    return message_of<FormatError>([&] { (void)ChatTemplate(source).apply({{"user", "hi"}}); });
  };
  const auto times = [](std::string_view text, int count) {
    std::string result;
    for (int i = 0; i < count; ++i) result += text;
    return result;
  };
  EXPECT_THAT(error("{% set x = 'a' * 1000000 %}{% for i in range(100) %}{{ x }}{% endfor %}"), HasSubstr("too much text"));
  EXPECT_THAT(error("{{ 'a' * 1000000000000 }}"), HasSubstr("too long"));
  // A list that holds the last one twice, and again: 2^60 elements to walk over.
  const std::string twice =
      "{% set a = namespace(x=[1], y=[1]) %}{% for i in range(60) %}{% set a.x, a.y = [a.x, a.x], [a.y, a.y] %}{% "
      "endfor %}";
  for (const char* use :
       {"", "{{ a.x }}", "{{ a.x | tojson }}", "{{ a.x | tojson(indent=64) }}", "{{ a.x == a.y }}", "{{ a.x < a.y }}",
        "{{ a.x in [a.y] }}", "{{ a.x ~ '' }}", "{{ [a.x, a.y] | sort }}", "{{ [a.x, a.y] | unique }}"}) {
    EXPECT_THAT(error(twice + use), testing::AnyOf(HasSubstr("too many steps"), HasSubstr("too much text"))) << use;
  }
  // Each of a hundred thousand rounds looks at all of a long text or list.
  for (const char* use : {"x == y", "x | length", "7 in r"}) {
    EXPECT_THAT(error("{% set x, y = 'a' * 8000000, 'a' * 8000000 %}{% set r = range(50000) | list %}{% set q = "
                      "range(50000) | list %}{% for i in range(100000) %}{% set z = " +
                      std::string(use) + " %}{% endfor %}"),
                HasSubstr("too many steps"))
        << use;
  }
  EXPECT_THAT(error("{{ range(1000000) }}"), HasSubstr("range"));
  EXPECT_THAT(error("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"), HasSubstr("nested too deeply"));
  EXPECT_THAT(error("{% macro f() %}" + times("{% if 1 %}", 100) + "{{ f() }}" + times("{% endif %}", 100) + "{% endmacro %}{{ f() }}"),
              HasSubstr("nested too deeply"));
  EXPECT_THAT(error("{% macro f(x) %}{{ " + times("(1 + ", 90) + "f(x)" + times(")", 90) + " }}{% endmacro %}{{ f(1) }}"),
              HasSubstr("nested too deeply"));
  EXPECT_THAT(error("{{ " + times("(", 100000) + " }}"), HasSubstr("nested too deeply"));
  EXPECT_THAT(error("{{ " + times("-", 100000) + "1 }}"), HasSubstr("nested too deeply"));
  EXPECT_THAT(error("{{ 1" + times(" + 1", 100000) + " }}"), HasSubstr("nested too deeply"));
  EXPECT_THAT(error("{{ x" + times("|trim", 100000) + " }}"), HasSubstr("nested too deeply"));
  EXPECT_THAT(error(times("{% if 1 %}", 100000)), HasSubstr("nested too deeply"));
  EXPECT_THAT(error("{% set ns = namespace(x=[]) %}{% for i in range(1000) %}{% set ns.x = [ns.x] %}{% endfor %}"), HasSubstr("nested too deeply"));
  EXPECT_THAT(error("{% set ns = namespace() %}{% set ns.x = ns %}"), HasSubstr("cannot be a function or namespace"));
  EXPECT_THAT(error("{% set ns = namespace() %}{% for i in [1] %}{% macro m() %}{{ i }}{% endmacro %}{% set ns.m = m %}{% endfor %}{{ ns.m() }}"),
              HasSubstr("cannot be a function"));
  EXPECT_THAT(error("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}"), HasSubstr("nested too deeply"));
  EXPECT_THAT(error(times("{% with %}", 100000)), HasSubstr("nested too deeply"));
  EXPECT_THAT(error("{{ 'a' | center(1000000000000) }}"), HasSubstr("too long"));
  EXPECT_THAT(error("{{ '1'.zfill(1000000000000) }}"), HasSubstr("too long"));
  EXPECT_THAT(error("{{ '%999999999d' | format(1) }}"), HasSubstr("width of more than 1000"));
  EXPECT_THAT(error("{{ '%.*f' % (99999, 1.5) }}"), HasSubstr("width of more than 1000"));
  EXPECT_THAT(error("{{ '{:999999999}'.format(1) }}"), HasSubstr("width of more than 1000"));
  EXPECT_THAT(error("{{ [1] | slice(1000000000) }}"), HasSubstr("too many steps"));
  EXPECT_THAT(error("{{ [1] | batch(1000000000, 0) }}"), HasSubstr("too many steps"));
  EXPECT_THAT(error("{{ '9223372036854775808' | int }}"), HasSubstr("too large"));
  EXPECT_THAT(error("{{ '%s' % (1, 2) }}{{ 1 }}"), HasSubstr("not all is used"));
  EXPECT_THAT(error("{{ '%d' % 'a' }}"), HasSubstr("needs a number"));
  for (const char* filter :
       {"filesizeformat", "pprint", "random", "striptags", "urlencode", "urlize", "wordwrap", "xmlattr"}) {
    EXPECT_THAT(error(std::string("{{ 1 | ") + filter + " }}"),
                HasSubstr(std::string("no filter named '") + filter + "'"));
  }
  for (const char* tag : {"block a", "extends 'a'", "import 'a' as b", "autoescape true", "do x"}) {
    EXPECT_THAT(error(std::string("{% ") + tag + " %}"), HasSubstr("unknown tag"));
  }
  EXPECT_THAT(error("{{ lipsum() }}"), HasSubstr("'lipsum' is undefined"));
  EXPECT_THAT(error("{% set c = cycler(1, 2) %}{{ c.next() }}"), HasSubstr("'cycler' is undefined"));
  EXPECT_THAT(error("{{ 9223372036854775807 + 1 }}"), HasSubstr("too large"));
  EXPECT_THAT(error("{{ 1 // 0 }}"), HasSubstr("division by zero"));
  EXPECT_THAT(error("a\nb{{ 'x"), HasSubstr("line 2: a string has no end"));
  EXPECT_THAT(error("{% if x %}"), HasSubstr("'endif' is missing"));
  EXPECT_THAT(error("{% endif %}"), HasSubstr("ends what was not begun"));
  EXPECT_THAT(error("{% include 'a' %}"), HasSubstr("unknown tag 'include'"));
  EXPECT_THAT(error("{{ x.y.z }}"), HasSubstr("'x' is undefined"));
  EXPECT_THAT(error("{{ 1 | nonsense }}"), HasSubstr("no filter named 'nonsense'"));
  EXPECT_THAT(error("{{ ''.__class__.__mro__ }}"), HasSubstr("undefined"));
  EXPECT_THAT(message_of<FormatError>([] { ChatTemplate("", "[]"); }), HasSubstr("no JSON object"));
  EXPECT_THAT(message_of<FormatError>([&] { ChatTemplate("").apply_json(R"({"a":)" + times("[", 200) + times("]", 200) + "}"); }),
              HasSubstr("nested too deeply"));
  EXPECT_THAT(message_of<FormatError>([&] {
                ChatTemplate("").apply_json(R"({"a":)" + times("[", 2'000'000) + times("]", 2'000'000) + "}");
              }),
              HasSubstr("nests too deep"));
  EXPECT_THAT(message_of<FormatError>([] { ChatTemplate("").apply({}, {.variables = "think"}); }),
              HasSubstr("no JSON object"));
  EXPECT_THAT(message_of<ValueError>([] { ChatTemplate("{{ raise_exception('only two roles') }}").apply({}); }),
              HasSubstr("refuses the conversation: only two roles"));
}

TEST(ChatTemplate, LongConversationsAreNoHostileOnes) {
  const ChatTemplate chat(
      "{% for m in messages %}{% set before = messages[loop.index0 - 1] if loop.index0 else none %}{% if before and "
      "before.role == m.role %}!{% endif %}"
      "{% if '</think>' in m.content %}{{ m.content.split('</think>')[-1].lstrip('\\n') }}{% else %}{{ m.content | "
      "trim }}{% endif %}{% endfor %}");
  std::vector<ChatMessage> messages;
  for (int i = 0; i < 2000; ++i) messages.push_back({i % 2 == 0 ? "user" : "assistant", std::string(1000, 'a')});
  EXPECT_EQ(chat.apply(messages).size(), 2'000'000u);
}

TEST(ChatTemplate, MistakesAreFoundByTheirLine) {
  const auto error = [](const char* source) {
    return message_of<FormatError>([&] { (void)ChatTemplate(source).apply({{"user", "hi"}}); });
  };
  EXPECT_THAT(error("a\n{% if true %}\n{% for m in messages %}\n{{ m.x.y }}{% endfor %}{% endif %}\nb"),
              HasSubstr("line 4: 'x' is undefined"));
  EXPECT_THAT(error("{% macro f() %}\n{{ 1 }}\n{% endmacro %}\n{{ f() }}{{ f() ~ 1 // 0 }}"),
              HasSubstr("line 4: division by zero"));
  EXPECT_THAT(error("{% macro f() %}\n{{ 1 // 0 }}\n{% endmacro %}\n{{ f() }}"), HasSubstr("line 2: division by zero"));
  EXPECT_THAT(error("\n{{ 99999999999999999999 }}"), HasSubstr("line 2: a number is too large"));
}

TEST(ChatTemplate, SpacesAndLinesAreThoseOfPython) {
  const auto text = [](const char* source) {
    return ChatTemplate(source).apply_json(R"({"s":"\u3000\u00a0 a\u2003b  c \u00a0"})");
  };
  EXPECT_EQ(text("[{{ s|trim }}]"), "[a\u2003b  c]");
  EXPECT_EQ(text("[{{ s.lstrip() }}]"), "[a\u2003b  c \u00a0]");
  EXPECT_EQ(text("[{{ s.rstrip() }}]"), "[\u3000\u00a0 a\u2003b  c]");
  EXPECT_EQ(text("{{ s.split()|join('|') }}"), "a|b|c");
  EXPECT_EQ(text("{{ s.split(none, 1)|join('|') }}"), "a|b  c \u00a0");
  EXPECT_EQ(text("{{ s.rsplit(none, 1)|join('|') }}"), "\u3000\u00a0 a\u2003b|c");
  EXPECT_EQ(text("{{ s.split(none, 0)|join('|') }}"), "a\u2003b  c \u00a0");
  EXPECT_EQ(text("{{ s.split('b', 1)|length }}{{ ''.split()|length }}{{ ''.split('b')|length }}"), "201");
  EXPECT_EQ(text("{{ 'a,b,,c'.rsplit(',', 2)|join('|') }}"), "a,b||c");
  EXPECT_EQ(text("{{ 'a\\r\\nb\\fc\\u2028\\n'.splitlines()|join('|') }}"), "a|b|c|");
}

TEST(ChatTemplate, ReadsFurtherVariables) {
  const ChatTemplate chat("{{ messages[0].content }}{% if think is defined and not think %} briefly{% endif %}");
  EXPECT_EQ(chat.apply({{"user", "Hi"}}), "Hi");
  EXPECT_EQ(chat.apply({{"user", "Hi"}}, {.variables = R"({"think":false,"messages":[]})"}), "Hi briefly");
}

}  // namespace
}  // namespace lockstep::text

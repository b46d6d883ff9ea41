// What requests ask of a service, and what is wrong with them.
#include "server/completion_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <lockstep/lockstep.h>

#include "server/language.h"
#include "support/data.h"
#include "support/http_client.h"
#include "support/served_stories.h"

namespace lockstep {
inline namespace v0 {
namespace {

using nlohmann::json;
using server::HttpServer;
using server::LanguageService;
using test::HttpAnswer;
using test::request;
using test::stories;
using test::Told;
using testing::HasSubstr;

TEST(LanguageService, SaysWhatIsWrongWithARequest) {
  LOCKSTEP_REQUIRE_DATA(stories());
  const Told told;
  const std::vector<std::pair<json, std::string>> cases = {
      {{{"prompt", "a"}, {"temperature", "hot"}}, "temperature"},
      {{{"prompt", "a"}, {"temperature", 3}}, "temperature"},
      {{{"prompt", "a"}, {"n", 1000000}}, "n must be"},
      {{{"prompt", "a"}, {"max_tokens", 0}}, "max_tokens"},
      {{{"prompt", "a"}, {"max_tokens", 1e300}}, "max_tokens"},
      {{{"prompt", "a"}, {"max_tokens", 100000}}, "context of 512"},
      {{{"prompt", "a"}, {"max_tokens", 18446744073709551615u}}, "max_tokens"},
      {{{"prompt", "a"}, {"seed", 18446744073709551615u}}, "seed"},
      {{{"prompt", std::string(9000, 'a')}}, "context of 512"},
      {{{"prompt", {1, 100000}}}, "no token 100000"},
      {{{"prompt", {-1}}}, "a token"},
      {{{"prompt", json::object()}}, "prompt must be"},
      {{{"max_tokens", 5}}, "the prompt is missing"},
      {{{"prompt", "a"}, {"stop", ""}}, "stop"},
      {{{"prompt", "a"}, {"logprobs", 21}}, "logprobs"},
      {{{"prompt", "a"}, {"logit_bias", {{"5", 300}}}}, "logit_bias must be"},
      {{{"prompt", "a"}, {"logit_bias", {{"five", 3}}}}, "logit_bias must be"},
      {{{"prompt", "a"}, {"logit_bias", {{"-5", 3}}}}, "logit_bias must be"},
      {{{"prompt", "a"}, {"logit_bias", {{"512", 3}}}}, "no token 512"},
      {{{"prompt", "a"}, {"frequency_penalty", 3}}, "frequency_penalty must be"},
      {{{"prompt", "a"}, {"presence_penalty", "a"}}, "presence_penalty must be"},
      {{{"prompt", "a"}, {"suffix", "b"}}, "suffix: this model has no tokens"},
      {{{"prompt", "a"}, {"best_of", 17}}, "best_of must be"},
      {{{"prompt", "a"}, {"best_of", 2}, {"n", 3}}, "best_of must be at least n"},
      {{{"prompt", "a"}, {"best_of", 2}, {"stream", true}}, "best_of is not offered for streams"},
      {{{"prompt", "a"}, {"echo", 1}}, "echo must be true or false"},
      {{{"prompt", "a"}, {"echo", true}, {"logprobs", 1}, {"stream", true}}, "echo with logprobs"},
      {{{"prompt", "a"}, {"response_format", "json"}}, "response_format"},
      {{{"prompt", "a"}, {"response_format", {{"type", "xml"}}}}, "response_format"},
      {{{"prompt", "a"},
        {"response_format", {{"type", "json_schema"}, {"json_schema", {{"schema", {{"type", "int"}}}}}}}},
       "there is no type \"int\""},
      {json::parse(R"({"prompt":"a","metadata":)" + std::string(80, '[') + std::string(80, ']') + "}"),
       "nests too deep"},
      {{{"prompt", "a"}, {"grammar", "root ::= ("}}, "grammar"},
      {{{"prompt", "a"}, {"grammar", "root ::= \"a\""}, {"response_format", {{"type", "json_object"}}}}, "either"},
      {{{"prompt", "a"}, {"mirostat_eta", 0}}, "mirostat_eta must be"},
      {{{"prompt", "a"}, {"chat_template_kwargs", json::object()}}, "no parameter"},
      {{{"prompt", "a"}, {"nonsense", 1}}, "no parameter \"nonsense\""}};
  for (const auto& [body, message] : cases) {
    const HttpAnswer answer = told.post("/v1/completions", body);
    EXPECT_EQ(answer.status, 400) << body;
    EXPECT_THAT(answer.body.empty() ? "" : answer.json().at("error").at("message").get<std::string>(),
                HasSubstr(message));
  }
  const json messages = {{{"role", "user"}, {"content", "Hi"}}};
  const json tools = {{{"type", "function"}}};
  EXPECT_THAT(told.post("/v1/chat/completions", {{"messages", messages}, {"tools", tools}}).body, HasSubstr("tools"));
  const json format = {{"type", "json_schema"}};
  EXPECT_THAT(told.post("/v1/chat/completions", {{"messages", messages}, {"response_format", format}}).body,
              HasSubstr("response_format"));
  EXPECT_EQ(told.post("/v1/completions", {{"model", "gpt"}, {"prompt", "a"}}).status, 404);
  for (const std::string body :
       {"", "{", "[]", "nul", "{\"prompt\":\"\xff\xfe\"}", "{\"prompt\":\"a\"", "[[[[[[[[[[[["}) {
    EXPECT_EQ(request(told.port, "POST", "/v1/completions", body).status, 400) << body;
  }
  // The neutral values that clients send change nothing.
  told.completion({{"prompt", "a"},
                   {"frequency_penalty", 0},
                   {"logit_bias", json::object()},
                   {"stop", nullptr},
                   {"service_tier", "default"},
                   {"verbosity", "medium"},
                   {"prompt_cache_key", "k"}});
}

// Small texts that take long to parse, or whose values would end the process where they are copied.
TEST(LanguageService, OutlivesRequestsOfManyParts) {
  LOCKSTEP_REQUIRE_DATA(stories());
  Told told;
  HttpServer wide({.port = 0});
  told.service.add_to(wide);
  const int port = test::port_of(wide.start());
  const auto times = [](int count, const std::string& text) {
    std::string result;
    for (int i = 0; i < count; ++i) result += text;
    return result;
  };
  std::string members;
  for (int i = 0; i < 300'000; ++i) members += fmt::format("\"{}\":1,", i);
  const HttpAnswer many = request(port, "POST", "/v1/completions", "{" + members + "\"prompt\":\"a\"}");
  EXPECT_EQ(many.status, 400);
  EXPECT_THAT(many.body, HasSubstr("too many values"));
  const std::string objects = R"({"prompt":"a","max_tokens":1,"metadata":[)" + times(300'000, "{},") + "{}]}";
  EXPECT_EQ(request(port, "POST", "/v1/completions", objects).status, 200);

  json call = {{"type", "function"}, {"function", {{"name", "f"}}}};
  call["function"]["arguments"] = "{\"a\":" + std::string(2'000'000, '[') + std::string(2'000'000, ']') + "}";
  const json messages = {{{"role", "user"}, {"content", "a"}}, {{"role", "assistant"}, {"tool_calls", {call}}}};
  const json chat = {{"messages", messages}, {"max_tokens", 1}};
  EXPECT_EQ(request(port, "POST", "/v1/chat/completions", chat.dump()).status, 200);

  const HttpAnswer text = request(port, "POST", "/v1/completions", json{{"prompt", std::string(1 << 20, 'a')}}.dump());
  EXPECT_EQ(text.status, 400);
  EXPECT_THAT(text.body, HasSubstr("context of 512 tokens, which do not hold the 1048576 bytes"));
}

// Messages as other servers keep them: templates take what is there for said.
TEST(LanguageService, EmptyListsInMessagesSayNothing) {
  LOCKSTEP_REQUIRE_DATA(stories());
  const Told told(server::ServedLanguageModel{
      .model = models::load_language_model(stories()),
      .tokenizer = text::Tokenizer::load(stories()),
      .chat = text::ChatTemplate(
          "{% for m in messages %}{{ m['content'] }}{% if 'tool_calls' in m %}!{% endif %}{% endfor %}"),
      .name = "stories",
      .fingerprint = "fp_test",
      .device = {}});
  const json message = json::parse(
      R"({"role":"assistant","content":"Tom","refusal":null,"annotations":[],"tool_calls":[],"audio":null})");
  const HttpAnswer answer = told.post("/apply-template", {{"messages", {message}}});
  EXPECT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.json().at("prompt"), "Tom");
}

TEST(LanguageService, PenaltiesAndBiasAreThoseOfGenerate) {
  LOCKSTEP_REQUIRE_DATA(stories());
  const Told told;
  const auto model = models::load_language_model(stories());
  const text::Tokenizer tokenizer = text::Tokenizer::load(stories());
  std::vector<std::int64_t> ids;
  const models::SamplingOptions sampling{.temperature = 0.8,
                                         .seed = 4,
                                         .presence_penalty = 1.5,
                                         .frequency_penalty = 0.5,
                                         .logit_bias = {{432, -INFINITY}, {410, 2.5}}};
  for (const auto& token :
       models::generate(*model, tokenizer.encode("Tom"), {.sampling = sampling, .max_tokens = 30})) {
    ids.push_back(token.token);
  }
  const json answer = told.completion({{"prompt", "Tom"},
                                       {"temperature", 0.8},
                                       {"seed", 4},
                                       {"max_tokens", 30},
                                       {"presence_penalty", 1.5},
                                       {"frequency_penalty", 0.5},
                                       {"logit_bias", {{"432", -100}, {"410", 2.5}}}});
  EXPECT_EQ(answer.at("choices").at(0).at("tokens_hash"),
            fmt::format("{:016x}", Tensor::from(ids, {static_cast<std::int64_t>(ids.size())}).hash()));
}

TEST(LanguageService, AnswersAreJsonWhereThatIsAsked) {
  LOCKSTEP_REQUIRE_DATA(stories());
  const Told told;
  const json schema = {
      {"type", "object"},
      {"properties", {{"name", {{"type", "string"}, {"maxLength", 10}}}, {"age", {{"type", "integer"}}}}},
      {"required", {"name", "age"}}};
  for (int seed = 0; seed < 4; ++seed) {
    const HttpAnswer answer = told.post(
        "/v1/chat/completions",
        {{"messages", {{{"role", "user"}, {"content", "Tom is"}}}},
         {"seed", seed},
         {"max_tokens", 120},
         {"response_format", {{"type", "json_schema"}, {"json_schema", {{"name", "person"}, {"schema", schema}}}}}});
    ASSERT_EQ(answer.status, 200) << answer.body;
    const json choice = answer.json().at("choices").at(0);
    const json person = json::parse(choice.at("message").at("content").get<std::string>());
    EXPECT_TRUE(person.at("name").is_string() && person.at("age").is_number_integer()) << person;
    EXPECT_EQ(person.size(), 2u);
    EXPECT_EQ(choice.at("finish_reason"), "stop");
  }
  const json any = told.completion(
      {{"prompt", "Tom"}, {"temperature", 0}, {"max_tokens", 40}, {"response_format", {{"type", "json_object"}}}});
  EXPECT_TRUE(any.at("choices").at(0).at("text").get<std::string>().starts_with("{")) << any;
}

// Its conversations are written by a template that looks at more than the messages.
TEST(LanguageService, TemplatesReadWhatARequestSays) {
  LOCKSTEP_REQUIRE_DATA(stories());
  LanguageService service(
      {.model = models::load_language_model(stories()),
       .tokenizer = text::Tokenizer::load(stories()),
       .chat = text::ChatTemplate("{% for m in messages %}[{{ m.role }}] {{ m.content }} {% endfor %}"
                                  "{{ mood }} {{ reasoning_effort }}"),
       .name = "org/stories",
       .fingerprint = "fp_test",
       .device = {}});
  HttpServer http({.port = 0});
  service.add_to(http);
  const int port = test::port_of(http.start());
  json body = {{"messages", {{{"role", "developer"}, {"content", "Be short."}}, {{"role", "user"}, {"content", "Hi"}}}},
               {"chat_template_kwargs", {{"mood", "glad"}}},
               {"reasoning_effort", "low"}};
  const std::string text = "[system] Be short. [user] Hi glad low";
  EXPECT_EQ(request(port, "POST", "/apply-template", body.dump()).json().at("prompt"), text);
  body["max_tokens"] = 3;
  const json answer = request(port, "POST", "/v1/chat/completions", body.dump()).json();
  EXPECT_EQ(answer.at("usage").at("prompt_tokens"),
            text::Tokenizer::load(stories()).encode(text, {.add_special_tokens = false}).size());
  body["chat_template_kwargs"] = 3;
  EXPECT_EQ(request(port, "POST", "/apply-template", body.dump()).status, 400);

  const json card = request(port, "GET", "/v1/models/org/stories").json();
  EXPECT_EQ(card, request(port, "GET", "/v1/models").json().at("data").at(0));
  EXPECT_EQ(card.at("max_model_len"), 512);
  EXPECT_EQ(request(port, "GET", "/v1/models/gpt").status, 404);
}

TEST(LanguageService, AGrammarHoldsTheAnswer) {
  LOCKSTEP_REQUIRE_DATA(stories());
  const Told told;
  for (int seed = 0; seed < 4; ++seed) {
    const json answer = told.completion(
        {{"prompt", "Tom"}, {"seed", seed}, {"mirostat_tau", 3}, {"grammar", R"(root ::= " was " ("glad" | "sad"))"}});
    const std::string text = answer.at("choices").at(0).at("text");
    EXPECT_TRUE(text == " was glad" || text == " was sad") << text;
  }
}

}  // namespace
}  // namespace v0
}  // namespace lockstep

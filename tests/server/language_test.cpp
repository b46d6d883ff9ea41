#include "server/language.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include <fmt/format.h>

#include <lockstep/lockstep.h>
#include <lockstep/models/columns.h>

#include "support/data.h"
#include "support/http_client.h"
#include "support/ranks.h"
#include "support/served_stories.h"

namespace lockstep {
inline namespace v0 {
namespace {

using nlohmann::json;
using server::HttpServer;
using server::LanguageService;
using test::events_of;
using test::HttpAnswer;
using test::kTemplate;
using test::request;
using test::stories;
using test::Told;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(LanguageService, CompletesAsGenerateDoes) {
  LOCKSTEP_REQUIRE_DATA(stories());
  const Told told;
  const auto model = models::load_language_model(stories());
  const text::Tokenizer tokenizer = text::Tokenizer::load(stories());
  const std::vector<std::int64_t> prompt = tokenizer.encode("Once upon a time");
  for (const double temperature : {0.0, 0.9}) {
    const auto expected =
        models::generate(*model, prompt, {.sampling = {.temperature = temperature, .seed = 7}, .max_tokens = 40});
    std::vector<std::int64_t> ids;
    std::vector<float> probabilities;
    for (const models::SampledToken& token : expected) {
      ids.push_back(token.token);
      probabilities.push_back(token.log_probability);
    }
    const json answer = told.completion({{"prompt", "Once upon a time"},
                                         {"temperature", temperature},
                                         {"seed", 7},
                                         {"max_tokens", 40},
                                         {"logprobs", 2}});
    const json& choice = answer.at("choices").at(0);
    EXPECT_EQ(choice.at("tokens_hash"),
              fmt::format("{:016x}", Tensor::from(ids, {static_cast<std::int64_t>(ids.size())}).hash()));
    EXPECT_EQ(choice.at("logprobs").at("token_logprobs").get<std::vector<float>>(), probabilities);
    EXPECT_EQ(choice.at("logprobs").at("top_logprobs").size(), 40u);
    std::size_t at = 0;
    for (std::size_t t = 0; t < 40; ++t) {  // stories' tokens are ASCII
      EXPECT_EQ(choice.at("logprobs").at("text_offset").at(t), at);
      const std::string text = choice.at("logprobs").at("tokens").at(t);
      EXPECT_EQ(choice.at("text").get<std::string>().substr(at, text.size()), text);
      at += text.size();
    }
    EXPECT_EQ(choice.at("finish_reason"), "length");
    EXPECT_EQ(answer.at("usage").at("prompt_tokens"), prompt.size());
    EXPECT_EQ(answer.at("usage").at("completion_tokens"), 40);
    EXPECT_THAT(request(told.port, "GET", "/metrics").body,
                HasSubstr(fmt::format("lockstep_tokens_total{{kind=\"answer\"}} {}\n",
                                      temperature == 0 ? 40 : 120)));  // those of the stream below, too
    EXPECT_EQ(answer.at("system_fingerprint"), "fp_test");
    const json again =
        told.completion({{"prompt", prompt}, {"temperature", temperature}, {"seed", 7}, {"max_tokens", 40}});
    EXPECT_EQ(again.at("choices").at(0).at("text"), choice.at("text"));
  }
}

// What generation said of its tokens is what is said of them as a prompt, whatever was known of it before.
TEST(LanguageService, EchoTellsTheProbabilitiesOfThePrompt) {
  LOCKSTEP_REQUIRE_DATA(stories());
  const Told told;
  const text::Tokenizer tokenizer = text::Tokenizer::load(stories());
  std::vector<std::int64_t> tokens = tokenizer.encode("Once upon a time");
  const std::size_t given = tokens.size();
  const auto drawn = models::generate(*models::load_language_model(stories()), tokens, {.max_tokens = 150});
  for (const models::SampledToken& token : drawn) tokens.push_back(token.token);
  for (int i = 0; i < 2; ++i) {
    const json answer =
        told.completion({{"prompt", tokens}, {"echo", true}, {"max_tokens", 0}, {"logprobs", 2}, {"temperature", 0}});
    const json& choice = answer.at("choices").at(0);
    EXPECT_EQ(choice.at("text"), tokenizer.decode(tokens));
    EXPECT_EQ(choice.at("finish_reason"), "length");
    EXPECT_EQ(answer.at("usage").at("completion_tokens"), 0);
    EXPECT_EQ(answer.at("usage").at("prompt_tokens_details").at("cached_tokens"), 0);
    const json& logprobs = choice.at("logprobs");
    ASSERT_EQ(logprobs.at("token_logprobs").size(), tokens.size());
    ASSERT_EQ(logprobs.at("tokens").size(), tokens.size());
    EXPECT_TRUE(logprobs.at("token_logprobs").at(0).is_null());
    EXPECT_TRUE(logprobs.at("top_logprobs").at(0).is_null());
    for (std::size_t t = 0; t < drawn.size(); ++t) {
      EXPECT_EQ(logprobs.at("token_logprobs").at(given + t).get<float>(), drawn[t].log_probability) << t;
      EXPECT_GE(logprobs.at("top_logprobs").at(given + t).size(), 1u);  // tokens of one text are one entry
    }
  }
}

TEST(LanguageService, EchoShowsThePromptBeforeItsAnswer) {
  LOCKSTEP_REQUIRE_DATA(stories());
  const Told told;
  json body = {{"prompt", "Once upon a time"}, {"max_tokens", 5}, {"temperature", 0}, {"logprobs", 1}};
  const json plain = told.completion(body);
  body["echo"] = true;
  const json echoed = told.completion(body);
  const json& logprobs = echoed.at("choices").at(0).at("logprobs");
  EXPECT_EQ(echoed.at("choices").at(0).at("text"),
            "Once upon a time" + plain.at("choices").at(0).at("text").get<std::string>());
  EXPECT_EQ(echoed.at("choices").at(0).at("tokens_hash"), plain.at("choices").at(0).at("tokens_hash"));
  ASSERT_EQ(logprobs.at("token_logprobs").size(), 10u);
  EXPECT_EQ(logprobs.at("tokens").at(1), " Once");  // the text has no such space
  EXPECT_THAT(logprobs.at("text_offset").get<std::vector<int>>(), ElementsAre(0, 0, 4, 9, 11, 16, 17, 23, 27, 29));
  for (std::size_t t = 0; t < 5; ++t) {
    EXPECT_EQ(logprobs.at("token_logprobs").at(5 + t),
              plain.at("choices").at(0).at("logprobs").at("token_logprobs").at(t));
  }
  body.erase("logprobs");
  body["stream"] = true;
  std::string text;
  for (const json& chunk : events_of(told.post("/v1/completions", body).body)) {
    text += chunk.at("choices").at(0).at("text").get<std::string>();
  }
  EXPECT_EQ(text, echoed.at("choices").at(0).at("text"));
}

TEST(LanguageService, AGreedyTokenIsTheMostProbableAlternative) {
  LOCKSTEP_REQUIRE_DATA(stories());
  const Told told;
  const HttpAnswer answer = told.post("/v1/chat/completions", {{"messages", {{{"role", "user"}, {"content", "Tom"}}}},
                                                               {"temperature", 0},
                                                               {"max_tokens", 12},
                                                               {"logprobs", true},
                                                               {"top_logprobs", 3}});
  ASSERT_EQ(answer.status, 200) << answer.body;
  const json choice = answer.json().at("choices").at(0);
  EXPECT_EQ(choice.at("message").at("role"), "assistant");
  ASSERT_EQ(choice.at("logprobs").at("content").size(), 12u);
  std::string joined;  // of the tokens' bytes
  for (const json& token : choice.at("logprobs").at("content")) {
    for (const json& byte : token.at("bytes")) joined += static_cast<char>(byte.get<int>());
    ASSERT_EQ(token.at("top_logprobs").size(), 3u);
    EXPECT_EQ(token.at("logprob"), token.at("top_logprobs").at(0).at("logprob"));
    EXPECT_GE(token.at("top_logprobs").at(0).at("logprob"), token.at("top_logprobs").at(1).at("logprob"));
  }
  EXPECT_EQ(joined, choice.at("message").at("content"));
}

TEST(LanguageService, StreamsTheSameAnswer) {
  LOCKSTEP_REQUIRE_DATA(stories());
  const Told told;
  json body = {{"messages", {{{"role", "user"}, {"content", "One day"}}}}, {"max_tokens", 30}, {"n", 2}, {"seed", 3}};
  const json whole = told.post("/v1/chat/completions", body).json();
  EXPECT_NE(whole.at("choices").at(0).at("tokens_hash"), whole.at("choices").at(1).at("tokens_hash"));
  body["stream"] = true;
  body["stream_options"] = {{"include_usage", true}};
  const HttpAnswer answer = told.post("/v1/chat/completions", body);
  EXPECT_THAT(answer.head, HasSubstr("text/event-stream"));
  std::string texts[2];
  std::string hashes[2];
  const std::vector<json> events = events_of(answer.body);
  for (const json& event : events) {
    for (const json& choice : event.at("choices")) {
      const std::size_t index = choice.at("index");
      texts[index] += choice.at("delta").value("content", "");
      if (!choice.at("finish_reason").is_null()) hashes[index] = choice.at("tokens_hash");
    }
  }
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(texts[i], whole.at("choices").at(i).at("message").at("content"));
    EXPECT_EQ(hashes[i], whole.at("choices").at(i).at("tokens_hash"));
  }
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(events.back().at("usage"), whole.at("usage"));
}

TEST(LanguageService, EndsBeforeAStopText) {
  LOCKSTEP_REQUIRE_DATA(stories());
  const Told told;
  const json all = told.completion({{"prompt", "Once upon a time"}, {"temperature", 0}, {"max_tokens", 40}});
  const std::string text = all.at("choices").at(0).at("text");
  const std::string stop = text.substr(20, 6);
  const json cut = told.completion(
      {{"prompt", "Once upon a time"}, {"temperature", 0}, {"max_tokens", 40}, {"stop", {"zebra", stop}}});
  EXPECT_EQ(cut.at("choices").at(0).at("text"), text.substr(0, text.find(stop)));
  EXPECT_EQ(cut.at("choices").at(0).at("finish_reason"), "stop");
}

// Conversations of one beginning, and each message goes on from the answer before: with room for all pages, for a few,
// and for none. 16 clients at a time, twice, get what each gets where nothing is kept.
TEST(LanguageService, PromptsThatBeginAlikeAreReadOnceAndAnsweredAlike) {
  LOCKSTEP_REQUIRE_DATA(stories());
  constexpr std::size_t kClients = 16;
  constexpr std::int64_t kPage = 64;
  const text::Tokenizer tokenizer = text::Tokenizer::load(stories());
  std::vector<std::int64_t> beginning;
  while (beginning.size() < 150) {
    for (const std::int64_t token : tokenizer.encode("Once upon a time there was a little dog. "))
      beginning.push_back(token);
  }
  const auto conversation = [&](const Told& told, std::size_t client, std::int64_t& cached) {
    std::vector<std::int64_t> prompt = beginning;
    prompt.push_back(300 + static_cast<std::int64_t>(client));
    std::vector<json> answers;
    for (int message = 0; message < 2; ++message) {
      const json answer = told.completion(
          {{"prompt", prompt}, {"temperature", 0.8}, {"seed", client}, {"max_tokens", 12}, {"logprobs", 1}});
      answers.push_back(answer.at("choices"));
      cached += answer.at("usage").at("prompt_tokens_details").at("cached_tokens").get<std::int64_t>();
      const std::string text = answer.at("choices").at(0).at("text").get<std::string>();
      for (const std::int64_t token : tokenizer.encode(text)) prompt.push_back(token);
    }
    return answers;
  };
  std::vector<std::vector<json>> alone;
  {
    const Told told(32, 0);
    std::int64_t cached = 0;
    for (std::size_t i = 0; i < kClients; ++i) alone.push_back(conversation(told, i, cached));
    EXPECT_EQ(cached, 0);
  }
  const std::int64_t page = 2 * 5 * 4 * 8 * kPage * 4;
  for (const std::int64_t bytes : {std::int64_t{1} << 24, 4 * page}) {
    const Told told(32, bytes);
    std::vector<std::int64_t> cached(kClients);
    for (int times = 0; times < (bytes == 4 * page ? 1 : 2); ++times) {
      std::vector<std::vector<json>> together(kClients);
      std::vector<std::thread> clients;
      for (std::size_t i = 0; i < kClients; ++i) {
        clients.emplace_back([&, i] { together[i] = conversation(told, i, cached[i]); });
      }
      for (std::thread& client : clients) client.join();
      EXPECT_EQ(together, alone);
    }
    if (bytes == 4 * page) continue;
    // In the second round everything was known, up to the last page's beginning.
    for (const std::int64_t count : cached) EXPECT_GE(count, 3 * 2 * kPage);
  }
}

TEST(LanguageService, ConcurrentClientsGetWhatTheyGetAlone) {
  LOCKSTEP_REQUIRE_DATA(stories());
  const Told told;
  constexpr std::size_t kClients = 16;
  const auto ask = [&](std::size_t i) {
    return told
        .completion({{"prompt", std::string("Lily saw a big red ball. ").substr(0, 5 + i)},
                     {"seed", i},
                     {"max_tokens", 10 + i},
                     {"logprobs", 1}})
        .at("choices");
  };
  std::vector<json> alone(kClients);
  for (std::size_t i = 0; i < kClients; ++i) alone[i] = ask(i);
  std::vector<json> together(kClients);
  std::vector<std::thread> clients;
  for (std::size_t i = 0; i < kClients; ++i) clients.emplace_back([&, i] { together[i] = ask(i); });
  for (std::thread& client : clients) client.join();
  for (std::size_t i = 0; i < kClients; ++i) EXPECT_EQ(together[i], alone[i]) << i;
}

// What two ranks, with half of the projections each, serve: the first one answers clients.
void serve_by_two_ranks(const std::function<void(const Told&, dist::Orders&)>& clients,
                        const std::function<void(server::ModelSteps&)>& second) {
  const auto ends = test::run_ranks(2, [&](const dist::Group& group) {
    const std::shared_ptr<dist::Orders> orders = std::make_shared<dist::Orders>(group, std::chrono::milliseconds(20));
    auto model = models::load_language_model(stories());
    models::divide_columns(*model, group, Device{});
    constexpr std::int64_t kPrefixBytes = std::int64_t{1} << 24;
    if (group.rank() == 1) {
      server::ModelSteps steps(*model, Device{}, Numerics::exact, kPrefixBytes, orders);
      second(steps);
      return;
    }
    Told told(server::ServedLanguageModel{.model = std::move(model),
                                          .tokenizer = text::Tokenizer::load(stories()),
                                          .chat = text::ChatTemplate(kTemplate),
                                          .name = "stories",
                                          .fingerprint = "fp_test",
                                          .device = {},
                                          .prefix_bytes = kPrefixBytes,
                                          .orders = orders});
    clients(told, *orders);
    told.http.stop();
    if (orders->failure() == nullptr) orders->end();
  });
  test::expect_success(ends);
}

TEST(LanguageService, RanksThatHaveAPartOfTheModelAnswerAsOneProcess) {
  LOCKSTEP_REQUIRE_DATA(stories());
  const std::vector<json> bodies = {
      {{"prompt", "Once upon a time"}, {"max_tokens", 12}},
      {{"prompt", "Lily and Tom"}, {"max_tokens", 9}, {"temperature", 0.8}, {"seed", 3}, {"n", 2}, {"logprobs", 2}},
      {{"prompt", "Once upon a time there was"}, {"max_tokens", 5}},
      {{"prompt", "Once upon a time there was"}, {"max_tokens", 2}, {"logprobs", 1}, {"echo", true}}};
  const auto choices_of = [&](const Told& told) {
    std::vector<json> choices(bodies.size());
    std::vector<std::thread> clients;
    for (std::size_t i = 0; i < bodies.size(); ++i) {
      clients.emplace_back([&, i] { choices[i] = told.completion(bodies[i]).at("choices"); });
    }
    for (std::thread& client : clients) client.join();
    // From what was read before; an error, and on; a vector.
    choices.push_back(told.completion(bodies.front()).at("choices"));
    EXPECT_EQ(told.post("/v1/completions", {{"prompt", {100000}}}).status, 400);
    choices.push_back(told.post("/v1/embeddings", {{"input", "Once upon"}}).json().at("data"));
    return choices;
  };
  const std::vector<json> expected = choices_of(Told());
  std::vector<json> got;
  serve_by_two_ranks([&](const Told& told, dist::Orders&) { got = choices_of(told); },
                     [](server::ModelSteps& steps) { steps.follow(); });
  EXPECT_EQ(got, expected);
}

TEST(LanguageService, ARankThatIsGoneIsToldToClients) {
  LOCKSTEP_REQUIRE_DATA(stories());
  serve_by_two_ranks(
      [](const Told& told, dist::Orders& orders) {
        while (orders.failure() == nullptr) std::this_thread::sleep_for(std::chrono::milliseconds(5));
        const HttpAnswer answer = told.post("/v1/completions", {{"prompt", "Once"}, {"max_tokens", 4}});
        EXPECT_EQ(answer.status, 500);
        EXPECT_THAT(answer.body, HasSubstr("has lost one of its processes, and the server ends: dist: "));
      },
      [](server::ModelSteps&) {});
}

TEST(LanguageService, OutlivesClientsThatLeave) {
  LOCKSTEP_REQUIRE_DATA(stories());
  const Told told(2);
  const std::string body = R"({"prompt":"Once","max_tokens":400,"stream":true})";
  for (int i = 0; i < 6; ++i) {
    const test::Connection connection(told.port);
    connection.send("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
                    std::to_string(body.size()) + "\r\n\r\n" + body);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  HttpAnswer answer;
  for (int tries = 0; tries < 500 && answer.status != 200; ++tries) {
    answer = told.post("/v1/completions", {{"prompt", "a"}, {"max_tokens", 2}});
    EXPECT_TRUE(answer.status == 200 || answer.status == 429) << answer.body;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_EQ(answer.status, 200);
}

// An answer of some 8,000 tokens ends with its client: the only place is free long before.
TEST(LanguageService, EndsWholeAnswersThatNobodyWaitsFor) {
  LOCKSTEP_REQUIRE_DATA(stories());
  const Told told(1);
  const std::string body = R"({"prompt":"Once","max_tokens":500,"n":16})";
  {
    const test::Connection connection(told.port);
    connection.send("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
                    std::to_string(body.size()) + "\r\n\r\n" + body);
    // A completion asked for before it has begun would take the only place.
    std::string metrics;
    while (metrics.find("lockstep_waiting 1\n") == std::string::npos)
      metrics = request(told.port, "GET", "/metrics").body;
    const HttpAnswer refused = told.post("/v1/completions", {{"prompt", "a"}, {"max_tokens", 1}});
    EXPECT_EQ(refused.status, 429);
    EXPECT_THAT(refused.head, HasSubstr("Retry-After"));
  }
  HttpAnswer answer;
  const auto start = std::chrono::steady_clock::now();
  while (answer.status != 200 && std::chrono::steady_clock::now() - start < std::chrono::seconds(60)) {
    answer = told.post("/v1/completions", {{"prompt", "a"}, {"max_tokens", 1}});
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_EQ(answer.status, 200);
  // It is counted when its place is free already.
  std::string metrics;
  for (int tries = 0; tries < 500 && metrics.find("status=\"499\"} 1") == std::string::npos; ++tries) {
    metrics = request(told.port, "GET", "/metrics").body;
  }
  EXPECT_THAT(metrics, HasSubstr("status=\"499\"} 1"));
}

// Half a million tokens are not drawn within a second.
TEST(LanguageService, AnswersThatTakeTooLongAreErrors) {
  LOCKSTEP_REQUIRE_DATA(stories());
  LanguageService service({.model = models::load_language_model(stories()),
                           .tokenizer = text::Tokenizer::load(stories()),
                           .chat = {},
                           .name = "stories",
                           .fingerprint = "fp_test",
                           .device = {}});
  HttpServer http({.port = 0, .request_seconds = 1});
  service.add_to(http);
  const int port = test::port_of(http.start());
  json body = {{"prompt", std::vector<std::string>(64, "Once")}, {"max_tokens", 500}, {"n", 16}};
  const HttpAnswer whole = request(port, "POST", "/v1/completions", body.dump());
  EXPECT_EQ(whole.status, 504);
  EXPECT_THAT(whole.body, HasSubstr("longer than 1 seconds"));
  body["stream"] = true;
  const HttpAnswer streamed = request(port, "POST", "/v1/completions", body.dump());
  EXPECT_THAT(streamed.body, HasSubstr("\"code\":504"));
  EXPECT_THAT(streamed.body, testing::Not(HasSubstr("[DONE]")));
}

TEST(LanguageService, RefusesMoreRequestsThanItMayAnswerAtATime) {
  LOCKSTEP_REQUIRE_DATA(stories());
  const Told told(1);
  const std::string body = R"({"prompt":"Once","max_tokens":500,"n":16,"stream":true})";  // ends with its client
  const test::Connection busy(told.port);
  busy.send("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: " +
            std::to_string(body.size()) + "\r\n\r\n" + body);
  EXPECT_THAT(busy.read_some(), HasSubstr("200 OK"));  // it is being answered
  EXPECT_EQ(told.post("/v1/completions", {{"prompt", "a"}, {"max_tokens", 1}}).status, 429);
}

TEST(LanguageService, TokensAndBack) {
  LOCKSTEP_REQUIRE_DATA(stories());
  const Told told;
  const json tokens = told.post("/tokenize", {{"content", "Tom had a dog"}}).json();
  EXPECT_EQ(tokens.at("tokens"),
            text::Tokenizer::load(stories()).encode("Tom had a dog", {.add_special_tokens = false}));
  EXPECT_THAT(told.post("/detokenize", tokens).json().at("content").get<std::string>(), HasSubstr("Tom had a dog"));
  EXPECT_EQ(told.post("/detokenize", {{"tokens", {99999999}}}).status, 400);
  EXPECT_EQ(told.post("/detokenize", {{"tokens", "x"}}).status, 400);
  EXPECT_EQ(told.post("/tokenize", {{"content", 3}}).status, 400);
  EXPECT_EQ(request(told.port, "GET", "/v1/models").json().at("data").at(0).at("id"), "stories");
}

}  // namespace
}  // namespace v0
}  // namespace lockstep

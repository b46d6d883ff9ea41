// /v1/rerank, of a cross-encoder.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <lockstep/lockstep.h>
#include <lockstep/models/columns.h>
#include <lockstep/models/rerank.h>

#include "server/language.h"
#include "support/data.h"
#include "support/http_client.h"
#include "support/ranks.h"

namespace lockstep {
inline namespace v0 {
namespace {

using nlohmann::json;
using testing::HasSubstr;

const std::string kQuery = "what do cats eat";
const std::vector<std::string> kDocuments = {"A dog runs through the park!", "Cats eat fish.", "It rains."};

std::string bert() {
  return test::repository_data("rerank/bert").string();
}

struct RerankServer {
  explicit RerankServer(bool scores = true) : service(served(scores)), http({.port = 0}) {
    service.add_to(http);
    port = test::port_of(http.start());
  }
  static server::ServedLanguageModel served(bool scores) {
    server::ServedLanguageModel result{.model = models::load_language_model(bert()),
                                       .tokenizer = text::Tokenizer::load(bert()),
                                       .chat = {},
                                       .name = "m",
                                       .fingerprint = "fp",
                                       .device = {},
                                       .pooling = models::Pooling::mean};
    if (scores) result.rerank = models::rerank_form_of(bert(), *result.model);
    return result;
  }
  test::HttpAnswer post(const json& body, const std::string& path = "/v1/rerank") const {
    return test::request(port, "POST", path, body.dump());
  }
  server::LanguageService service;
  server::HttpServer http;
  int port = 0;
};

TEST(ServedRerank, IsThatOfTheLibrary) {
  const RerankServer server;
  const auto model = models::load_language_model(bert());
  const text::Tokenizer tokenizer = text::Tokenizer::load(bert());
  const models::RerankForm form = models::rerank_form_of(bert(), *model);
  const std::vector<float> scores = models::rerank(*model, tokenizer, kQuery, kDocuments, form);
  const auto order = models::best_first(scores);
  std::size_t tokens = 0;
  for (const std::string& document : kDocuments) {
    tokens += models::rerank_tokens(tokenizer, form, kQuery, document).ids.size();
  }
  const test::HttpAnswer answer = server.post({{"model", "m"}, {"query", kQuery}, {"documents", kDocuments}});
  ASSERT_EQ(answer.status, 200) << answer.body;
  const json results = answer.json().at("results");
  ASSERT_EQ(results.size(), 3u);
  for (std::size_t i = 0; i < results.size(); ++i) {
    EXPECT_EQ(results[i].at("index"), order[i]);
    EXPECT_EQ(results[i].at("relevance_score").get<float>(), scores[order[i]]);
    EXPECT_FALSE(results[i].contains("document"));
  }
  EXPECT_EQ(answer.json().at("usage").at("total_tokens"), tokens);
  const Tensor logits =
      models::label_logits(*model, models::rerank_tokens(tokenizer, form, kQuery, kDocuments[order[0]]));
  EXPECT_EQ(results[0].at("logits_hash"), fmt::format("{:016x}", logits.hash()));

  const json best = server
                        .post({{"query", kQuery},
                               {"documents", {kDocuments[0], {{"text", kDocuments[1]}}, kDocuments[2]}},
                               {"top_n", 1},
                               {"return_documents", true}})
                        .json()
                        .at("results");
  ASSERT_EQ(best.size(), 1u);
  EXPECT_EQ(best[0].at("document"), (json{{"text", kDocuments[order[0]]}}));
}

// Half of the projections each.
TEST(ServedRerank, TwoRanksGiveTheSameBits) {
  const text::TokenPair pair = text::Tokenizer::load(bert()).encode_pair(kQuery, kDocuments[0]);
  const Tensor expected = models::label_logits(*models::load_language_model(bert()), pair);
  const auto ends = test::run_ranks(2, [&](const dist::Group& group) {
    const auto orders = std::make_shared<dist::Orders>(group, std::chrono::milliseconds(20));
    const auto model = models::load_language_model(bert());
    models::divide_columns(*model, group, Device{});
    server::ModelSteps steps(*model, Device{}, Numerics::exact, 0, orders);
    if (group.rank() == 1) {
      steps.follow();
      return;
    }
    EXPECT_EQ(steps.label_logits(pair).hash(), expected.hash());
    orders->end();
  });
  test::expect_success(ends);
}

TEST(ServedRerank, RefusesWhatMakesNoSense) {
  const RerankServer server;
  const auto message = [](const RerankServer& by, const json& body, int status = 400) {
    const test::HttpAnswer answer = by.post(body);
    EXPECT_EQ(answer.status, status) << body;
    return answer.body;
  };
  const json good = {{"query", "a"}, {"documents", {"b"}}};
  const auto with = [&](const std::string& key, const json& value) {
    json body = good;
    body[key] = value;
    return body;
  };
  EXPECT_EQ(server.post(good).status, 200);
  EXPECT_THAT(message(server, {{"query", "a"}}), HasSubstr("there are no documents"));
  EXPECT_THAT(message(server, with("documents", json::array())), HasSubstr("there are no documents"));
  EXPECT_THAT(message(server, with("documents", {1})), HasSubstr("a list of texts"));
  EXPECT_THAT(message(server, with("documents", std::vector<std::string>(1001, "a"))), HasSubstr("at most 1000"));
  EXPECT_THAT(message(server, {{"documents", {"b"}}}), HasSubstr("query is missing"));
  EXPECT_THAT(message(server, with("query", "")), HasSubstr("query is missing or empty"));
  EXPECT_THAT(message(server, with("query", " ")), HasSubstr("query has no tokens"));
  EXPECT_THAT(message(server, with("top_n", 0)), HasSubstr("top_n"));
  EXPECT_THAT(message(server, with("rank_fields", {"a"})), HasSubstr("\\\"rank_fields\\\" is no parameter"));
  EXPECT_THAT(message(server, with("model", "x"), 404), HasSubstr("no model"));
  EXPECT_THAT(message(RerankServer(false), good), HasSubstr("gives no scores"));
  EXPECT_THAT(server.post({{"prompt", "a"}}, "/v1/completions").body, HasSubstr("/v1/rerank"));
}

}  // namespace
}  // namespace v0
}  // namespace lockstep

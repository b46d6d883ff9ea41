// /v1/embeddings, of an encoder and of a decoder.
#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <lockstep/lockstep.h>
#include <lockstep/models/embed_text.h>

#include "server/language.h"
#include "support/data.h"
#include "support/http_client.h"

namespace lockstep {
inline namespace v0 {
namespace {

using nlohmann::json;
using testing::HasSubstr;

std::string stories_weights() {
  return (test::test_data("tinyllm") / "stories260K-f32.gguf").string();
}

struct EmbeddingServer {
  explicit EmbeddingServer(const std::string& model)
      : service({.model = models::load_language_model(model),
                 .tokenizer = text::Tokenizer::load(stories_weights()),
                 .chat = {},
                 .name = "m",
                 .fingerprint = "fp",
                 .device = {},
                 .pooling = models::Pooling::mean}),
        http({.port = 0}) {
    service.add_to(http);
    port = test::port_of(http.start());
  }
  test::HttpAnswer post(const json& body, const std::string& path = "/v1/embeddings") const {
    return test::request(port, "POST", path, body.dump());
  }
  server::LanguageService service;
  server::HttpServer http;
  int port = 0;
};

std::vector<float> from_base64(const std::string& text) {
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  std::uint32_t group = 0;
  int bits = 0;
  for (const char c : text) {
    if (c == '=') break;
    group = group << 6 | static_cast<std::uint32_t>(digits.find(c));
    if ((bits += 6) >= 8) bytes += static_cast<char>(group >> (bits -= 8) & 255);
  }
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

// As many as programs send at a time.
TEST(Embeddings, TakeManyTexts) {
  LOCKSTEP_REQUIRE_DATA(stories_weights());
  const EmbeddingServer server(stories_weights());
  const test::HttpAnswer answer = server.post({{"input", std::vector<std::string>(300, "Tom")}});
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.json().at("data").size(), 300u);
  EXPECT_EQ(answer.json().at("data").at(299).at("index"), 299);
  EXPECT_EQ(answer.json().at("data").at(299).at("hash"), answer.json().at("data").at(0).at("hash"));
  EXPECT_THAT(server.post({{"input", std::vector<std::string>(2049, "")}}).body, HasSubstr("at most 2048"));
}

TEST(Embeddings, AreThoseOfEmbedText) {
  LOCKSTEP_REQUIRE_DATA(stories_weights());
  const EmbeddingServer server(stories_weights());
  const auto model = models::load_language_model(stories_weights());
  const text::Tokenizer tokenizer = text::Tokenizer::load(stories_weights());
  const test::HttpAnswer answer = server.post({{"model", "m"}, {"input", {"Tom had a dog", "Once"}}});
  ASSERT_EQ(answer.status, 200) << answer.body;
  const json data = answer.json().at("data");
  ASSERT_EQ(data.size(), 2u);
  const auto tokens = tokenizer.encode("Tom had a dog");
  const Tensor expected = models::embed_text(*model, tokens, {.pooling = models::Pooling::mean});
  EXPECT_EQ(data[0].at("embedding").get<std::vector<float>>(), expected.to_vector<float>());
  EXPECT_EQ(data[0].at("hash"), fmt::format("{:016x}", expected.hash()));
  EXPECT_EQ(data[1].at("index"), 1);
  EXPECT_EQ(answer.json().at("usage").at("prompt_tokens"), tokens.size() + tokenizer.encode("Once").size());
  // Alone, as tokens, and as the official client wants it.
  const json again = server.post({{"input", tokens}, {"encoding_format", "base64"}, {"dimensions", 64}}).json();
  EXPECT_EQ(from_base64(again.at("data")[0].at("embedding").get<std::string>()), expected.to_vector<float>());
}

TEST(Embeddings, OfFewerDimensionsAreTheFirstNumbersOfLengthOne) {
  LOCKSTEP_REQUIRE_DATA(stories_weights());
  const EmbeddingServer server(stories_weights());
  const auto model = models::load_language_model(stories_weights());
  const auto tokens = text::Tokenizer::load(stories_weights()).encode("Tom had a dog");
  const Tensor whole = models::embed_text(*model, tokens, {.pooling = models::Pooling::mean});
  for (const std::int64_t count : {1, 10, 63}) {
    const json data = server.post({{"input", tokens}, {"dimensions", count}}).json().at("data").at(0);
    const Tensor expected = normalize(whole.narrow(0, 0, count), 2, 0).eval();
    const auto values = data.at("embedding").get<std::vector<float>>();
    EXPECT_EQ(values, expected.to_vector<float>());
    EXPECT_EQ(data.at("hash"), fmt::format("{:016x}", expected.hash()));
    double squares = 0;
    for (const float value : values) squares += static_cast<double>(value) * value;
    EXPECT_NEAR(squares, 1.0, 1e-6);
  }
}

TEST(Embeddings, OfAnEncoderAndNothingElse) {
  const std::string bert = test::test_data("lm/bert").string();
  LOCKSTEP_REQUIRE_DATA(bert);
  const EmbeddingServer server(bert);
  const json data = server.post({{"input", {5, 6, 7}}}).json().at("data");
  const auto model = models::load_language_model(bert);
  EXPECT_EQ(data.at(0).at("embedding").get<std::vector<float>>(),
            models::embed_text(*model, {5, 6, 7}).to_vector<float>());
  EXPECT_THAT(server.post({{"prompt", "a"}}, "/v1/completions").body, HasSubstr("an encoder"));
  for (const auto& [body, message] :
       std::vector<std::pair<json, std::string>>{{{{"input", json::array()}}, "input must be"},
                                                 {json::object(), "input is missing"},
                                                 {{{"input", {100000}}}, "no token 100000"},
                                                 {{{"input", {5}}, {"dimensions", 0}}, "dimensions must be"},
                                                 {{{"input", {5}}, {"dimensions", "3"}}, "dimensions must be"},
                                                 {{{"input", {5}}, {"dimensions", 1000000}}, "dimensions is at most"},
                                                 {{{"input", {5}}, {"dimensions", INT64_MAX}}, "dimensions is at most"},
                                                 {{{"input", {5}}, {"encoding_format", "hex"}}, "encoding_format"},
                                                 {{{"input", {5}}, {"n", 1}}, "is no parameter"},
                                                 {{{"input", std::vector<int>(5000, 5)}}, "the model reads"}}) {
    const test::HttpAnswer answer = server.post(body);
    EXPECT_EQ(answer.status, 400) << body;
    EXPECT_THAT(answer.body, HasSubstr(message));
  }
  EXPECT_EQ(server.post({{"model", "x"}, {"input", {5}}}).status, 404);
}

}  // namespace
}  // namespace v0
}  // namespace lockstep

// A service of stories260K, and what it answers.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <lockstep/lockstep.h>

#include "server/language.h"
#include "support/data.h"
#include "support/http_client.h"

namespace lockstep::test {

inline std::string stories() {
  return (test_data("tinyllm") / "stories260K-f32.gguf").string();
}

inline constexpr const char* kTemplate = "{% for m in messages %}{{ m['content'] }}{% endfor %}";

// A server of stories260K; its conversations are their messages' texts.
struct Told {
  explicit Told(int most_requests = 32, std::int64_t prefix_bytes = std::int64_t{1} << 24)
      : Told(server::ServedLanguageModel{.model = models::load_language_model(stories()),
                                         .tokenizer = text::Tokenizer::load(stories()),
                                         .chat = text::ChatTemplate(kTemplate),
                                         .name = "stories",
                                         .fingerprint = "fp_test",
                                         .device = {},
                                         .most_requests = most_requests,
                                         .pooling = models::Pooling::last,
                                         .prefix_bytes = prefix_bytes}) {}
  explicit Told(server::ServedLanguageModel served)
      : service(std::move(served)),
        http({.port = 0, .body_bytes = 100000, .connections = 32, .waiting = 32, .seconds = 2}) {
    service.add_to(http);
    port = port_of(http.start());
  }
  HttpAnswer post(const std::string& path, const nlohmann::json& body) const {
    return request(port, "POST", path, body.dump());
  }
  nlohmann::json completion(nlohmann::json body) const {
    body["model"] = "stories";
    const HttpAnswer answer = post("/v1/completions", body);
    EXPECT_EQ(answer.status, 200) << answer.body;
    return answer.json();
  }
  server::LanguageService service;
  server::HttpServer http;
  int port = 0;
};

// What is between the chunks' sizes of a streamed answer.
inline std::string unchunked(const std::string& body) {
  std::string result;
  for (std::size_t at = 0; at < body.size();) {
    const std::size_t line = body.find("\r\n", at);
    if (line == std::string::npos) break;
    const std::size_t size = std::stoul(body.substr(at, line - at), nullptr, 16);
    result += body.substr(line + 2, size);
    at = line + 2 + size + 2;
  }
  return result;
}

inline std::vector<nlohmann::json> events_of(const std::string& body) {
  std::vector<nlohmann::json> result;
  const std::string text = unchunked(body);
  EXPECT_TRUE(text.ends_with("data: [DONE]\n\n")) << text;
  for (std::size_t at = 0; (at = text.find("data: {", at)) != std::string::npos; ++at) {
    result.push_back(nlohmann::json::parse(text.substr(at + 6, text.find("\n\n", at) - at - 6)));
  }
  return result;
}

}  // namespace lockstep::test

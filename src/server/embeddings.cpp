// /v1/embeddings: texts as vectors.
#include <bit>
#include <cstdint>
#include <optional>

#include <fmt/format.h>

#include <lockstep/ops.h>

#include "core/base64.h"
#include "server/job.h"
#include "server/language.h"

namespace lockstep {
inline namespace v0 {
namespace server {
namespace {

constexpr int kEmbeddingDepth = 4;
constexpr std::size_t kMostTexts = 2048;  // as OpenAI has it

// Of the little-endian bytes.
std::string base64_of_floats(const std::vector<float>& values) {
  static_assert(std::endian::native == std::endian::little);
  return base64_of({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
}

// The first `count` numbers, of length 1 again: of a model that was taught so (Matryoshka) these are a vector, too.
Tensor first_of(const Tensor& vector, std::optional<std::int64_t> count) {
  if (!count || *count == vector.numel()) return vector;
  if (*count > vector.numel()) {
    throw HttpError(400,
                    fmt::format("dimensions is at most {} here, the length of this model's vectors", vector.numel()));
  }
  return models::first_dimensions(vector, *count).eval();
}

}  // namespace

Response LanguageService::embeddings(HttpServer& server, const Request& given) {
  const Json json = object_of(given.body, kEmbeddingDepth);
  CompletionRequest request;
  bool as_base64 = false;
  std::optional<std::int64_t> dimensions;
  for (const auto& [key, value] : json.items()) {
    if (value.is_null() || key == "user") continue;
    if (key == "input") {
      request.prompts = read_prompts(value, key, kMostTexts);
    } else if (key == "model" && value.is_string()) {
      check_model(value.get<std::string>());
    } else if (key == "encoding_format" && (value == "float" || value == "base64")) {
      as_base64 = value == "base64";
    } else if (key == "dimensions") {
      if (!value.is_number_integer() || value < 1)
        throw HttpError(400, "dimensions must be a whole number, at least 1");
      dimensions = value > INT32_MAX ? INT32_MAX : value.get<std::int64_t>();
    } else {
      throw HttpError(400,
                      fmt::format("\"{}\" is no parameter of embeddings, or has a value that is not offered", key));
    }
  }
  if (request.prompts.empty()) throw HttpError(400, "the input is missing");
  const auto texts = server.in_turn([&] { return prompts_of(request); });
  std::size_t count = 0;
  for (const auto& tokens : texts) {
    count += tokens.size();
    for (const std::int64_t token : tokens) {
      if (token >= served_.model->vocabulary()) throw HttpError(400, fmt::format("there is no token {}", token));
    }
  }
  Json data = Json::array();
  for (const auto& tokens : texts) {
    check_wanted(given);
    const Tensor vector =
        server.step_in_turn([&] { return first_of(steps_.embed(tokens, served_.pooling), dimensions); });
    const std::vector<float> values = vector.to_vector<float>();
    data.push_back(Members()
                       .add("object", "embedding")
                       .add("index", data.size())
                       .add("embedding", as_base64 ? Json(base64_of_floats(values)) : Json(values))
                       .add("hash", fmt::format("{:016x}", vector.hash()))
                       .take());
  }
  return json_response(Members()
                           .add("object", "list")
                           .add("data", data)
                           .add("model", served_.name)
                           .add("usage", usage_of_prompt(count)));
}

}  // namespace server
}  // namespace v0
}  // namespace lockstep

// /v1/rerank: how well documents answer a query, in the form that Jina, Cohere and llama.cpp gave it.
#include <algorithm>

#include <fmt/format.h>

#include "server/job.h"
#include "server/language.h"

namespace lockstep {
inline namespace v0 {
namespace server {
namespace {

constexpr int kRerankDepth = 4;
constexpr std::size_t kMostDocuments = 1000;

struct RerankRequest {
  std::string query;
  std::vector<std::string> documents;
  std::size_t most = kMostDocuments;  // results
  bool return_documents = false;
};

// A text, or an object with one, as Jina's clients send it.
std::string document_of(const Json& value) {
  const Json* text = &value;
  if (value.is_object() && value.size() == 1 && value.contains("text")) text = &value["text"];
  if (!text->is_string()) throw HttpError(400, "documents must be a list of texts");
  return text->get<std::string>();
}

void read_field(const std::string& key, const Json& value, RerankRequest& request) {
  if (key == "query" && value.is_string()) {
    request.query = value.get<std::string>();
  } else if (key == "documents" && value.is_array()) {
    if (value.size() > kMostDocuments) throw HttpError(400, fmt::format("at most {} documents", kMostDocuments));
    for (const Json& document : value) request.documents.push_back(document_of(document));
  } else if (key == "top_n" && value.is_number_unsigned() && value > 0) {
    request.most = static_cast<std::size_t>(value.get<std::uint64_t>());
  } else if (key == "return_documents" && value.is_boolean()) {
    request.return_documents = value.get<bool>();
  } else {
    throw HttpError(400, fmt::format("\"{}\" is no parameter of rerank, or has a value that is not offered", key));
  }
}

}  // namespace

Response LanguageService::rerank(HttpServer& server, const Request& given) {
  RerankRequest request;
  const Json json = object_of(given.body, kRerankDepth);
  for (const auto& [key, value] : json.items()) {
    if (value.is_null() || key == "user") continue;
    if (key == "model" && value.is_string()) {
      check_model(value.get<std::string>());
    } else {
      read_field(key, value, request);
    }
  }
  if (!served_.rerank) throw HttpError(400, "this model gives no scores: it has no head for one label");
  if (request.query.empty()) throw HttpError(400, "the query is missing or empty");
  if (request.documents.empty()) throw HttpError(400, "there are no documents");
  std::size_t tokens = 0;
  std::vector<float> scores;
  std::vector<std::string> hashes;
  server.in_turn([] {});  // may be refused; what has begun is not
  for (const std::string& document : request.documents) {
    check_wanted(given);
    const Tensor logits = server.step_in_turn([&] {
      const text::TokenPair pair = models::rerank_tokens(served_.tokenizer, *served_.rerank, request.query, document);
      tokens += pair.ids.size();
      return steps_.label_logits(pair);
    });
    scores.push_back(models::rerank_score(logits, *served_.rerank));
    hashes.push_back(fmt::format("{:016x}", logits.hash()));
  }
  Json results = Json::array();
  for (const std::size_t index : models::best_first(scores)) {
    if (results.size() == request.most) break;
    Members result;
    result.add("index", index).add("relevance_score", scores[index]).add("logits_hash", hashes[index]);
    if (request.return_documents) result.add("document", Members().add("text", request.documents[index]).take());
    results.push_back(result.take());
  }
  return json_response(Members()
                           .add("object", "list")
                           .add("model", served_.name)
                           .add("results", results)
                           .add("usage", usage_of_prompt(tokens)));
}

}  // namespace server
}  // namespace v0
}  // namespace lockstep

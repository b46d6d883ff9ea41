// What `lockstep serve` does with a language model: OpenAI's interface for completions, chat, and tokens. Documented in
// docs/serving.md.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include <lockstep/models/language.h>
#include <lockstep/text/chat_template.h>
#include <lockstep/text/tokenizer.h>

#include "server/completion_request.h"
#include "server/http.h"

namespace lockstep {
inline namespace v0 {
namespace server {

struct ServedLanguageModel {
  std::unique_ptr<models::LanguageModel> model;  ///< a decoder
  text::Tokenizer tokenizer;
  std::optional<text::ChatTemplate> chat;  ///< without one there is no /v1/chat/completions
  std::string name;
  std::string fingerprint;  ///< of the weights and the library: system_fingerprint
  Device device;
  int most_requests = 32;  ///< that are answered at a time; further ones get 429
};

/// Adds its addresses to a server, which it must outlive. Requests take turns, one pass of the model each.
class LanguageService {
 public:
  explicit LanguageService(ServedLanguageModel served) : served_(std::move(served)) {}
  void add_to(HttpServer& server);

 private:
  struct Job;

  Response complete(HttpServer& server, const Request& request, bool chat);
  Response whole(HttpServer& server, const std::shared_ptr<Job>& job) const;
  void stream(HttpServer& server, Job& job, const Write& write) const;
  Response tokenize(HttpServer& server, const Request& request) const;
  Response detokenize(HttpServer& server, const Request& request) const;
  std::vector<std::vector<std::int64_t>> prompts_of(const CompletionRequest& request) const;
  void limit(Job& job) const;
  Json logprobs_of(const Piece& piece, bool chat) const;
  Json head_of(const Job& job, bool chunk) const;

  ServedLanguageModel served_;
  std::atomic<int> active_ = 0;
  std::atomic<std::uint64_t> answered_ = 0;
};

}  // namespace server
}  // namespace v0
}  // namespace lockstep

// What `lockstep serve` does with a language model: OpenAI's interface for completions, chat, embeddings and tokens.
// Documented in docs/serving.md.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <lockstep/models/embed_text.h>
#include <lockstep/models/language.h>
#include <lockstep/models/rerank.h>
#include <lockstep/numerics.h>
#include <lockstep/text/chat_template.h>
#include <lockstep/text/tokenizer.h>

#include "server/answer.h"
#include "server/batcher.h"
#include "server/completion_request.h"
#include "server/http.h"

namespace lockstep {
inline namespace v0 {
namespace server {

struct Job;

struct ServedLanguageModel {
  std::unique_ptr<models::LanguageModel> model;  ///< an encoder gives embeddings alone
  text::Tokenizer tokenizer;
  std::optional<text::ChatTemplate> chat;  ///< without one there is no /v1/chat/completions
  std::string name;
  std::string fingerprint;  ///< of the weights and the library: system_fingerprint
  bool thoughts_apart = true;  ///< of answers in chats, unless a request says otherwise
  std::string date = {};    ///< for templates that ask for it: text::ChatTemplateOptions::now
  Device device;
  Numerics numerics = Numerics::exact;                  ///< that the model computes in
  int most_requests = 32;                               ///< that are answered at a time; further ones get 429
  models::Pooling pooling = models::Pooling::last;      ///< of /v1/embeddings
  std::optional<models::RerankForm> rerank = {};        ///< without one there is no /v1/rerank
  std::int64_t prefix_bytes = std::int64_t{256} << 20;  ///< of what was read, for texts that begin alike
  std::shared_ptr<dist::Orders> orders = {};  ///< for the ranks that have a part of the model; null: one process
};

/// Adds its addresses to a server, which it must outlive. Prompts are read in turns; requests that draw tokens share a
/// pass of the model.
class LanguageService {
 public:
  explicit LanguageService(ServedLanguageModel served);
  void add_to(HttpServer& server);

 private:
  std::shared_ptr<Job> begin(HttpServer& server, const Request& given, const Json& asked, bool chat);
  static Response streamed(std::function<void(const Write&)> work);
  Response complete(HttpServer& server, const Request& request, bool chat);
  Response respond(HttpServer& server, const Request& request);
  Json response_to(HttpServer& server, const Job& job, const Json& asked,
                   const std::function<bool(const Json& event)>& emit);
  std::vector<std::unique_ptr<Completion>> answers_to(const Job& job, std::size_t prompt);
  Response whole(HttpServer& server, const Request& given, const Job& job);
  void stream(HttpServer& server, Job& job, const Write& write);
  Response embeddings(HttpServer& server, const Request& request);
  Response rerank(HttpServer& server, const Request& request);
  Response apply_template(HttpServer& server, const Request& request) const;
  Response tokenize(HttpServer& server, const Request& request) const;
  Response detokenize(HttpServer& server, const Request& request) const;
  Json model_card() const;
  std::string chat_text(const CompletionRequest& request, bool generation_prompt = true) const;
  std::vector<std::int64_t> tokens_of(const std::string& text, bool special) const;
  void read_chat(Job& job) const;
  std::vector<std::vector<std::int64_t>> prompts_of(const CompletionRequest& request) const;
  void check_model(const std::string& name) const;
  void limit(Job& job) const;
  Answer answer_of(const Job& job, std::size_t index, const std::string& text, bool whole) const;
  Json choice_of(const Job& job, std::size_t index, const Completion& completion) const;
  std::string text_of_token(std::int64_t token) const;
  Json logprobs_of(const Piece& piece, bool chat) const;
  Json logprobs_of_first(std::int64_t token) const;
  std::string shown_prompt(const Job& job, std::size_t choice) const;
  Json head_of(const Job& job, bool chunk) const;

  ServedLanguageModel served_;
  text::TokenTexts texts_;
  std::optional<AnswerForm> answers_;  // where there is a chat template
  ModelSteps steps_;
  Batcher batcher_;
  std::size_t most_bytes_;  // of a prompt
  std::atomic<int> active_ = 0;
  std::atomic<std::uint64_t> answered_ = 0;
};

}  // namespace server
}  // namespace v0
}  // namespace lockstep

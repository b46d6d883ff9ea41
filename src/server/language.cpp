#include "server/language.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "server/infill.h"
#include "server/job.h"

namespace lockstep {
inline namespace v0 {
namespace server {
namespace {

// Of an answer whose client named no limit, where the model has none either.
constexpr std::int64_t kMostTokens = 4096;

// Of a text that may fit the context: four times what as many of the longest tokens have, since normalizers shorten.
// Longer ones are refused before they are cut into tokens, which takes their time.
std::size_t most_bytes(const models::LanguageModel& model, const text::Tokenizer& tokenizer) {
  if (model.context() <= 0 || model.encoder()) return SIZE_MAX;
  std::size_t longest = 0;
  for (std::int64_t id = 0; id < tokenizer.size(); ++id) {
    longest = std::max(longest, tokenizer.token(id).value_or("").size());
  }
  return 4 * longest * static_cast<std::size_t>(model.context());
}

}  // namespace

LanguageService::LanguageService(ServedLanguageModel served)
    : served_(std::move(served)),
      texts_(served_.tokenizer),
      steps_(*served_.model, served_.device, served_.numerics, served_.prefix_bytes, served_.orders),
      batcher_(steps_),
      most_bytes_(most_bytes(*served_.model, served_.tokenizer)) {
  if (served_.chat) answers_.emplace(*served_.chat, served_.tokenizer);
}

void LanguageService::add_to(HttpServer& server) {
  server.get("/v1/models", "/v1/models", [this](const Request&) {
    return json_response(Members().add("object", "list").add("data", Json::array({model_card()})));
  });
  server.get("/v1/models/(.+)", "/v1/models/NAME", [this](const Request& request) {
    check_model(request.parts.at(0));
    return json_response(model_card());
  });
  server.post("/v1/completions", "/v1/completions",
              [&](const Request& request) { return complete(server, request, false); });
  server.post("/v1/chat/completions", "/v1/chat/completions",
              [&](const Request& request) { return complete(server, request, true); });
  server.post("/v1/responses", "/v1/responses", [&](const Request& request) { return respond(server, request); });
  server.post("/v1/embeddings", "/v1/embeddings", [&](const Request& request) { return embeddings(server, request); });
  server.post("/v1/rerank", "/v1/rerank", [&](const Request& request) { return rerank(server, request); });
  server.post("/apply-template", "/apply-template",
              [&](const Request& request) { return apply_template(server, request); });
  server.post("/tokenize", "/tokenize", [&](const Request& request) { return tokenize(server, request); });
  server.post("/detokenize", "/detokenize", [&](const Request& request) { return detokenize(server, request); });
}

Json LanguageService::model_card() const {
  Members card;
  card.add("id", served_.name).add("object", "model").add("created", 0).add("owned_by", "lockstep");
  if (const std::int64_t context = served_.model->context(); context > 0) card.add("max_model_len", context);
  return card;
}

std::string LanguageService::chat_text(const CompletionRequest& request, bool generation_prompt) const {
  if (!served_.chat) throw HttpError(400, "this model has no chat template: use /v1/completions");
  return served_.chat->apply_json(
      text_of(answers_->variables(request)),
      {.generation_prompt = generation_prompt, .now = served_.date, .variables = text_of(request.variables)});
}

std::vector<std::int64_t> LanguageService::tokens_of(const std::string& text, bool special) const {
  if (text.size() > most_bytes_) {
    throw HttpError(400,
                    fmt::format("the model has a context of {} tokens, which do not hold the {} bytes of the prompt",
                                served_.model->context(), text.size()));
  }
  return served_.tokenizer.encode(text, {.add_special_tokens = special});
}

// The prompt of a conversation, and how its answer is to be read.
void LanguageService::read_chat(Job& job) const {
  const std::string prompt = chat_text(job.request);
  job.prompts = {tokens_of(prompt, false)};
  job.reading.calls = job.request.may_call();
  job.reading.apart = job.request.thoughts_apart.value_or(served_.thoughts_apart);
  if (answers_->may_open_thoughts(prompt)) job.reading.opened = chat_text(job.request, false) != prompt;
  answers_->prepare(job.request, job.reading, job.request.options);
}

std::vector<std::vector<std::int64_t>> LanguageService::prompts_of(const CompletionRequest& request) const {
  std::vector<std::vector<std::int64_t>> result;
  for (const auto& prompt : request.prompts) {
    const auto* text = std::get_if<std::string>(&prompt);
    auto tokens = text == nullptr ? std::get<1>(prompt) : tokens_of(*text, !request.suffix);
    if (request.suffix) tokens = infill_prompt(served_.tokenizer, tokens, *request.suffix);
    result.push_back(std::move(tokens));
  }
  return result;
}

// Fills in how many tokens an answer has at most, and refuses what cannot be answered.
void LanguageService::limit(Job& job) const {
  const std::int64_t context = served_.model->context();
  std::int64_t room = kMostTokens;
  for (const auto& prompt : job.prompts) {
    const auto length = static_cast<std::int64_t>(prompt.size());
    if (prompt.empty()) throw HttpError(400, "the prompt has no tokens");
    for (const std::int64_t token : prompt) {
      if (token >= served_.model->vocabulary()) throw HttpError(400, fmt::format("there is no token {}", token));
    }
    const std::int64_t asked = job.request.max_tokens.value_or(1);
    if (context > 0 && length + asked > context) {
      throw HttpError(
          400, fmt::format("the model has a context of {} tokens, but the prompt has {}, and {} are asked for", context,
                           length, asked));
    }
    if (context > 0) room = std::min(room, context - length);
  }
  if (job.request.max_tokens.value_or(0) > kMostTokens && context == 0) {
    throw HttpError(400, fmt::format("an answer has at most {} tokens", kMostTokens));
  }
  // OpenAI's defaults: 16 for texts, for answers as many as there is room for.
  job.request.options.max_tokens = job.request.max_tokens.value_or(job.chat ? room : std::min<std::int64_t>(room, 16));
}

void LanguageService::check_model(const std::string& name) const {
  if (name.empty() || name == served_.name) return;
  throw HttpError(404, fmt::format("there is no model \"{}\", only \"{}\"", name, served_.name));
}

Response LanguageService::apply_template(HttpServer& server, const Request& given) const {
  const CompletionRequest request = completion_request(object_of(given.body, kDepth), true);
  return server.in_turn([&] { return json_response(Members().add("prompt", chat_text(request))); });
}

Response LanguageService::tokenize(HttpServer& server, const Request& request) const {
  const Json json = object_of(request.body, kDepth);
  const auto content = json.find("content");
  const auto special = json.find("add_special");
  if (content == json.end() || !content->is_string()) throw HttpError(400, "content must be a text");
  if (special != json.end() && !special->is_boolean()) throw HttpError(400, "add_special must be true or false");
  return server.in_turn([&] {
    const bool added = special != json.end() && special->get<bool>();
    const auto tokens = served_.tokenizer.encode(content->get<std::string>(), {.add_special_tokens = added});
    return json_response(Members().add("tokens", Json(tokens)));
  });
}

Response LanguageService::detokenize(HttpServer& server, const Request& request) const {
  const Json json = object_of(request.body, kDepth);
  const auto tokens = json.find("tokens");
  if (tokens == json.end() || !tokens->is_array()) throw HttpError(400, "tokens must be a list of numbers");
  std::vector<std::int64_t> ids;
  for (const Json& token : *tokens) {
    if (!token.is_number_integer()) throw HttpError(400, "tokens must be a list of numbers");
    ids.push_back(token.get<std::int64_t>());
  }
  return server.in_turn([&] { return json_response(Members().add("content", served_.tokenizer.decode(ids))); });
}

}  // namespace server
}  // namespace v0
}  // namespace lockstep

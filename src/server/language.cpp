#include "server/language.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <functional>
#include <utility>

#include <fmt/format.h>

#include <lockstep/error.h>

namespace lockstep {
inline namespace v0 {
namespace server {
namespace {

// Of an answer whose client named no limit, where the model has none either.
constexpr std::int64_t kMostTokens = 4096;
constexpr int kDepth = 64;

std::string event(const Json& json) {
  return "data: " + text_of(json) + "\n\n";
}

}  // namespace

/// Counts a request while it is there.
class Place {
 public:
  Place(std::atomic<int>& count, int most) : count_(count) {
    if (++count_ > most) {
      --count_;
      throw HttpError(429, fmt::format("{} requests are being answered already: try again later", most));
    }
  }
  ~Place() { --count_; }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

 private:
  std::atomic<int>& count_;
};

/// A request that is being answered.
struct LanguageService::Job {
  Job(std::atomic<int>& count, int most) : place(count, most) {}

  Place place;
  bool chat = false;
  CompletionRequest request;
  std::vector<std::vector<std::int64_t>> prompts;
  std::optional<ToolForm> tools;  ///< how calls are written, where there may be some
  std::string id;
  std::int64_t created = 0;
  std::function<void()> check_time;

  std::size_t size() const { return prompts.size() * request.choices; }
  const std::vector<std::int64_t>& prompt(std::size_t choice) const { return prompts[choice / request.choices]; }
  CompletionOptions options(std::size_t choice) const {
    CompletionOptions result = request.options;
    result.sampling.seed += choice % request.choices;
    return result;
  }
  std::size_t prompt_tokens() const {
    std::size_t sum = 0;
    for (const auto& one : prompts) sum += one.size();
    return sum;
  }
};

LanguageService::LanguageService(ServedLanguageModel served)
    : served_(std::move(served)),
      texts_(served_.tokenizer),
      steps_(*served_.model, served_.device, served_.numerics, served_.prefix_bytes, served_.orders),
      batcher_(steps_) {
  if (!served_.chat) return;
  try {
    tools_ = with_marks(tool_form(*served_.chat), served_.tokenizer);
  } catch (const HttpError&) {   // it writes none, as requests with tools are told
  } catch (const ValueError&) {  // nor can the tokenizer
  }
}

void LanguageService::add_to(HttpServer& server) {
  server.get("/v1/models", "/v1/models", [this](const Request&) {
    return json_response({{"object", "list"}, {"data", Json::array({model_card()})}});
  });
  server.get("/v1/models/(.+)", "/v1/models/NAME", [this](const Request& request) {
    check_model(request.parts.at(0));
    return json_response(model_card());
  });
  server.post("/v1/completions", "/v1/completions",
              [&](const Request& request) { return complete(server, request, false); });
  server.post("/v1/chat/completions", "/v1/chat/completions",
              [&](const Request& request) { return complete(server, request, true); });
  server.post("/v1/embeddings", "/v1/embeddings", [&](const Request& request) { return embeddings(server, request); });
  server.post("/v1/rerank", "/v1/rerank", [&](const Request& request) { return rerank(server, request); });
  server.post("/apply-template", "/apply-template",
              [&](const Request& request) { return apply_template(server, request); });
  server.post("/tokenize", "/tokenize", [&](const Request& request) { return tokenize(server, request); });
  server.post("/detokenize", "/detokenize", [&](const Request& request) { return detokenize(server, request); });
}

Json LanguageService::model_card() const {
  Json card = {{"id", served_.name}, {"object", "model"}, {"created", 0}, {"owned_by", "lockstep"}};
  if (const std::int64_t context = served_.model->context(); context > 0) card["max_model_len"] = context;
  return card;
}

std::string LanguageService::chat_text(const CompletionRequest& request) const {
  if (!served_.chat) throw HttpError(400, "this model has no chat template: use /v1/completions");
  Json variables = {{"messages", tools_ ? messages_of(request.messages, *tools_) : request.messages}};
  if (request.tool_choice.kind != ToolChoice::Kind::none) variables["tools"] = request.tools;
  return served_.chat->apply_json(text_of(variables), {.now = served_.date, .variables = text_of(request.variables)});
}

std::vector<std::vector<std::int64_t>> LanguageService::prompts_of(const CompletionRequest& request) const {
  if (!request.messages.empty()) {
    return {served_.tokenizer.encode(chat_text(request), {.add_special_tokens = false})};
  }
  std::vector<std::vector<std::int64_t>> result;
  for (const auto& prompt : request.prompts) {
    const auto* text = std::get_if<std::string>(&prompt);
    result.push_back(text != nullptr ? served_.tokenizer.encode(*text) : std::get<1>(prompt));
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
    throw HttpError(400, fmt::format("max_tokens is at most {}", kMostTokens));
  }
  // OpenAI's defaults: 16 for texts, for answers as many as there is room for.
  job.request.options.max_tokens = job.request.max_tokens.value_or(job.chat ? room : std::min<std::int64_t>(room, 16));
}

void LanguageService::check_model(const std::string& name) const {
  if (name.empty() || name == served_.name) return;
  throw HttpError(404, fmt::format("there is no model \"{}\", only \"{}\"", name, served_.name));
}

Response LanguageService::complete(HttpServer& server, const Request& given, bool chat) {
  const auto job = std::make_shared<Job>(active_, served_.most_requests);
  job->chat = chat;
  job->check_time = given.check_time;
  job->request = completion_request(object_of(given.body, kDepth), chat);
  check_model(job->request.model);
  if (served_.model->encoder()) {
    throw HttpError(400, fmt::format("this model is an encoder: only /v1/embeddings{} offered",
                                     served_.rerank ? " and /v1/rerank are" : " is"));
  }
  server.in_turn([&] {
    job->prompts = prompts_of(job->request);
    if (job->request.tool_choice.kind == ToolChoice::Kind::none) return;
    job->tools = tools_ ? *tools_ : with_marks(tool_form(*served_.chat), served_.tokenizer);  // which says why not
    job->request.options.marks = job->tools->marks;
    job->request.options.grammar =
        text::Grammar::from_gbnf(tool_grammar(job->request.tools, job->request.tool_choice, *job->tools), "tools");
  });
  limit(*job);
  for (const auto& [token, bias] : job->request.options.sampling.logit_bias) {
    if (token >= served_.model->vocabulary())
      throw HttpError(400, fmt::format("logit_bias: there is no token {}", token));
  }
  job->id = fmt::format("{}-{:016x}", chat ? "chatcmpl" : "cmpl", ++answered_);
  job->created = static_cast<std::int64_t>(std::time(nullptr));
  if (!job->request.stream) return whole(server, given, *job);
  // By value: it is called when this function has returned.
  return {.type = "text/event-stream", .stream = [this, &server, job](const Write& write) {
            try {
              stream(server, *job, write);
            } catch (const std::exception& error) {
              const auto* told = dynamic_cast<const HttpError*>(&error);
              const int code = told == nullptr ? 500 : told->status;
              write(event({{"error", {{"message", error.what()}, {"type", "server_error"}, {"code", code}}}}));
            }
          }};
}

Json LanguageService::head_of(const Job& job, bool chunk) const {
  const char* object = job.chat ? (chunk ? "chat.completion.chunk" : "chat.completion") : "text_completion";
  return {{"id", job.id},
          {"object", object},
          {"created", job.created},
          {"model", served_.name},
          {"system_fingerprint", served_.fingerprint}};
}

// As it stands in a text, with its space; special tokens by their names.
std::string LanguageService::text_of_token(std::int64_t token) const {
  std::string bytes = served_.tokenizer.bytes(token);
  return bytes.empty() ? served_.tokenizer.decode({token}) : bytes;
}

Json LanguageService::logprobs_of(const Piece& piece, bool chat) const {
  const auto text = [&](const models::SampledToken& token) { return text_of_token(token.token); };
  if (!chat) {
    Json top = Json::object();
    for (const models::SampledToken& token : piece.alternatives) top[text(token)] = token.log_probability;
    return {{"tokens", {text(piece.token)}},
            {"token_logprobs", {piece.token.log_probability}},
            {"top_logprobs", Json::array({top})}};
  }
  const auto row = [&](const models::SampledToken& token) {
    const std::string shown = text(token);  // perhaps a part of a character, which only the bytes tell
    Json bytes = Json::array();
    for (const char byte : shown) bytes.push_back(static_cast<unsigned char>(byte));
    return Json{{"token", shown}, {"logprob", token.log_probability}, {"bytes", std::move(bytes)}};
  };
  Json result = row(piece.token);
  result["top_logprobs"] = Json::array();
  for (const models::SampledToken& token : piece.alternatives) result["top_logprobs"].push_back(row(token));
  return {{"content", Json::array({std::move(result)})}};
}

namespace {

// `reused` of the prompt's tokens were known from texts before.
Json usage_of(std::size_t prompt, std::size_t answer, std::int64_t reused) {
  return {{"prompt_tokens", prompt},
          {"completion_tokens", answer},
          {"total_tokens", prompt + answer},
          {"prompt_tokens_details", {{"cached_tokens", reused}}}};
}

// `more` is that of a further token.
void append_logprobs(Json& all, const Json& more) {
  if (all.is_null()) {
    all = more;
    return;
  }
  for (const auto& [key, list] : more.items()) {
    for (const Json& entry : list) all[key].push_back(entry);
  }
}

}  // namespace

// What of the prompt stands before an answer.
std::string LanguageService::shown_prompt(const Job& job, std::size_t choice) const {
  if (!job.request.echo) return "";
  const auto* text = std::get_if<std::string>(&job.request.prompts[choice / job.request.choices]);
  return text != nullptr ? *text : served_.tokenizer.decode(job.prompt(choice));
}

// Nothing is before the first token of a prompt, so that it has no probability.
Json LanguageService::logprobs_of_first(std::int64_t token) const {
  return {{"tokens", {text_of_token(token)}},
          {"token_logprobs", Json::array({nullptr})},
          {"top_logprobs", Json::array({nullptr})}};
}

// The whole of an answer, as a message or a text.
Json LanguageService::choice_of(const Job& job, std::size_t index, const Completion& completion) const {
  Json choice{{"index", index}};
  std::string reason = completion.finish_reason();
  if (!job.chat) {
    choice["text"] = shown_prompt(job, index) + completion.text();
  } else {
    Json message = {{"role", "assistant"}, {"content", completion.text()}};
    if (job.tools) {
      const ToolAnswer answer = tool_answer(completion.text(), *job.tools, fmt::format("{}_{}", job.id, index));
      message["content"] = answer.content.empty() && !answer.calls.empty() ? Json() : Json(answer.content);
      if (!answer.calls.empty()) message["tool_calls"] = answer.calls;
      if (!answer.calls.empty() && reason == "stop") reason = "tool_calls";
    }
    choice["message"] = std::move(message);
  }
  choice["logprobs"] = nullptr;
  choice["finish_reason"] = reason;
  choice["tokens_hash"] = completion.hash();
  return choice;
}

Response LanguageService::whole(HttpServer& server, const Request& given, const Job& job) {
  Json choices = Json::array();
  std::size_t drawn = 0;
  std::int64_t reused = 0;
  for (std::size_t i = 0; i < job.size(); ++i) {
    Completion completion(*served_.model, batcher_, served_.tokenizer, texts_, job.prompt(i), job.options(i));
    std::vector<Piece> pieces;
    while (completion.finish_reason().empty()) {
      if (given.left()) throw HttpError(499, "the client has left");
      given.check_time();
      std::optional<Piece> piece = completion.step(server);
      if (piece && job.request.logprobs) pieces.push_back(std::move(*piece));
    }
    Json logprobs = nullptr;
    if (job.request.options.scores_prompt) {
      logprobs = logprobs_of_first(job.prompt(i).front());
      pieces.insert(pieces.begin(), completion.scores().begin(), completion.scores().end());
    }
    for (const Piece& piece : pieces) append_logprobs(logprobs, logprobs_of(piece, job.chat));
    completion.rest();
    drawn += completion.tokens().size();
    reused += completion.reused();
    Json choice = choice_of(job, i, completion);
    choice["logprobs"] = std::move(logprobs);
    choices.push_back(std::move(choice));
  }
  Json answer = head_of(job, false);
  answer["choices"] = std::move(choices);
  answer["usage"] = usage_of(job.prompt_tokens(), drawn, reused);
  return json_response(answer);
}

void LanguageService::stream(HttpServer& server, Job& job, const Write& write) {
  std::size_t drawn = 0;
  std::int64_t reused = 0;
  for (std::size_t i = 0; i < job.size(); ++i) {
    const auto send = [&](const std::string& text, Json logprobs, const std::string& reason, const std::string& hash) {
      Json choice{{"index", i}};
      if (job.chat) {
        choice["delta"] = text.empty() && !reason.empty() ? Json::object() : Json{{"content", text}};
      } else {
        choice["text"] = text;
      }
      choice["logprobs"] = std::move(logprobs);
      choice["finish_reason"] = reason.empty() ? Json() : Json(reason);
      if (!hash.empty()) choice["tokens_hash"] = hash;
      Json chunk = head_of(job, true);
      chunk["choices"] = Json::array({std::move(choice)});
      return write(event(chunk));
    };
    if (job.chat) {
      Json chunk = head_of(job, true);
      chunk["choices"] = Json::array({{{"index", i},
                                       {"delta", {{"role", "assistant"}, {"content", ""}}},
                                       {"logprobs", nullptr},
                                       {"finish_reason", nullptr}}});
      if (!write(event(chunk))) return;
    }
    if (job.request.echo && !send(shown_prompt(job, i), nullptr, "", "")) return;
    Completion completion(*served_.model, batcher_, served_.tokenizer, texts_, job.prompt(i), job.options(i));
    while (completion.finish_reason().empty()) {
      job.check_time();
      const std::optional<Piece> piece = completion.step(server);
      if (job.tools && !write(": still here\n\n")) return;
      // Whether a text is a call is known at its end.
      if (!piece || job.tools || (piece->text.empty() && !job.request.logprobs)) continue;
      const Json logprobs = job.request.logprobs ? logprobs_of(*piece, job.chat) : Json();
      if (!send(piece->text, logprobs, "", "")) return;  // nobody listens any more
    }
    drawn += completion.tokens().size();
    reused += completion.reused();
    if (job.tools) {
      completion.rest();
      Json choice = choice_of(job, i, completion);
      Json delta = choice["message"];
      delta.erase("role");
      for (std::size_t call = 0; delta.contains("tool_calls") && call < delta["tool_calls"].size(); ++call) {
        delta["tool_calls"][call]["index"] = call;
      }
      choice.erase("message");
      choice["delta"] = std::move(delta);
      Json chunk = head_of(job, true);
      chunk["choices"] = Json::array({std::move(choice)});
      if (!write(event(chunk))) return;
      continue;
    }
    if (!send(completion.rest(), nullptr, completion.finish_reason(), completion.hash())) return;
  }
  if (job.request.include_usage) {
    Json chunk = head_of(job, true);
    chunk["choices"] = Json::array();
    chunk["usage"] = usage_of(job.prompt_tokens(), drawn, reused);
    if (!write(event(chunk))) return;
  }
  write("data: [DONE]\n\n");
}

Response LanguageService::apply_template(HttpServer& server, const Request& given) const {
  const CompletionRequest request = completion_request(object_of(given.body, kDepth), true);
  return server.in_turn([&] { return json_response({{"prompt", chat_text(request)}}); });
}

Response LanguageService::tokenize(HttpServer& server, const Request& request) const {
  const Json json = object_of(request.body, kDepth);
  const auto content = json.find("content");
  const auto special = json.find("add_special");
  if (content == json.end() || !content->is_string()) throw HttpError(400, "content must be a text");
  if (special != json.end() && !special->is_boolean()) throw HttpError(400, "add_special must be true or false");
  return server.in_turn([&] {
    const bool added = special != json.end() && special->get<bool>();
    return json_response(
        {{"tokens", served_.tokenizer.encode(content->get<std::string>(), {.add_special_tokens = added})}});
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
  return server.in_turn([&] { return json_response({{"content", served_.tokenizer.decode(ids)}}); });
}

}  // namespace server
}  // namespace v0
}  // namespace lockstep

// /v1/completions and /v1/chat/completions, whole and streamed.
#include <algorithm>
#include <ctime>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "server/job.h"
#include "server/language.h"

namespace lockstep {
inline namespace v0 {
namespace server {
namespace {

std::string event(const Json& json) {
  return "data: " + text_of(json) + "\n\n";
}

}  // namespace

std::shared_ptr<Job> LanguageService::begin(HttpServer& server, const Request& given, const Json& asked, bool chat) {
  const auto job = std::make_shared<Job>(active_, served_.most_requests);
  job->chat = chat;
  job->check_time = given.check_time;
  job->request = completion_request(asked, chat);
  check_model(job->request.model);
  if (served_.model->encoder()) {
    throw HttpError(400, fmt::format("this model is an encoder: only /v1/embeddings{} offered",
                                     served_.rerank ? " and /v1/rerank are" : " is"));
  }
  server.in_turn([] {});  // may be refused
  // Beside what computes: a long text must not keep the others waiting.
  if (chat) {
    read_chat(*job);
  } else {
    job->prompts = prompts_of(job->request);
  }
  limit(*job);
  for (const auto& [token, bias] : job->request.options.sampling.logit_bias) {
    if (token >= served_.model->vocabulary())
      throw HttpError(400, fmt::format("logit_bias: there is no token {}", token));
  }
  job->id = fmt::format("{}-{:016x}", chat ? "chatcmpl" : "cmpl", ++answered_);
  job->created = static_cast<std::int64_t>(std::time(nullptr));
  return job;
}

Response LanguageService::streamed(std::function<void(const Write&)> work) {
  return {.type = "text/event-stream", .stream = [work = std::move(work)](const Write& write) {
            try {
              work(write);
            } catch (const std::exception& error) {
              const auto* told = dynamic_cast<const HttpError*>(&error);
              const int code = told == nullptr ? 500 : told->status;
              const Json body = Members().add("message", error.what()).add("type", "server_error").add("code", code);
              write(event(Members().add("error", body)));
            }
          }};
}

Response LanguageService::complete(HttpServer& server, const Request& given, bool chat) {
  const auto job = begin(server, given, object_of(given.body, kDepth), chat);
  if (!job->request.stream) return whole(server, given, *job);
  // By value: it is called when this function has returned.
  return streamed([this, &server, job](const Write& write) { stream(server, *job, write); });
}

Json usage_of_prompt(std::size_t tokens) {
  return Members().add("prompt_tokens", tokens).add("total_tokens", tokens);
}

Json LanguageService::head_of(const Job& job, bool chunk) const {
  const char* object = job.chat ? (chunk ? "chat.completion.chunk" : "chat.completion") : "text_completion";
  return Members()
      .add("id", job.id)
      .add("object", object)
      .add("created", job.created)
      .add("model", served_.name)
      .add("system_fingerprint", served_.fingerprint);
}

namespace {

std::size_t characters_in(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

// Of the log-probabilities of tokens of a text, of which text_offset says how many characters they have: where they
// begin, if the first of them begins at `at`, which becomes the end.
void put_offsets(Json& logprobs, std::int64_t& at) {
  if (!logprobs.contains("text_offset")) return;
  for (Json& entry : logprobs["text_offset"]) {
    const auto characters = entry.get<std::int64_t>();
    entry = std::max<std::int64_t>(at, 0);
    at += characters;
  }
}

// Where the tokens of `text` begin: vocabularies like SentencePiece's put a space before it that it does not have.
std::int64_t begin_of(const std::string& text, const Json& logprobs) {
  if (!logprobs.contains("text_offset")) return 0;
  const Json& sizes = logprobs["text_offset"];
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 0) continue;
    const bool has_space = logprobs["tokens"][i].get_ref<const std::string&>().starts_with(' ');
    return has_space && !text.starts_with(' ') ? -1 : 0;
  }
  return 0;
}

}  // namespace

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
    return Members()
        .add("tokens", Json::array({text(piece.token)}))
        .add("token_logprobs", Json::array({piece.token.log_probability}))
        .add("top_logprobs", Json::array({top}))
        .add("text_offset", Json::array({characters_in(served_.tokenizer.bytes(piece.token.token))}));
  }
  const auto row = [&](const models::SampledToken& token) {
    const std::string shown = text(token);  // perhaps a part of a character, which only the bytes tell
    Json bytes = Json::array();
    for (const char byte : shown) bytes.push_back(static_cast<unsigned char>(byte));
    return Members().add("token", shown).add("logprob", token.log_probability).add("bytes", bytes).take();
  };
  Json result = row(piece.token);
  result["top_logprobs"] = Json::array();
  for (const models::SampledToken& token : piece.alternatives) result["top_logprobs"].push_back(row(token));
  return Members().add("content", Json::array({std::move(result)}));
}

namespace {

// `reused` of the prompt's tokens were known from texts before.
Json usage_of(std::size_t prompt, std::size_t answer, std::int64_t reused) {
  return Members()
      .add("prompt_tokens", prompt)
      .add("completion_tokens", answer)
      .add("total_tokens", prompt + answer)
      .add("prompt_tokens_details", Members().add("cached_tokens", reused).take());
}

void count_tokens(HttpServer& server, std::size_t prompt, std::size_t answer, std::int64_t reused) {
  server.count_tokens("prompt", prompt);
  server.count_tokens("cached", static_cast<std::uint64_t>(reused));
  server.count_tokens("answer", answer);
}

std::string reason_of(const std::string& reason, const Answer& answer) {
  return answer.calls.empty() || reason != "stop" ? reason : "tool_calls";
}

using Answers = std::vector<std::unique_ptr<Completion>>;

std::vector<Completion*> pointers_to(const Answers& answers) {
  std::vector<Completion*> result;
  for (const auto& answer : answers) result.push_back(answer.get());
  return result;
}

// As OpenAI says it, those of the highest log-probability a token, the best first; all, where so many are asked for, as
// they were drawn.
std::vector<std::size_t> best_of(const Answers& answers, std::vector<double> scores, std::size_t count) {
  std::vector<std::size_t> order(answers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (count == answers.size()) return order;
  for (std::size_t k = 0; k < answers.size(); ++k) {
    scores[k] /= static_cast<double>(std::max<std::size_t>(1, answers[k]->tokens().size()));
  }
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return scores[a] > scores[b]; });
  order.resize(count);
  return order;
}

bool have_ended(const Answers& answers) {
  return std::all_of(answers.begin(), answers.end(),
                     [](const auto& answer) { return !answer->finish_reason().empty(); });
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
  return Members()
      .add("tokens", Json::array({text_of_token(token)}))
      .add("token_logprobs", Json::array({nullptr}))
      .add("top_logprobs", Json::array({nullptr}))
      .add("text_offset", Json::array({characters_in(served_.tokenizer.bytes(token))}));
}

Answer LanguageService::answer_of(const Job& job, std::size_t index, const std::string& text, bool whole) const {
  return answers_->read(text, job.reading, fmt::format("{}_{}", job.id, index), whole);
}

// The whole of an answer, as a message or a text.
Json LanguageService::choice_of(const Job& job, std::size_t index, const Completion& completion) const {
  Members choice;
  choice.add("index", index);
  std::string reason = completion.finish_reason();
  if (!job.chat) {
    choice.add("text", shown_prompt(job, index) + completion.text());
  } else {
    const Answer answer = answer_of(job, index, completion.text(), true);
    Members message;
    message.add("role", "assistant");
    message.add("content", answer.content.empty() && !answer.calls.empty() ? Json() : Json(answer.content));
    if (!answer.reasoning.empty()) message.add("reasoning_content", answer.reasoning);
    if (!answer.calls.empty()) message.add("tool_calls", answer.calls);
    reason = reason_of(reason, answer);
    choice.add("message", message.take());
  }
  return choice.add("logprobs", Json()).add("finish_reason", reason).add("tokens_hash", completion.hash());
}

std::vector<std::unique_ptr<Completion>> LanguageService::answers_to(const Job& job, std::size_t prompt) {
  std::vector<std::unique_ptr<Completion>> result;
  for (std::size_t i = 0; i < job.request.best_of; ++i) {
    result.push_back(std::make_unique<Completion>(*served_.model, batcher_, served_.tokenizer, texts_,
                                                  job.prompts[prompt], job.options(i)));
  }
  return result;
}

Response LanguageService::whole(HttpServer& server, const Request& given, const Job& job) {
  Json choices = Json::array();
  std::size_t drawn = 0;
  std::int64_t reused = 0;
  for (std::size_t prompt = 0; prompt < job.prompts.size(); ++prompt) {
    const auto answers = answers_to(job, prompt);
    std::vector<std::vector<Piece>> pieces(answers.size());
    std::vector<double> scores(answers.size(), 0.0);
    while (!have_ended(answers)) {
      check_wanted(given);
      auto step = Completion::step_together(server, pointers_to(answers));
      for (std::size_t k = 0; k < step.size(); ++k) {
        if (!step[k]) continue;
        scores[k] += step[k]->token.log_probability;
        if (job.request.logprobs) pieces[k].push_back(std::move(*step[k]));
      }
    }
    for (const auto& answer : answers) {
      drawn += answer->tokens().size();
      reused += answer->reused();
    }
    for (const std::size_t k : best_of(answers, scores, job.request.choices)) {
      Completion& completion = *answers[k];
      Json logprobs = nullptr;
      if (job.request.options.scores_prompt) {
        logprobs = logprobs_of_first(job.prompts[prompt].front());
        pieces[k].insert(pieces[k].begin(), completion.scores().begin(), completion.scores().end());
      }
      for (const Piece& piece : pieces[k]) append_logprobs(logprobs, logprobs_of(piece, job.chat));
      completion.rest();
      Json choice = choice_of(job, choices.size(), completion);
      if (!job.chat) {
        std::int64_t at = begin_of(choice["text"].get_ref<const std::string&>(), logprobs);
        put_offsets(logprobs, at);
      }
      choice["logprobs"] = std::move(logprobs);
      choices.push_back(std::move(choice));
    }
  }
  count_tokens(server, job.prompt_tokens(), drawn, reused);
  Json answer = head_of(job, false);
  answer["choices"] = std::move(choices);
  answer["usage"] = usage_of(job.prompt_tokens(), drawn, reused);
  return json_response(answer);
}

void LanguageService::stream(HttpServer& server, Job& job, const Write& write) {
  std::size_t drawn = 0;
  std::int64_t reused = 0;
  // `what` is a delta, or a text.
  const auto send = [&](std::size_t index, const Json& what, const Json& logprobs, const std::string& reason,
                        const std::string& hash) {
    Members choice;
    choice.add("index", index).add(job.chat ? "delta" : "text", what).add("logprobs", logprobs);
    choice.add("finish_reason", reason.empty() ? Json() : Json(reason));
    if (!hash.empty()) choice.add("tokens_hash", hash);
    Json chunk = head_of(job, true);
    chunk["choices"] = Json::array({choice.take()});
    return write(event(chunk));
  };
  for (std::size_t prompt = 0; prompt < job.prompts.size(); ++prompt) {
    const auto answers = answers_to(job, prompt);
    const std::size_t first = prompt * answers.size();
    for (std::size_t i = first; i < first + answers.size(); ++i) {
      const Json begun = Members().add("role", "assistant").add("content", "");
      if (job.chat && !send(i, begun, nullptr, "", "")) return;
      if (job.request.echo && !send(i, shown_prompt(job, i), nullptr, "", "")) return;
    }
    std::vector<std::string> texts(answers.size());
    std::vector<std::int64_t> characters(answers.size(), 0);  // of the text so far
    std::vector<Answer> sent(answers.size());
    const auto news = [&](std::size_t k, const std::string& more, bool whole) -> Json {
      if (!job.chat) return more;
      texts[k] += more;
      Answer now = answer_of(job, first + k, texts[k], whole);
      Json delta = delta_of(sent[k], now);
      sent[k] = std::move(now);
      return delta;
    };
    std::vector<bool> ended(answers.size(), false);
    while (!have_ended(answers)) {
      job.check_time();
      const auto step = Completion::step_together(server, pointers_to(answers));
      bool silent = true;
      for (std::size_t k = 0; k < answers.size(); ++k) {
        Completion& completion = *answers[k];
        if (step[k]) {
          Json what = news(k, step[k]->text, false);
          if (job.request.logprobs || (!what.empty() && what != "")) {
            if (what.empty()) what["content"] = "";
            Json logprobs = job.request.logprobs ? logprobs_of(*step[k], job.chat) : Json();
            put_offsets(logprobs, characters[k]);
            if (!send(first + k, what, logprobs, "", "")) return;  // nobody listens any more
            silent = false;
          }
        }
        if (ended[k] || completion.finish_reason().empty()) continue;
        ended[k] = true;
        drawn += completion.tokens().size();
        reused += completion.reused();
        const Json what = news(k, completion.rest(), true);
        const std::string reason = reason_of(completion.finish_reason(), sent[k]);
        if (!send(first + k, what, nullptr, reason, completion.hash())) return;
        silent = false;
      }
      if (silent && job.chat && !write(": still here\n\n")) return;
    }
  }
  count_tokens(server, job.prompt_tokens(), drawn, reused);
  if (job.request.include_usage) {
    Json chunk = head_of(job, true);
    chunk["choices"] = Json::array();
    chunk["usage"] = usage_of(job.prompt_tokens(), drawn, reused);
    if (!write(event(chunk))) return;
  }
  write("data: [DONE]\n\n");
}

}  // namespace server
}  // namespace v0
}  // namespace lockstep

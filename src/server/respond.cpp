// /v1/responses of a language model, whole and streamed.
#include <fmt/format.h>

#include "server/job.h"
#include "server/language.h"
#include "server/responses.h"

namespace lockstep {
inline namespace v0 {
namespace server {

// Runs the job and returns the response; `emit` gets the events that lead to it, or null where there is none, and is
// false once nobody listens.
Json LanguageService::response_to(HttpServer& server, const Job& job, const Json& asked,
                                  const std::function<bool(const Json& event)>& emit) {
  Json response = Json::parse(
      R"({"id":"","object":"response","created_at":0,"status":"in_progress","model":"","system_fingerprint":"","output":[],)"
      R"("error":null,"incomplete_details":null,"instructions":null,"max_output_tokens":null,"metadata":{},)"
      R"("parallel_tool_calls":true,"previous_response_id":null,"reasoning":{"effort":null,"summary":null},"store":false,)"
      R"("temperature":1.0,"text":{"format":{"type":"text"}},"tool_choice":"auto","tools":[],"top_p":1.0,)"
      R"("truncation":"disabled","background":false,"usage":null})");
  for (const char* key : {"instructions", "max_output_tokens", "metadata", "parallel_tool_calls", "reasoning",
                          "temperature", "text", "tool_choice", "tools", "top_p"}) {
    if (const auto found = asked.find(key); found != asked.end() && !found->is_null()) response[key] = *found;
  }
  response["id"] = job.id;
  response["created_at"] = job.created;
  response["model"] = served_.name;
  response["system_fingerprint"] = served_.fingerprint;
  std::int64_t number = 0;
  bool heard = true;
  const auto tell = [&](const std::string& type, Json event) {
    event["type"] = type;
    event["sequence_number"] = number++;
    heard = heard && emit(event);
  };
  const auto tell_of_all = [&](const std::string& type) { tell(type, Members().add("response", response)); };
  tell_of_all("response.created");
  tell_of_all("response.in_progress");
  ResponseOutput output(job.id, tell);
  const auto answers = answers_to(job, 0);
  Completion& completion = *answers.front();
  std::string text;
  Answer sent;
  std::int64_t thoughts = 0;  // tokens
  const auto add = [&](const std::string& more, bool whole) {
    text += more;
    Answer now = answer_of(job, 0, text, whole);
    const Json delta = delta_of(sent, now);
    thoughts += delta.contains("reasoning_content") && !whole ? 1 : 0;
    sent = std::move(now);
    output.add(delta);
    return !delta.empty();
  };
  while (heard && completion.finish_reason().empty()) {
    job.check_time();
    const std::optional<Piece> piece = completion.step(server);
    if (!piece || !add(piece->text, false)) heard = heard && emit(nullptr);
  }
  add(completion.rest(), true);
  const bool cut = completion.finish_reason() == "length";
  const char* status = cut ? "incomplete" : "completed";
  output.close(status);
  response["status"] = status;
  response["output"] = output.items();
  if (cut) response["incomplete_details"]["reason"] = "max_output_tokens";
  const std::size_t drawn = completion.tokens().size();
  const Json read = Members().add("cached_tokens", completion.reused()).add("cache_write_tokens", 0);
  response["usage"] = Members()
                          .add("input_tokens", job.prompt_tokens())
                          .add("input_tokens_details", read)
                          .add("output_tokens", drawn)
                          .add("output_tokens_details", Members().add("reasoning_tokens", thoughts).take())
                          .add("total_tokens", job.prompt_tokens() + drawn);
  response["tokens_hash"] = completion.hash();
  tell_of_all(fmt::format("response.{}", status));
  return response;
}

Response LanguageService::respond(HttpServer& server, const Request& given) {
  const Json asked = object_of(given.body, kDepth);
  const auto job = begin(server, given, chat_request_of(asked), true);
  job->id = "resp" + job->id.substr(job->id.find('-'));
  if (!job->request.stream) {
    return json_response(response_to(server, *job, asked, [&](const Json&) {
      if (given.left()) throw HttpError(499, "the client has left");
      return true;
    }));
  }
  return streamed([this, &server, job, asked](const Write& write) {
    response_to(server, *job, asked, [&](const Json& event) {
      return write(event.is_null()
                       ? std::string(": still here\n\n")
                       : fmt::format("event: {}\ndata: {}\n\n", event["type"].get<std::string>(), text_of(event)));
    });
  });
}

}  // namespace server
}  // namespace v0
}  // namespace lockstep

// OpenAI's newer interface, /v1/responses, in terms of that for chats: what is asked, and the items that an answer has.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "server/json_body.h"

namespace lockstep {
inline namespace v0 {
namespace server {

/// The request to /v1/chat/completions that asks the same. HttpError 400 for what is not offered: above all nothing is
/// kept, so that a conversation has to be sent as a whole.
Json chat_request_of(const Json& asked);

/// The output of an answer, while it comes.
class ResponseOutput {
 public:
  /// Takes an event's type and its other members.
  using Emit = std::function<void(const std::string& type, Json event)>;

  /// `id` is the answer's, from which those of its items are made.
  ResponseOutput(std::string id, Emit emit) : id_(std::move(id)), emit_(std::move(emit)) {}

  /// What is new, as in a chunk of a chat: reasoning_content, content, tool_calls.
  void add(const Json& delta);
  /// Ends the item that is open.
  void close(const char* status);
  const Json& items() const { return items_; }

 private:
  void begin(const char* item, const char* letters);
  void text(const char* kind, const Json& more);
  void call(const Json& given);
  void end(const char* status);
  void emit(const char* type, const char* name, const Json& value);
  Json& item() { return items_.back(); }

  std::string id_;
  Emit emit_;
  Json items_ = Json::array();
  std::string open_;  ///< the type of the item's part; empty: none is open
};

}  // namespace server
}  // namespace v0
}  // namespace lockstep

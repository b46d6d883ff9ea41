// The parts of a chat's answer, as OpenAI's messages have them. Read by server/answer.h from the text that a model
// draws.
#pragma once

#include <string>

#include "server/json_body.h"

namespace lockstep {
inline namespace v0 {
namespace server {

struct Answer {
  std::string reasoning = {};  ///< thoughts
  std::string content = {};
  Json calls = Json::array();  ///< of functions
};

}  // namespace server
}  // namespace v0
}  // namespace lockstep

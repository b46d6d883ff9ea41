// Arguments of calls as Gemma 4 writes them: {name:<|"|>text<|"|>,list:[1,2],more:{flag:true}}.
#pragma once

#include <string>

#include "server/json_body.h"

namespace lockstep {
inline namespace v0 {
namespace server {

/// The value that begins at `at`, which moves behind it; texts are between `quote`. Discarded (Json::is_discarded) if
/// it is not whole, or nests too deep.
Json bare_value(const std::string& text, std::size_t& at, const std::string& quote, int depth = 0);

}  // namespace server
}  // namespace v0
}  // namespace lockstep

// Which tokens end an answer. Models have several: the one behind a text, and those that end a turn or a call.
#pragma once

#include <string>

#include "text/tokenizer_parts.h"

namespace lockstep {
inline namespace v0 {
namespace text {

/// Adds the tokens of the vocabulary by whose published names an answer ends; the first is `parts.end`, if that is not
/// known yet. For sources that do not list them.
void add_known_ends(Tokenizer::Parts& parts);

/// What a model's folder says of them replaces the above: eos_token of tokenizer_config.json, eos_token_id of
/// generation_config.json, or of config.json without one. Numbers that are no tokens are passed over, as transformers
/// does. FormatError for files that are malformed.
void read_ends(const std::string& folder, Tokenizer::Parts& parts);

}  // namespace text
}  // namespace v0
}  // namespace lockstep

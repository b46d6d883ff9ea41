// What the commands of language models share: lists of tokens.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <lockstep/models/language.h>
#include <lockstep/text/tokenizer.h>

#include "cli/command_line.h"

namespace lockstep {
inline namespace v0 {
namespace cli {

/// "1,2,3". Throws UsageError.
std::vector<std::int64_t> parse_tokens(const std::string& text);

}  // namespace cli
}  // namespace v0
}  // namespace lockstep

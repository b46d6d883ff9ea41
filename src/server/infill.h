// The middle of a text: what stands before it and behind it, as models of code were trained on it (Bavarian, 2022).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <lockstep/text/tokenizer.h>

namespace lockstep {
inline namespace v0 {
namespace server {

/// The prompt for what stands between these. HttpError 400 for a tokenizer without the tokens that say so.
std::vector<std::int64_t> infill_prompt(const text::Tokenizer& tokenizer, const std::vector<std::int64_t>& before,
                                        const std::string& suffix);

}  // namespace server
}  // namespace v0
}  // namespace lockstep

// Special tokens in the text of an answer that is read for thoughts and calls.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include <lockstep/text/tokenizer.h>

namespace lockstep {
inline namespace v0 {
namespace server {

/// What stands for a special token: its number, of noncharacters, too, so that neither a text with the token's name nor
/// a text at which the answer is to stop is taken for a part of it.
inline constexpr std::string_view kMarkBegin = "\ufdd0";
inline constexpr std::string_view kMarkEnd = "\ufdd1";
inline constexpr std::string_view kMarkZero = "\ufdd2";  // the digits follow it
std::string mark_of(std::int64_t token);

/// The text with the mark of each special token of the tokenizer whose name stands in it; their numbers go to `marks`.
std::string with_marks(const std::string& text, const text::Tokenizer& tokenizer, std::set<std::int64_t>& marks);
/// Of these tokens, or (null) of all.
std::string without_marks(std::string text, const std::set<std::int64_t>* marks = nullptr);

/// A text as GBNF: quoted, and <[12]> for the mark of the token 12.
std::string gbnf_of_text(const std::string& text);
/// Rules of GBNF: text-0 is whatever `text` does not stand in, and then it, and the rule `then`; with `may_end` perhaps
/// without these two.
std::string gbnf_until(const std::string& text, const std::string& then, bool may_end);

}  // namespace server
}  // namespace v0
}  // namespace lockstep

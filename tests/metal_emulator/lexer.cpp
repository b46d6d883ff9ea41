#include "lexer.h"

#include <cctype>
#include <set>

namespace emulator {
namespace {

bool word_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

/// One token from `at` on, which is no white space.
std::size_t end_of_token(std::string_view text, std::size_t at) {
  if (text[at] == '"' || text[at] == '\'') {
    std::size_t end = at + 1;
    while (end < text.size() && text[end] != text[at]) end += text[end] == '\\' ? 2 : 1;
    return std::min(end + 1, text.size());
  }
  std::size_t end = at + 1;
  if (word_character(text[at])) {
    while (end < text.size() && word_character(text[end])) ++end;
  }
  return end;
}

std::size_t skip_comment(std::string_view text, std::size_t at) {
  if (text.substr(at, 2) == "//") return std::min(text.find('\n', at), text.size());
  if (text.substr(at, 2) != "/*") return at;
  const std::size_t end = text.find("*/", at + 2);
  return end == std::string_view::npos ? text.size() : end + 2;
}

std::size_t end_of_line(std::string_view text, std::size_t at) {
  while (at < text.size() && text[at] != '\n') at += text[at] == '\\' ? 2 : 1;
  return std::min(at, text.size());
}

std::vector<Token> tokens_of(std::string_view text, std::size_t at, std::size_t end) {
  std::vector<Token> tokens;
  while (at < end) {
    const std::size_t after = skip_comment(text, at);
    if (after != at || std::isspace(static_cast<unsigned char>(text[at])) != 0 || text[at] == '\\') {
      at = std::max(after, at + 1);
      continue;
    }
    const std::size_t stop = end_of_token(text, at);
    tokens.push_back({at, stop, text.substr(at, stop - at)});
    at = stop;
  }
  return tokens;
}

/// A `#` line: its macro or pragma, if it is one.
void read_directive(std::string_view text, std::size_t begin, std::size_t end, Lexed& result) {
  std::vector<Token> tokens = tokens_of(text, begin + 1, end);
  if (tokens.empty()) return;
  if (tokens[0].text == "pragma") result.pragmas.push_back(text.substr(begin, end - begin));
  if (tokens[0].text != "define" || tokens.size() < 2) return;
  const std::string_view name = tokens[1].text;
  result.macros[name].assign(tokens.begin() + 2, tokens.end());
}

}  // namespace

bool is_word(std::string_view token) {
  return !token.empty() && word_character(token[0]);
}

Lexed lex(std::string_view text) {
  Lexed result;
  std::size_t at = 0;
  bool line_begins = true;
  while (at < text.size()) {
    const char c = text[at];
    const std::size_t after = skip_comment(text, at);
    if (after != at) {
      at = after;
    } else if (std::isspace(static_cast<unsigned char>(c)) != 0) {
      line_begins = line_begins || c == '\n';
      ++at;
    } else if (c == '#' && line_begins) {
      const std::size_t end = end_of_line(text, at);
      read_directive(text, at, end, result);
      at = end;
    } else {
      const std::size_t end = end_of_token(text, at);
      result.tokens.push_back({at, end, text.substr(at, end - at)});
      line_begins = false;
      at = end;
    }
  }
  return result;
}

bool Lexed::reaches(const Token& token, const std::function<bool(std::string_view)>& wanted) const {
  std::set<std::string_view> seen;
  std::vector<std::string_view> open = {token.text};
  while (!open.empty()) {
    const std::string_view name = open.back();
    open.pop_back();
    if (!seen.insert(name).second) continue;
    if (wanted(name)) return true;
    const auto macro = macros.find(name);
    if (macro == macros.end()) continue;
    for (const Token& part : macro->second) open.push_back(part.text);
  }
  return false;
}

}  // namespace emulator

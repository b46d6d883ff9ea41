#include "text/jinja/lexer.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "text/jinja/value.h"

namespace lockstep {
inline namespace v0 {
namespace text::jinja {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v'; }

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) text();
    add(Token::Kind::end, "");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void error(const std::string& what) const { fail(fmt::format("line {}: {}", line_, what)); }

  void add(Token::Kind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }

  bool ahead(std::string_view text) const { return source_.substr(at_, text.size()) == text; }

  void skip(std::size_t count) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         source_.begin() + static_cast<std::ptrdiff_t>(at_ + count), '\n'));
    at_ += count;
  }

  // Text up to the next tag, and the tag.
  void text() {
    std::size_t tag = at_;
    while (tag < source_.size()) {
      tag = source_.find('{', tag);
      if (tag == std::string_view::npos) tag = source_.size();
      if (tag + 1 < source_.size() && (source_[tag + 1] == '%' || source_[tag + 1] == '{' || source_[tag + 1] == '#')) break;
      if (tag < source_.size()) ++tag;
    }
    std::string_view plain = source_.substr(at_, tag - at_);
    const bool is_tag = tag < source_.size();
    const char sign = is_tag && tag + 2 < source_.size() ? source_[tag + 2] : ' ';
    if (is_tag && sign == '-') {
      while (!plain.empty() && is_space(plain.back())) plain.remove_suffix(1);
    } else if (is_tag && sign != '+' && source_[tag + 1] != '{') {
      // lstrip_blocks: blanks between the beginning of a line and a tag.
      std::size_t end = plain.size();
      while (end > 0 && (plain[end - 1] == ' ' || plain[end - 1] == '\t')) --end;
      const bool begins_line = end > 0 ? plain[end - 1] == '\n' : after_newline_;
      if (begins_line) plain = plain.substr(0, end);
    }
    if (!plain.empty()) add(Token::Kind::text, std::string(plain));
    skip(tag - at_);
    after_newline_ = false;
    if (!is_tag) return;
    const char kind = source_[at_ + 1];
    skip(2);
    if (at_ < source_.size() && (source_[at_] == '-' || source_[at_] == '+')) skip(1);
    if (kind == '#') return comment();
    if (kind == '%' && raw()) return;
    add(kind == '%' ? Token::Kind::block_begin : Token::Kind::print_begin, "");
    inside(kind);
  }

  // Behind a tag: "-" takes all space, trim_blocks one newline behind blocks and comments.
  void after_tag(bool all, bool keep, bool block) {
    if (all) {
      while (at_ < source_.size() && is_space(source_[at_])) skip(1);
    } else if (block && !keep && at_ < source_.size() && source_[at_] == '\n') {
      skip(1);
    }
    after_newline_ = at_ == 0 || source_[at_ - 1] == '\n';
  }

  void comment() {
    const std::size_t end = source_.find("#}", at_);
    if (end == std::string_view::npos) error("a comment has no end");
    const char sign = end > at_ ? source_[end - 1] : ' ';
    skip(end + 2 - at_);
    after_tag(sign == '-', sign == '+', true);
  }

  // {% raw %} ... {% endraw %}
  bool raw() {
    std::size_t at = at_;
    const auto word = [&](std::string_view expected) {
      while (at < source_.size() && is_space(source_[at])) ++at;
      if (source_.substr(at, expected.size()) != expected) return false;
      at += expected.size();
      while (at < source_.size() && is_space(source_[at])) ++at;
      if (at < source_.size() && (source_[at] == '-' || source_[at] == '+')) ++at;
      if (source_.substr(at, 2) != "%}") return false;
      at += 2;
      return true;
    };
    if (!word("raw")) return false;
    skip(at - at_);
    after_tag(source_[at_ - 3] == '-', true, true);
    std::size_t begin = at_;
    for (std::size_t tag = source_.find("{%", at_); tag != std::string_view::npos; tag = source_.find("{%", tag + 2)) {
      at = tag + 2;
      const bool strips = at < source_.size() && source_[at] == '-';
      if (at < source_.size() && (source_[at] == '-' || source_[at] == '+')) ++at;
      if (!word("endraw")) continue;
      std::string_view plain = source_.substr(begin, tag - begin);
      while (strips && !plain.empty() && is_space(plain.back())) plain.remove_suffix(1);
      if (!plain.empty()) add(Token::Kind::text, std::string(plain));
      skip(at - at_);
      after_tag(source_[at_ - 3] == '-', false, true);
      return true;
    }
    error("raw has no end");
  }

  void inside(char kind) {
    const std::string_view close = kind == '%' ? "%}" : "}}";
    int braces = 0;
    while (true) {
      while (at_ < source_.size() && is_space(source_[at_])) skip(1);
      if (at_ >= source_.size()) error("a tag has no end");
      const char c = source_[at_];
      const bool signed_end = (c == '-' || c == '+') && source_.substr(at_ + 1, 2) == close;
      if ((ahead(close) || signed_end) && braces == 0) {
        skip(signed_end ? 3 : 2);
        add(kind == '%' ? Token::Kind::block_end : Token::Kind::print_end, "");
        return after_tag(signed_end && c == '-', signed_end && c == '+', kind == '%');
      }
      if (is_letter(c)) {
        std::size_t end = at_;
        while (end < source_.size() && (is_letter(source_[end]) || is_digit(source_[end]))) ++end;
        add(Token::Kind::name, std::string(source_.substr(at_, end - at_)));
        skip(end - at_);
      } else if (is_digit(c)) {
        number();
      } else if (c == '"' || c == '\'') {
        string(c);
      } else {
        if (c == '{') ++braces;
        if (c == '}') --braces;
        sign();
      }
    }
  }

  void number() {
    std::size_t end = at_;
    bool is_float = false;
    while (end < source_.size() && (is_digit(source_[end]) || source_[end] == '_')) ++end;
    // Behind a point there is none: in x.0.1 two elements are asked for.
    if (end + 1 < source_.size() && source_[end] == '.' && is_digit(source_[end + 1]) && source_[at_ - 1] != '.') {
      is_float = true;
      for (++end; end < source_.size() && is_digit(source_[end]);) ++end;
    }
    if (end < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
      std::size_t exponent = end + 1;
      if (exponent < source_.size() && (source_[exponent] == '-' || source_[exponent] == '+')) ++exponent;
      if (exponent < source_.size() && is_digit(source_[exponent])) {
        is_float = true;
        for (end = exponent; end < source_.size() && is_digit(source_[end]);) ++end;
      }
    }
    std::string digits(source_.substr(at_, end - at_));
    std::erase(digits, '_');
    add(is_float ? Token::Kind::number : Token::Kind::integer, std::move(digits));
    skip(end - at_);
  }

  // Escapes as in Python.
  void string(char quote) {
    std::string result;
    std::size_t i = at_ + 1;
    for (; i < source_.size() && source_[i] != quote; ++i) {
      if (source_[i] != '\\' || i + 1 >= source_.size()) {
        result += source_[i];
        continue;
      }
      const char c = source_[++i];
      constexpr std::string_view kFrom = "ntr\\'\"abfv";
      constexpr std::string_view kTo = "\n\t\r\\'\"\a\b\f\v";
      if (const std::size_t known = kFrom.find(c); known != std::string_view::npos) {
        result += kTo[known];
      } else if (c == 'x' || c == 'u' || c == 'U') {
        i += character(i + 1, c == 'x' ? 2 : c == 'u' ? 4 : 8, 16, result);
      } else if (c >= '0' && c < '8') {
        std::size_t digits = 1;
        while (digits < 3 && i + digits < source_.size() && source_[i + digits] >= '0' && source_[i + digits] < '8')
          ++digits;
        i += character(i, digits, 8, result) - 1;
      } else if (c == 'N') {
        error("names of characters are not done");
      } else if (c != '\n') {
        result += '\\';
        result += c;
      }
    }
    if (i >= source_.size()) error("a string has no end");
    add(Token::Kind::string, std::move(result));
    skip(i + 1 - at_);
  }

  std::size_t character(std::size_t from, std::size_t digits, std::uint32_t base, std::string& result) const {
    std::uint32_t code = 0;
    for (std::size_t i = from; i < from + digits; ++i) {
      const char c = i < source_.size() ? source_[i] : ' ';
      const std::size_t digit = std::string_view("0123456789abcdef").find(static_cast<char>(c >= 'A' && c <= 'F' ? c + 32 : c));
      if (digit == std::string_view::npos) error("a string has a wrong escape");
      code = code * base + static_cast<std::uint32_t>(digit);
    }
    if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) error("a string escapes what is no character");
    const auto byte = [&](std::uint32_t value) { result += static_cast<char>(value); };
    if (code < 0x80) {
      byte(code);
    } else if (code < 0x800) {
      byte(0xc0 | code >> 6);
      byte(0x80 | (code & 0x3f));
    } else if (code < 0x10000) {
      byte(0xe0 | code >> 12);
      byte(0x80 | (code >> 6 & 0x3f));
      byte(0x80 | (code & 0x3f));
    } else {
      byte(0xf0 | code >> 18);
      byte(0x80 | (code >> 12 & 0x3f));
      byte(0x80 | (code >> 6 & 0x3f));
      byte(0x80 | (code & 0x3f));
    }
    return digits;
  }

  void sign() {
    for (const std::string_view two : {"==", "!=", "<=", ">=", "//", "**"}) {
      if (!ahead(two)) continue;
      add(Token::Kind::sign, std::string(two));
      return skip(2);
    }
    if (std::string_view("+-*/%~<>=()[]{},.:|").find(source_[at_]) == std::string_view::npos) {
      error(fmt::format("'{}' means nothing here", source_[at_]));
    }
    add(Token::Kind::sign, std::string(1, source_[at_]));
    skip(1);
  }

  std::string_view source_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool after_newline_ = true;  // the text that follows begins a line
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) {
  std::string unified;
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      unified += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      unified += source[i];
    }
  }
  if (unified.ends_with('\n')) unified.pop_back();
  return Lexer(unified).run();
}

}  // namespace text::jinja
}  // namespace v0
}  // namespace lockstep

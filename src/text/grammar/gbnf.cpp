// Reads grammars as llama.cpp writes them (GBNF).
#include <fmt/format.h>

#include <lockstep/error.h>

#include "core/checked.h"
#include "text/grammar/rules.h"
#include "text/grammar/token_texts.h"
#include "text/unicode.h"

namespace lockstep {
inline namespace v0 {
namespace text {
namespace {

constexpr std::int64_t kMostRepeats = 2000;
constexpr std::int64_t kMostToken = INT32_MAX;
constexpr int kMostDepth = 100;

bool in_name(char32_t c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

int hex_value(char32_t c) {
  if (c >= '0' && c <= '9') return static_cast<int>(c - '0');
  const char32_t low = c | 0x20;
  return low >= 'a' && low <= 'f' ? static_cast<int>(low - 'a') + 10 : -1;
}

class GbnfParser {
 public:
  GbnfParser(std::string_view source, std::string_view file) : file_(file), builder_(std::string(file)) {
    const std::optional<std::u32string> characters = decode_utf8(source);
    if (!characters) throw FormatError(fmt::format("{}: the grammar is not valid UTF-8", file));
    text_ = *characters;
  }

  Grammar parse() {
    space(true);
    while (!at_end()) rule();
    for (const auto& [name, rule] : rules_) {
      if (!rule.defined) throw FormatError(fmt::format("{}: there is no rule {}", file_, in_quotes(name)));
    }
    const auto root = rules_.find("root");
    if (root == rules_.end()) throw FormatError(fmt::format("{}: there is no rule \"root\"", file_));
    return builder_.finish(root->second.index);
  }

 private:
  using Sequence = RulesBuilder::Sequence;
  struct Named {
    std::uint32_t index = 0;
    bool defined = false;
  };

  [[noreturn]] void fail(std::string_view message) const {
    std::size_t line = 1;
    for (std::size_t i = 0; i < std::min(at_, text_.size()); ++i) line += text_[i] == '\n' ? 1 : 0;
    throw FormatError(fmt::format("{}: line {}: {}", file_, line, message));
  }
  bool at_end() const { return at_ >= text_.size(); }
  char32_t peek(std::size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : U'\0'; }
  bool take(char32_t c) {
    if (at_end() || peek() != c) return false;
    ++at_;
    return true;
  }

  // White space and comments; a rule ends with its line unless a group is open.
  void space(bool lines) {
    while (!at_end()) {
      const char32_t c = peek();
      if (c == '#') {
        while (!at_end() && peek() != '\n' && peek() != '\r') ++at_;
      } else if (c == ' ' || c == '\t' || (lines && (c == '\n' || c == '\r'))) {
        ++at_;
      } else {
        return;
      }
    }
  }

  std::string name() {
    std::string result;
    while (!at_end() && in_name(peek())) result += static_cast<char>(text_[at_++]);
    if (result.empty()) fail("a name is missing");
    return result;
  }

  Named& named(const std::string& name) {
    const auto [found, added] = rules_.emplace(name, Named{});
    if (added) found->second.index = builder_.new_rule();
    return found->second;
  }

  void rule() {
    const std::string own = name();
    Named& entry = named(own);
    if (entry.defined) fail(fmt::format("the rule {} is there twice", in_quotes(own)));
    entry.defined = true;
    const std::uint32_t index = entry.index;
    space(false);
    if (!take(':') || !take(':') || !take('=')) fail("::= is missing");
    space(true);
    alternatives(index, 0);
    if (!at_end() && peek() != '\n' && peek() != '\r') fail("what is this?");
    space(true);
  }

  void alternatives(std::uint32_t index, int depth) {
    do {
      space(true);
      builder_.add(index, sequence(depth));
    } while (take('|'));
  }

  Sequence sequence(int depth) {
    if (depth > kMostDepth) fail(fmt::format("groups nest deeper than {}", kMostDepth));
    Sequence result;
    for (;;) {
      space(depth > 0);
      Sequence part;
      const char32_t c = peek();
      if (at_end() || c == '|' || c == ')' || c == '\n' || c == '\r') return result;
      if (c == '"') {
        part = quoted();
      } else if (c == '<') {
        part = special_token();
      } else if (c == '[') {
        part = {character_class()};
      } else if (take('.')) {
        part = {builder_.characters({}, true)};
      } else if (take('(')) {
        const std::uint32_t group = builder_.new_rule();
        alternatives(group, depth + 1);
        if (!take(')')) fail(") is missing");
        part = {RulesBuilder::rule(group)};
      } else if (in_name(c)) {
        part = {RulesBuilder::rule(named(name()).index)};
      } else {
        fail(fmt::format("what is {}?", in_quotes(encode_utf8(c))));
      }
      part = repeats(std::move(part), depth);
      result.insert(result.end(), part.begin(), part.end());
      builder_.check_room(result.size());
    }
  }

  // What stands behind a part, and says how often it comes.
  Sequence repeats(Sequence part, int depth) {
    for (;;) {
      space(depth > 0);
      std::int64_t least = 0;
      std::int64_t most = -1;
      if (take('*')) {
      } else if (take('+')) {
        least = 1;
      } else if (take('?')) {
        most = 1;
      } else if (take('{')) {
        space(false);
        least = most = repetitions();
        space(false);
        if (take(',')) {
          space(false);
          most = peek() == '}' ? -1 : repetitions();
          space(false);
        }
        if (!take('}')) fail("} is missing");
        if (most >= 0 && most < least) fail("more at least than at most");
      } else {
        return part;
      }
      RulesBuilder::Symbol one;
      if (part.size() == 1) {
        one = part.front();
      } else {
        const std::uint32_t group = builder_.new_rule();
        builder_.add(group, part);
        one = RulesBuilder::rule(group);
      }
      part = builder_.repeated(one, least, most);
    }
  }

  std::int64_t repetitions() { return number(kMostRepeats, "repetitions"); }

  std::int64_t number(std::int64_t limit, std::string_view what) {
    std::int64_t value = -1;
    while (peek() >= '0' && peek() <= '9') {
      value = std::max<std::int64_t>(value, 0) * 10 + static_cast<std::int64_t>(text_[at_++] - '0');
      if (value > limit) fail(fmt::format("more than {} {}", limit, what));
    }
    if (value < 0) fail("a number is missing");
    return value;
  }

  char32_t hexadecimal(int digits) {
    char32_t value = 0;
    for (int i = 0; i < digits; ++i) {
      const int digit = at_end() ? -1 : hex_value(text_[at_++]);
      if (digit < 0) fail(fmt::format("{} hexadecimal digits are expected", digits));
      value = value * 16 + static_cast<char32_t>(digit);
    }
    if (value > 0x10ffff) fail("there is no such character");
    return value;
  }

  char32_t character() {
    if (at_end() || peek() == '\n') fail("a text or a class is not closed");
    const char32_t c = text_[at_++];
    if (c != '\\') return c;
    const char32_t escaped = at_end() ? U'\0' : text_[at_++];
    switch (escaped) {
      case 'x': return hexadecimal(2);
      case 'u': return hexadecimal(4);
      case 'U': return hexadecimal(8);
      case 't': return '\t';
      case 'r': return '\r';
      case 'n': return '\n';
      case '\\':
      case '"':
      case '-':
      case '[':
      case ']': return escaped;
      default: fail("there is no such escape");
    }
  }

  void append(Sequence& result, const std::string& bytes) {
    for (const char byte : bytes) {
      ByteSet set;
      set.set(static_cast<unsigned char>(byte));
      result.push_back(builder_.bytes(set));
    }
  }

  Sequence quoted() {
    ++at_;
    Sequence result;
    while (!take('"')) append(result, encode_utf8(character()));
    return result;
  }

  Sequence special_token() {
    ++at_;
    Sequence result;
    if (!take('[')) fail("a token is written <[number]>");
    append(result, special_text(number(kMostToken, "tokens")));
    if (!take(']') || !take('>')) fail("a token is written <[number]>");
    return result;
  }

  RulesBuilder::Symbol character_class() {
    ++at_;
    const bool negated = take('^');
    std::vector<CharacterRange> ranges;
    while (!take(']')) {
      const char32_t first = character();
      char32_t last = first;
      if (peek() == '-' && peek(1) != ']') {
        ++at_;
        last = character();
      }
      if (last < first) fail("a range ends before it begins");
      ranges.emplace_back(first, last);
    }
    return builder_.characters(std::move(ranges), negated);
  }

  std::string file_;
  std::u32string text_;
  std::size_t at_ = 0;
  RulesBuilder builder_;
  std::map<std::string, Named> rules_;
};

}  // namespace

Grammar Grammar::from_gbnf(std::string_view source, std::string_view file) {
  return GbnfParser(source, file).parse();
}

}  // namespace text
}  // namespace v0
}  // namespace lockstep

#include <fmt/format.h>

#include <lockstep/error.h>

#include "core/checked.h"
#include "text/regex_node.h"
#include "text/unicode.h"

namespace lockstep {
inline namespace v0 {
namespace text {
namespace {

using Node = RegexNode;

constexpr std::size_t kMaxPattern = 65'536;
constexpr int kMaxNesting = 64;
constexpr std::uint32_t kMaxCount = 1000;

class Parser {
 public:
  Parser(std::string_view pattern, RegexDialect dialect)
      : pattern_(pattern), ecmascript_(dialect == RegexDialect::ecmascript) {
    const std::optional<std::u32string> decoded = decode_utf8(pattern);
    if (!decoded || pattern.size() > kMaxPattern) fail("is not UTF-8, or too long");
    text_ = *decoded;
  }

  Node parse() {
    Node result = alternatives();
    if (at_ < text_.size()) fail("has a ) too many");
    return result;
  }

 private:
  [[noreturn]] void fail(std::string_view message) const {
    throw FormatError(fmt::format("the pattern {} {} (at character {})", in_quotes(pattern_), message, at_));
  }
  bool more() const { return at_ < text_.size(); }
  char32_t peek() const { return more() ? text_[at_] : U'\0'; }
  char32_t take() {
    if (!more()) fail("ends too early");
    return text_[at_++];
  }
  bool accept(std::u32string_view what) {
    if (std::u32string_view(text_).substr(at_, what.size()) != what) return false;
    at_ += what.size();
    return true;
  }

  Node alternatives() {
    if (++nesting_ > kMaxNesting) fail("is nested too deep");
    Node result;
    result.kind = Node::Kind::alternatives;
    result.children.push_back(sequence());
    while (accept(U"|")) result.children.push_back(sequence());
    --nesting_;
    if (result.children.size() > 1) return result;
    Node only = std::move(result.children.front());
    return only;
  }

  Node sequence() {
    Node result;
    while (more() && peek() != U'|' && peek() != U')') result.children.push_back(repeated());
    return result;
  }

  Node repeated() {
    Node item = atom();
    for (;;) {
      Node repeat;
      repeat.kind = Node::Kind::repeat;
      repeat.most = Node::kUnlimited;
      if (accept(U"*")) {
      } else if (accept(U"+")) {
        repeat.least = 1;
      } else if (accept(U"?")) {
        repeat.most = 1;
      } else if (!counts(repeat)) {
        return item;
      }
      if (ecmascript_ && item.kind == Node::Kind::repeat) fail("has a quantifier behind a quantifier");
      if (accept(U"?"))
        repeat.greed = Node::Greed::lazy;
      else if (!ecmascript_ && accept(U"+"))
        repeat.greed = Node::Greed::possessive;
      repeat.children.push_back(std::move(item));
      item = std::move(repeat);
    }
  }

  // {2}, {2,}, {2,5}, of tokenizers {,5}; any other brace is itself.
  bool counts(Node& repeat) {
    const std::size_t start = at_;
    if (!accept(U"{")) return false;
    repeat.least = 0;
    repeat.most = Node::kUnlimited;
    const bool has_least = number(repeat.least);
    bool has_most = false;
    if (accept(U","))
      has_most = number(repeat.most);
    else
      repeat.most = repeat.least;
    if (!accept(U"}") || (!has_least && (ecmascript_ || !has_most))) {
      at_ = start;
      return false;
    }
    if (repeat.least > repeat.most) fail("has a count whose ends are in the wrong order");
    return true;
  }

  // Whether there is one.
  bool number(std::uint32_t& value) {
    const std::size_t start = at_;
    for (std::uint32_t read = 0; more() && peek() >= U'0' && peek() <= U'9'; value = read) {
      read = read * 10 + static_cast<std::uint32_t>(take() - U'0');
      if (read > kMaxCount) fail("has a count that is too large");
    }
    return at_ > start;
  }

  Node group() {
    const bool outer = no_case_;
    Node result;
    if (accept(U"?:")) {
      result = alternatives();
    } else if (!ecmascript_ && accept(U"?i:")) {
      no_case_ = true;
      result = alternatives();
    } else if (accept(U"?=") || accept(U"?!")) {
      result.negative = text_[at_ - 1] == U'!';
      result.kind = Node::Kind::look_ahead;
      result.children.push_back(alternatives());
    } else if (accept(U"?<=") || accept(U"?<!")) {
      result.negative = text_[at_ - 1] == U'!';
      result.kind = Node::Kind::look_behind;
      result.children.push_back(alternatives());
      const Node& inner = result.children.front();
      const bool one = inner.kind == Node::Kind::sequence && inner.children.size() == 1 &&
                       inner.children.front().kind == Node::Kind::set;
      if (!one) fail("looks behind for more than one character, which is not supported");
    } else if (!ecmascript_ && accept(U"?>")) {
      Node once;
      once.kind = Node::Kind::repeat;
      once.least = once.most = 1;
      once.greed = Node::Greed::possessive;
      once.children.push_back(alternatives());
      result = std::move(once);
    } else if (ecmascript_ && accept(U"?<")) {
      while (take() != U'>') {
      }
      result = alternatives();
    } else if (peek() == U'?') {
      fail("has a group that is not supported");
    } else {
      result = alternatives();
    }
    no_case_ = outer;
    if (!accept(U")")) fail("lacks a )");
    return result;
  }

  Node atom() {
    Node result;
    result.kind = Node::Kind::set;
    const char32_t c = take();
    switch (c) {
      case U'(': return group();
      case U'[': result.set = bracket(); break;
      case U'.':
        result.set.ranges.push_back({U'\n', U'\n'});
        if (ecmascript_) result.set.ranges.insert(result.set.ranges.end(), {{U'\r', U'\r'}, {0x2028, 0x2029}});
        result.set.inverted = true;
        break;
      case U'^': result.kind = Node::Kind::start; break;
      case U'$': result.kind = Node::Kind::end; break;
      case U'*':
      case U'+':
      case U'?': fail("has a quantifier with nothing before it");
      case U'\\': result.set = escape(); break;
      default: result.set.ranges.push_back({c, c});
    }
    result.set.no_case = no_case_;
    return result;
  }

  CharacterSet one(char32_t c) const {
    CharacterSet set;
    set.ranges.push_back({c, c});
    return set;
  }

  // ASCII's digits and words.
  static CharacterSet ecmascript_class(char32_t c) {
    CharacterSet set;
    set.inverted = c < U'a';
    switch (c | 0x20) {
      case U'd': set.ranges = {{U'0', U'9'}}; break;
      case U'w': set.ranges = {{U'0', U'9'}, {U'A', U'Z'}, {U'_', U'_'}, {U'a', U'z'}}; break;
      default:
        set.ranges = {{U'\t', U'\r'}, {0x2028, 0x2029}, {0xfeff, 0xfeff}};
        set.categories = mask_of(Category::Zs);
    }
    return set;
  }

  // Behind a backslash.
  CharacterSet escape() {
    CharacterSet set;
    const char32_t c = take();
    if (ecmascript_ && std::u32string_view(U"sSdDwW").find(c) != std::u32string_view::npos) return ecmascript_class(c);
    switch (c) {
      case U'n': return one(U'\n');
      case U'r': return one(U'\r');
      case U't': return one(U'\t');
      case U'f': return one(U'\f');
      case U'v': return one(U'\v');
      case U'x': return one(hexadecimal(2));
      case U'u': return one(utf16());
      case U's':
      case U'S':
        set.spaces = true;
        set.inverted = c == U'S';
        return set;
      case U'd':
      case U'D':
        set.categories = mask_of(Category::Nd);
        set.inverted = c == U'D';
        return set;
      case U'w':
      case U'W':
        set.words = true;
        set.inverted = c == U'W';
        return set;
      case U'p':
      case U'P': return property(c == U'P');
      default: break;
    }
    if ((c >= U'1' && c <= U'9') || c == U'k') fail("has a backreference, which is not supported");
    if (c == U'b' || c == U'B') fail("has a word boundary, which is not supported");
    const bool letter = (c >= U'a' && c <= U'z') || (c >= U'A' && c <= U'Z') || (c >= U'0' && c <= U'9');
    if (letter) fail(fmt::format("has the escape \\{}, which is not supported", static_cast<char>(c)));
    return one(c);
  }

  // Behind "\u": ECMAScript writes characters of 17 bits and more as two, too.
  char32_t utf16() {
    const char32_t first = hexadecimal(4);
    if (!ecmascript_ || first < 0xd800 || first > 0xdfff) return first;
    const char32_t second = accept(U"\\u") ? hexadecimal(4) : 0;
    if (first > 0xdbff || second < 0xdc00 || second > 0xdfff) fail("has a half of a surrogate pair");
    return 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
  }

  char32_t hexadecimal(int digits) {
    const bool braces = accept(U"{");
    char32_t value = 0;
    for (int i = 0; braces ? peek() != U'}' : i < digits; ++i) {
      const char32_t c = take();
      const char32_t lower = c | 0x20;
      const bool digit = c >= U'0' && c <= U'9';
      if ((!digit && (lower < U'a' || lower > U'f')) || value > 0x10ffff) fail("has a number that is none");
      value = value * 16 + (digit ? c - U'0' : lower - U'a' + 10);
    }
    if (braces) take();
    return value;
  }

  CharacterSet property(bool inverted) {
    std::string name;
    if (accept(U"{")) {
      if (accept(U"^")) inverted = !inverted;
      while (more() && peek() != U'}') name += encode_utf8(take());
      take();
    } else {
      name = encode_utf8(take());
    }
    CharacterSet set;
    set.inverted = inverted;
    if (name == "Han") {  // The script, as far as its letters and marks go.
      for (const auto& [first, last] : {std::pair{0x2e80u, 0x2e99u},
                                        {0x2e9b, 0x2ef3},
                                        {0x2f00, 0x2fd5},
                                        {0x3005, 0x3005},
                                        {0x3007, 0x3007},
                                        {0x3021, 0x3029},
                                        {0x3038, 0x303b},
                                        {0x3400, 0x4dbf},
                                        {0x4e00, 0x9fff},
                                        {0xf900, 0xfa6d},
                                        {0xfa70, 0xfad9},
                                        {0x16fe2, 0x16fe3},
                                        {0x16ff0, 0x16ff1},
                                        {0x20000, 0x2a6df},
                                        {0x2a700, 0x2b739},
                                        {0x2b740, 0x2b81d},
                                        {0x2b820, 0x2cea1},
                                        {0x2ceb0, 0x2ebe0},
                                        {0x2ebf0, 0x2ee5d},
                                        {0x2f800, 0x2fa1d},
                                        {0x30000, 0x3134a},
                                        {0x31350, 0x323af}}) {
        set.ranges.push_back({first, last});
      }
      return set;
    }
    const std::optional<std::uint32_t> mask = category_mask(name);
    if (!mask) fail("has a property that is not supported");
    set.categories = *mask;
    return set;
  }

  // Behind "[".
  CharacterSet bracket() {
    if (++nesting_ > kMaxNesting) fail("is nested too deep");
    CharacterSet set;
    set.inverted = accept(U"^");
    bool first = true;
    while ((first && !ecmascript_) || peek() != U']') {
      if (!more()) fail("lacks a ]");
      first = false;
      if (!ecmascript_ && accept(U"&&")) {
        CharacterSet rest;
        while (more() && peek() != U']') add_item(rest);
        set.and_with.push_back(std::move(rest));
        break;
      }
      add_item(set);
    }
    if (!accept(U"]")) fail("lacks a ]");
    --nesting_;
    return set;
  }

  static bool is_single(const CharacterSet& set) {
    return set.ranges.size() == 1 && set.ranges[0].first == set.ranges[0].last && !set.inverted;
  }

  CharacterSet class_escape() { return ecmascript_ && accept(U"b") ? one(U'\b') : escape(); }

  void add_item(CharacterSet& set) {
    if (!ecmascript_ && accept(U"[:")) fail("has a POSIX class, which is not supported");
    if (!ecmascript_ && accept(U"[")) {
      CharacterSet inner = bracket();
      inner.no_case = no_case_;
      set.parts.push_back(std::move(inner));
      return;
    }
    const char32_t c = take();
    const CharacterSet item = c == U'\\' ? class_escape() : one(c);
    if (!is_single(item)) {
      set.parts.push_back(item);
      return;
    }
    const char32_t low = item.ranges[0].first;
    char32_t high = low;
    // A minus at the end is itself.
    if (peek() == U'-' && at_ + 1 < text_.size() && text_[at_ + 1] != U']') {
      take();
      const char32_t end = take();
      const CharacterSet last = end == U'\\' ? class_escape() : one(end);
      if (!is_single(last)) fail("has a range whose end is a class");
      high = last.ranges[0].first;
      if (high < low) fail("has a range whose ends are in the wrong order");
    }
    set.ranges.push_back({low, high});
  }

  std::string_view pattern_;
  std::u32string text_;
  std::size_t at_ = 0;
  int nesting_ = 0;
  bool ecmascript_ = false;
  bool no_case_ = false;
};

}  // namespace

RegexNode parse_regex(std::string_view pattern, RegexDialect dialect) {
  return Parser(pattern, dialect).parse();
}

}  // namespace text
}  // namespace v0
}  // namespace lockstep

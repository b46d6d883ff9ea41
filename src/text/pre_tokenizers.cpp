#include <algorithm>
#include <array>
#include <memory>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "core/checked.h"
#include "text/regex.h"
#include "text/split_patterns.h"
#include "text/steps.h"
#include "text/unicode.h"

namespace lockstep {
inline namespace v0 {
namespace text {
namespace {

using io::JsonFields;

void put_in_front(Piece& piece, char32_t c) {
  piece.text.insert(0, 1, c);
  if (piece.front > 0) ++piece.front;
}

/// What becomes of the delimiters that a text is split at.
enum class Behavior : std::uint8_t { removed, isolated, merged_with_previous, merged_with_next, contiguous };

struct Part {
  std::size_t begin;
  std::size_t end;
  bool delimiter;
};

// Matches and what stands between them, in order.
std::vector<Part> parts_of(const std::vector<Match>& matches, std::size_t size) {
  std::vector<Part> parts;
  std::size_t from = 0;
  for (const Match& match : matches) {
    if (match.begin > from) parts.push_back({from, match.begin, false});
    parts.push_back({match.begin, match.end, true});
    from = match.end;
  }
  if (from < size) parts.push_back({from, size, false});
  return parts;
}

std::vector<Part> join(const std::vector<Part>& parts, Behavior behavior) {
  std::vector<Part> result;
  bool before = false;  // whether the part before was a delimiter
  for (const Part& part : parts) {
    switch (behavior) {
      case Behavior::removed:
        if (!part.delimiter) result.push_back(part);
        break;
      case Behavior::isolated: result.push_back(part); break;
      case Behavior::contiguous:
        if (!result.empty() && before == part.delimiter) {
          result.back().end = part.end;
        } else {
          result.push_back(part);
        }
        break;
      case Behavior::merged_with_previous:
        if (part.delimiter && !before && !result.empty()) {
          result.back().end = part.end;
        } else {
          result.push_back(part);
        }
        break;
      case Behavior::merged_with_next: result.push_back(part); break;
    }
    before = part.delimiter;
  }
  if (behavior != Behavior::merged_with_next) return result;
  // From the back: a delimiter joins what follows it, unless that is a delimiter, too.
  std::vector<Part> merged;
  before = false;
  for (std::size_t i = result.size(); i-- > 0;) {
    if (result[i].delimiter && !before && !merged.empty()) {
      merged.back().begin = result[i].begin;
    } else {
      merged.push_back(result[i]);
    }
    before = result[i].delimiter;
  }
  return {merged.rbegin(), merged.rend()};
}

/// Gives the matches in a text.
using Find = std::function<std::vector<Match>(const std::u32string&)>;

PreTokenizer splitter(Find find, Behavior behavior, bool invert = false) {
  return [find = std::move(find), behavior, invert](const std::vector<Piece>& pieces) {
    std::vector<Piece> result;
    for (const Piece& piece : pieces) {
      std::vector<Part> parts = parts_of(find(piece.text), piece.text.size());
      if (invert) {
        for (Part& part : parts) part.delimiter = !part.delimiter;
      }
      for (const Part& part : join(parts, behavior)) {
        if (part.end > part.begin) result.push_back(part_of(piece, part.begin, part.end));
      }
    }
    return result;
  };
}

// Each character that holds is a match.
template <typename Holds> Find each(Holds holds) {
  return [holds](const std::u32string& text) {
    std::vector<Match> result;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (holds(text[i])) result.push_back({i, i + 1});
    }
    return result;
  };
}

Find by_regex(std::string_view pattern, bool by_lines) {
  const auto regex = std::make_shared<Regex>(pattern, by_lines);
  return [regex](const std::u32string& text) { return regex->all(text); };
}

// Runs of characters of words, and runs of others; white space is dropped.
PreTokenizer words_and_signs() {
  const Find find = [](const std::u32string& text) {
    const auto kind = [](char32_t c) { return is_word(c) ? 2 : is_space(c) ? 0 : 1; };
    std::vector<Match> result;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (kind(text[i]) == 0) continue;
      const bool joins = !result.empty() && result.back().end == i && kind(text[i - 1]) == kind(text[i]);
      if (joins) {
        result.back().end = i + 1;
      } else {
        result.push_back({i, i + 1});
      }
    }
    return result;
  };
  return splitter(find, Behavior::removed, true);
}

Behavior read_behavior(const JsonFields& fields) {
  const std::string name = fields.text_or("behavior", "Isolated");
  if (name == "Removed") return Behavior::removed;
  if (name == "Isolated") return Behavior::isolated;
  if (name == "MergedWithPrevious") return Behavior::merged_with_previous;
  if (name == "MergedWithNext") return Behavior::merged_with_next;
  if (name == "Contiguous") return Behavior::contiguous;
  fields.fail("behavior", fmt::format("{} is not supported", in_quotes(name)));
}

PreTokenizer split_pre_tokenizer(const JsonFields& fields) {
  const bool invert = fields.flag_or("invert", false);
  const JsonFields pattern = fields.object("pattern");
  if (pattern.has("Regex")) return splitter(by_regex(pattern.text("Regex"), true), read_behavior(fields), invert);
  const std::optional<std::u32string> what = decode_utf8(pattern.text("String"));
  if (!what || what->empty()) pattern.fail("String", "is empty, or not UTF-8");
  const Find find = [what = *what](const std::u32string& text) { return all_of(text, what); };
  return splitter(find, read_behavior(fields), invert);
}

PreTokenizer metaspace_pre_tokenizer(const JsonFields& fields) {
  const std::optional<std::u32string> mark = decode_utf8(fields.text_or("replacement", "\u2581"));
  if (!mark || mark->size() != 1) fields.fail("replacement", "is not one character");
  // Older files say it by a flag.
  const std::string usual = fields.flag_or("add_prefix_space", true) ? "always" : "never";
  const std::string scheme = fields.text_or("prepend_scheme", usual);
  if (scheme != "always" && scheme != "first" && scheme != "never") {
    fields.fail("prepend_scheme", fmt::format("{} is not supported", in_quotes(scheme)));
  }
  const bool split = fields.flag_or("split", true);
  const char32_t space = mark->front();
  const PreTokenizer by_mark = splitter(each([space](char32_t c) { return c == space; }), Behavior::merged_with_next);
  return [=](std::vector<Piece> pieces) {
    for (Piece& piece : pieces) {
      for (char32_t& c : piece.text) {
        if (c == U' ') c = space;
      }
      const bool wanted = scheme == "always" || (scheme == "first" && piece.front > 0);
      if (wanted && (piece.text.empty() || piece.text.front() != space)) put_in_front(piece, space);
    }
    return split ? by_mark(std::move(pieces)) : pieces;
  };
}

struct ByteTable {
  std::array<char32_t, 256> characters{};
  std::array<int, 0x144> bytes{};

  // Printable ones are themselves, the others follow from U+0100 on.
  ByteTable() {
    bytes.fill(-1);
    char32_t next = 0x100;
    for (int b = 0; b < 256; ++b) {
      const bool printable = (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
      const char32_t c = printable ? static_cast<char32_t>(b) : next++;
      characters[static_cast<std::size_t>(b)] = c;
      bytes[static_cast<std::size_t>(c)] = b;
    }
  }
};

const ByteTable& byte_table() {
  static const ByteTable table;
  return table;
}

// Punctuation, and ASCII's symbols.
bool is_sign(char32_t c) {
  const bool ascii = c < 0x80 && c > ' ' && c != 0x7f && !is_word(c);
  return ascii || is_bert_sign(c);
}

}  // namespace

Piece part_of(const Piece& piece, std::size_t begin, std::size_t end) {
  return {piece.text.substr(begin, end - begin), piece.front > begin ? std::min(piece.front, end) - begin : 0};
}

PreTokenizer bert_pre_tokenizer() {
  const PreTokenizer words = splitter(each(is_space), Behavior::removed);
  const PreTokenizer signs = splitter(each(is_sign), Behavior::isolated);
  return [words, signs](std::vector<Piece> pieces) { return signs(words(std::move(pieces))); };
}

char32_t character_of_byte(unsigned char byte) {
  return byte_table().characters[byte];
}

int byte_of_character(char32_t c) {
  return c < byte_table().bytes.size() ? byte_table().bytes[static_cast<std::size_t>(c)] : -1;
}

PreTokenizer split_by(std::string_view pattern) {
  return splitter(by_regex(pattern, false), Behavior::isolated);
}

PreTokenizer byte_level(bool add_prefix_space, bool use_regex) {
  const PreTokenizer split = use_regex ? split_by(kGpt2Pattern) : nullptr;
  return [=](std::vector<Piece> pieces) {
    for (Piece& piece : pieces) {
      if (add_prefix_space && (piece.text.empty() || piece.text.front() != U' ')) put_in_front(piece, U' ');
    }
    if (split) pieces = split(std::move(pieces));
    for (Piece& piece : pieces) {
      piece.front = encode_utf8(std::u32string_view(piece.text).substr(0, piece.front)).size();
      std::u32string bytes;
      for (const char byte : encode_utf8(piece.text)) bytes += character_of_byte(static_cast<unsigned char>(byte));
      piece.text = std::move(bytes);
    }
    return pieces;
  };
}

PreTokenizer read_pre_tokenizer(const nlohmann::json* json, const std::string& where) {
  if (json == nullptr) return nullptr;
  const JsonFields fields(*json, where);
  const std::string type = fields.text("type");
  if (type == "ByteLevel")
    return byte_level(fields.flag_or("add_prefix_space", true), fields.flag_or("use_regex", true));
  if (type == "Metaspace") return metaspace_pre_tokenizer(fields);
  if (type == "Split") return split_pre_tokenizer(fields);
  if (type == "Whitespace") return words_and_signs();
  if (type == "WhitespaceSplit") return splitter(each(is_space), Behavior::removed);
  if (type == "Punctuation") return splitter(each(is_sign), read_behavior(fields));
  if (type == "Digits") {
    const bool single = fields.flag_or("individual_digits", false);
    return splitter(each(is_number), single ? Behavior::isolated : Behavior::contiguous);
  }
  if (type == "BertPreTokenizer") return bert_pre_tokenizer();
  if (type == "CharDelimiterSplit") {
    const std::optional<std::u32string> mark = decode_utf8(fields.text("delimiter"));
    if (!mark || mark->size() != 1) fields.fail("delimiter", "is not one character");
    return splitter(each([c = mark->front()](char32_t x) { return x == c; }), Behavior::removed);
  }
  if (type == "Sequence") {
    std::vector<PreTokenizer> steps;
    for (const auto& step : fields.array("pretokenizers")) steps.push_back(read_pre_tokenizer(&step, where));
    return [steps](std::vector<Piece> pieces) {
      for (const PreTokenizer& step : steps) pieces = step(std::move(pieces));
      return pieces;
    };
  }
  fields.fail("type", fmt::format("the pre-tokenizer {} is not supported", in_quotes(type)));
}

}  // namespace text
}  // namespace v0
}  // namespace lockstep
